"""Arrays on the host: copied to a GPU and back in tiles while others are multiplied."""
