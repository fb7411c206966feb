"""Rung 7, conflict_free: rung 6 with the columns of B rearranged in shared memory.

Source: SGEMM_CUDA, kernel 7.
"""

from tilewright.kernels import tiling
from tilewright.kernels.kernel import Kernel

KERNEL = Kernel(
    rung=7,
    name="conflict_free",
    idea="B rearranged over banks: its columns in shared memory, so that stores and loads hit distinct ones",
    parameters=tiling.tile_parameters(128, 128, 8, 8, 8),
    constraints={
        **tiling.VECTOR_CONSTRAINTS,
        "TN must be a power of two: columns are permuted by exclusive or": lambda c: c.TN & (c.TN - 1) == 0,
    },
    block=tiling.block,
    cost=tiling.STAGING,
)
