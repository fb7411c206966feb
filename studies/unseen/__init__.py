"""Products of shapes that no table has, next to PyTorch's."""
