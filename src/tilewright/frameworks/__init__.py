"""Array libraries: how the arrays of each are read, and what it records; table.py lists them."""
