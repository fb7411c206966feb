"""Speed against error of everything that float32 products may be computed in."""

OWN, BASELINE = "tilewright", "PyTorch float32"
"""How names of our ways begin, and the way that others are compared with."""
