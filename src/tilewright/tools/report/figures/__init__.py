"""Figures drawn from the accesses that a kernel makes, as SVG: see kernel_figure.py."""
