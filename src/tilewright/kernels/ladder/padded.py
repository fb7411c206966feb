"""Rung 8, padded: rung 6 with extra columns in the shared tile of B.

Source: SGEMM_CUDA, the public code of "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", kernel 8,
whose tile of B has 5 extra columns.
"""

from tilewright.kernels import tiling
from tilewright.kernels.kernel import Kernel, Parameter

KERNEL = Kernel(
    rung=8,
    name="padded",
    idea="B padded over banks: extra columns in its shared tile, to the same end",
    parameters=(
        *tiling.tile_parameters(128, 128, 8, 8, 8),
        Parameter("PAD", 5, (0, 4, 5), "unused columns added to the rows of B in shared memory", least=0),
    ),
    constraints=tiling.VECTOR_CONSTRAINTS,
    block=tiling.block,
    cost=tiling.STAGING,
)
