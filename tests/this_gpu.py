"""The GPU that tests/gpu run on, as far as it decides which tests there are. (0, 0): there is none."""

from tilewright.api.engines import cuda_unavailable, resolve_engine

CAPABILITY = (0, 0) if cuda_unavailable() else resolve_engine("cuda").capability
HAS_TENSOR_MAPS = [()] if CAPABILITY >= (9, 0) else []
"""For a parameter of tests that need them."""
