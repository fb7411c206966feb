"""Names that parameters of kernels had before."""

RENAMED = {"SLICES": "K_SLICES", "BLOCKS": "MIN_BLOCKS", "PLACES": "A_BUFFERS"}
"""By its former name, a parameter's name now: users' configs, tables, journals and records may have either."""
