"""What a GPU sustains at its power limit."""
