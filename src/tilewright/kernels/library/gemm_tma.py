"""What the kernels of gemm_tma.cu (rungs 15 and 18) have in common: source, types, boxes, geometry, constraints.

Sources: CUTLASS for visiting a thread's tile in serpentine; the PTX ISA manual's ldmatrix; the paper named in
`schedule` for sharing tiles.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tilewright.kernels import tiling
from tilewright.kernels.families import Copying
from tilewright.kernels.spec import Config, Constraints, TensorBox
from tilewright.kernels.takes import EVERYTHING

SOURCE = Path(__file__).with_suffix(".cu")

COST = Copying(
    copies="tensor maps",
    fragment=tiling.fragment_of_4_by_8,
    transposes=True,
    workers=lambda config: config.WORKERS,
    min_blocks=lambda config: config.MIN_BLOCKS,
)

TAKES = replace(EVERYTHING, least_capability=(9, 0))

BARRIER_BYTES = 16  # and what the workers of a tile tell each other


def boxes(config: Config, layout: str, sides: tuple[int, int]) -> tuple[TensorBox, TensorBox]:
    """What one load moves of A and of B, whose orders the layout says, as in 'NT'."""
    a = TensorBox(config.BM, config.BK) if layout[0] == "N" else TensorBox(config.BK, config.BM)
    b = TensorBox(config.BK, config.BN) if layout[1] == "N" else TensorBox(config.BN, config.BK)
    return a, b


def constraints(threads: Callable[[Config], int], shared_bytes: Callable[[Config], int]) -> Constraints:
    """Those of the source; threads and shared_bytes are a block's."""
    return {
        **tiling.WARPS_OF_4_BY_8,
        **tiling.FRAGMENTS_OF_FOURS,
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
