"""Rung 4, thread_tiled_1d: several results a thread, along a column or a row of C.

Sources: "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", kernel 4; "WorkLog: Optimizing GEMM"
(RTX 3060), which tiles along the row: tiles of 64 x 64, 64 deep and padded by a column, 4 neighbours a thread.
"""

from tilewright.kernels import tiling
from tilewright.kernels.kernel import Kernel, Parameter
from tilewright.kernels.support import Support

KERNEL = Kernel(
    rung=4,
    name="thread_tiled_1d",
    idea="several results a thread: a part of a column of C, with B's element in a register",
    parameters=(
        Parameter("BM", 64, (32, 64, 128), "rows of C that a block computes"),
        Parameter("BN", 64, (32, 64, 128), "columns of C that a block computes"),
        Parameter("BK", 8, (8, 16, 32), "how far along k a block's tiles of A and B reach"),
        Parameter("TM", 8, (1, 4, 8, 16), "rows of C that a thread computes"),
        Parameter("TN", 1, (1, 4, 8, 16), "columns of C that a thread computes"),
        tiling.PADDED_ROWS,
        Parameter("SPREAD", 1, (0, 1), "1: a thread's columns lie BN/TN apart, 0: they are neighbours", least=0),
    ),
    constraints={
        "TM or TN must be 1: tiling both ways is thread_tiled_2d": lambda c: c.TM == 1 or c.TN == 1,
        **tiling.DIVIDES,
        **tiling.loads_evenly(1, "the same number"),
        **tiling.PADDED_ROWS_FIT,
        "SPREAD must be 0 or 1": lambda c: c.SPREAD <= 1,
    },
    block=tiling.block,
    cost=tiling.STAGING,
    support=Support(vectorized=False),
    presets={"rtx3060": {"BM": 64, "BN": 64, "BK": 64, "TM": 1, "TN": 4, "PAD": 1, "SPREAD": 0}},
)
