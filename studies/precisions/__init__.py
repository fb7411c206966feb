"""What float32 products may be computed in, speed against error."""

OWN, BASELINE = "tilewright", "PyTorch float32"
"""How names of our ways begin, and the way that others are compared with."""
