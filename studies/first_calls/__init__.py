"""The host's time in first calls of shapes, next to PyTorch's."""
