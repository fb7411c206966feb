"""Rung 15, tma_packed: A column-major and B row-major, copied so beforehand, and loaded to where they are read.

Source: the GotoBLAS papers for packing an operand ("Anatomy of High-Performance Matrix Multiplication", Goto and van de
Geijn, 2008).
"""

from tilewright.kernels import tiling
from tilewright.kernels.library import gemm_tma, schedule
from tilewright.kernels.spec import TMA_ARGUMENTS, Config, Kernel, Parameter

_LOOP = 32  # k in the code of the inner loop, at most, so that it stays in the instruction cache


def _shared_bytes(config: Config) -> int:
    return tiling.FLOAT_BYTES * gemm_tma.shared_floats(config, a_buffers=1, b_buffers=1, slices=1)


KERNEL = Kernel(
    rung=15,
    name="tma_packed",
    idea="A copied k-major, tiles loaded by TMA: an inner loop of shared loads and multiply-adds alone",
    brief="A packed, tiles by TMA",
    source=gemm_tma.SOURCE,
    parameters=(
        Parameter("BM", 128, (64, 128, 256), "rows of D that a block computes"),
        Parameter("BN", 128, (64, 128, 256), "columns of D that a block computes"),
        Parameter("BK", 32, (16, 32, 48, 52, 56), "how far along k a block's tiles of A and B reach"),
        Parameter("TM", 8, (8, 16), "rows of D that a thread computes"),
        Parameter("TN", 8, (8, 16), "columns of D that a thread computes"),
        schedule.parameter(2, (0, 1, 2)),
        Parameter("MIN_BLOCKS", 2, (1, 2, 3, 4), "blocks that a multiprocessor must hold, which bounds the registers"),
    ),
    constraints={
        "32*(BM/(4*TM))*(BN/(8*TN)) must be at most 1024, a block's threads": lambda c: (
            tiling.threads_of_4_by_8(c) <= 1024
        ),
        "BM must be a multiple of threads/8: warps store results four rows at a time": lambda c: (
            c.BM % max(tiling.threads_of_4_by_8(c) // 8, 1) == 0
        ),
        "BK must be a multiple of 2, above 32 of 4: the loop, over BK or BK/2 k, "
        "alternates between two fragments": lambda c: c.BK % (2 if c.BK <= _LOOP else 4) == 0,
        **gemm_tma.constraints(tiling.threads_of_4_by_8, _shared_bytes),
    },
    constants=lambda config: {
        "K_SLICES": 1,
        "A_BUFFERS": 1,
        "B_BUFFERS": 1,
        "BUNDLE": 1,
        "UNROLL": config.BK if config.BK <= _LOOP else config.BK // 2,
    },
    block=lambda config: (tiling.threads_of_4_by_8(config), 1, 1),
    cost=gemm_tma.COST,
    takes=gemm_tma.TAKES,
    arguments=TMA_ARGUMENTS,
    shared_bytes=lambda config, layout: _shared_bytes(config),
    tensor_maps=gemm_tma.boxes,
    relayouts=lambda config: ("column", "row"),
    overlaps=True,
    blocks=schedule.blocks,
    division=schedule.divide,
    workspace_bytes=schedule.workspace_bytes,
)
