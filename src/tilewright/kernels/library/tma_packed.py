"""Rung 15, tma_packed: A column-major and B row-major, copied so beforehand, and loaded to where they are read.

gemm_tma.cu is rung 18 too, which has boxes, constraints and shared memory from here.

Sources: the GotoBLAS papers for packing an operand ("Anatomy of High-Performance Matrix Multiplication", Goto and van
de Geijn, 2008); CUTLASS for visiting a thread's tile in serpentine; the PTX ISA manual's ldmatrix; the paper named in
`schedule` for sharing tiles.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tilewright.kernels import tiling
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Copying
from tilewright.kernels.kernel import TMA_ARGUMENTS, Constraints, Kernel, Parameter
from tilewright.kernels.library import schedule
from tilewright.kernels.support import EVERYTHING
from tilewright.kernels.tensor_box import TensorBox

COST = Copying(
    copies="tensor maps",
    fragment=tiling.fragment_of_4_by_8,
    transposes=True,
    workers=lambda config: config.WORKERS,
    min_blocks=lambda config: config.MIN_BLOCKS,
)

BARRIER_BYTES = 16  # and what the workers of a tile tell each other
_LOOP = 32  # k in the code of the inner loop, at most, so that it stays in the instruction cache


def boxes(config: Config, layout: str, sides: tuple[int, int]) -> tuple[TensorBox, TensorBox]:
    """Boxes of one load of A and of B, whose orders the layout says, as in 'NT'."""
    a = TensorBox(config.BM, config.BK) if layout[0] == "N" else TensorBox(config.BK, config.BM)
    b = TensorBox(config.BK, config.BN) if layout[1] == "N" else TensorBox(config.BN, config.BK)
    return a, b


def constraints(threads: Callable[[Config], int], shared_bytes: Callable[[Config], int]) -> Constraints:
    """Constraints of the source; threads and shared_bytes are a block's."""
    return {
        **tiling.WARPS_OF_4_BY_8,
        **tiling.FRAGMENTS_OF_FLOAT4,
        "BM, BN and BK must be at most 256, the extents of a tensor box": lambda c: max(c.BM, c.BN, c.BK) <= 256,
        **tiling.shared_memory_fits(
            lambda c: shared_bytes(c) + BARRIER_BYTES,
            "BK*((1+A_BUFFERS)*BM+2*BN) floats, or K_SLICES*BM*BN if more,",
        ),
        **tiling.registers_fit(threads),
    }


def shared_floats(config: Config, a_buffers: int, b_buffers: int, slices: int) -> int:
    """Floats of shared memory of a block: tiles of A and B; later the sums of all slices, or results to be stored.

    a_buffers, b_buffers: transposed tiles; 1 also for a factor with two tiles that are loaded to where they are read.
    """
    tiles = config.BK * ((1 + a_buffers) * config.BM + (1 + b_buffers) * config.BN)
    return max(tiles, slices * config.BM * config.BN)


def _shared_bytes(config: Config) -> int:
    return tiling.FLOAT_BYTES * shared_floats(config, a_buffers=1, b_buffers=1, slices=1)


KERNEL = Kernel(
    rung=15,
    name="tma_packed",
    idea="A packed, tiles by TMA: A is copied k-major, and the inner loop is shared loads and multiply-adds alone",
    source=Path(__file__).with_name("gemm_tma.cu"),
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
        **constraints(tiling.threads_of_4_by_8, _shared_bytes),
    },
    constants=lambda config: {
        "K_SLICES": 1,
        "A_BUFFERS": 1,
        "B_BUFFERS": 1,
        "BUNDLE": 1,
        "UNROLL": config.BK if config.BK <= _LOOP else config.BK // 2,
    },
    block=lambda config: (tiling.threads_of_4_by_8(config), 1, 1),
    cost=COST,
    support=replace(EVERYTHING, least_capability=(9, 0)),
    arguments=TMA_ARGUMENTS,
    shared_bytes=lambda config, layout: _shared_bytes(config),
    tensor_maps=boxes,
    relayouts=lambda config: ("column", "row"),
    overlaps=True,
    schedule=schedule.schedule,
    portfolio=({"BM": 64, "BN": 64, "BK": 16, "TM": 8, "TN": 8, "WORKERS": 0, "MIN_BLOCKS": 1},),
)

KERNELS = (KERNEL,)
