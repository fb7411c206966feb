"""The version of tilewright."""

__version__ = "0.1.0"
