"""Rung 5, thread_tiled_2d: a TM x TN tile of C a thread.

Sources: "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", kernel 5; "WorkLog: Optimizing GEMM"
(RTX 3060), whose tiles are 64 deep and padded by a column.
"""

from tilewright.kernels import tiling
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Support

KERNEL = Kernel(
    rung=5,
    name="thread_tiled_2d",
    idea="TM x TN results a thread: fragments of A and B lie in registers",
    parameters=(*tiling.tile_parameters(128, 128, 8, 8, 8), tiling.PADDED_ROWS),
    constraints={
        **tiling.DIVIDES,
        **tiling.loads_evenly(1, "the same number"),
        **tiling.PADDED_ROWS_FIT,
    },
    block=tiling.block,
    cost=tiling.STAGING,
    support=Support(vectorized=False),
    presets={"rtx3060": {"BM": 64, "BN": 64, "BK": 64, "TM": 4, "TN": 4, "PAD": 1}},
)
