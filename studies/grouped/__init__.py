"""Grouped products next to PyTorch's."""
