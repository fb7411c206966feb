"""Rung 16, split_k: k divided among the warps of a block and among blocks.

Sources: CUTLASS, "Efficient GEMM in CUDA", for sliced-K; the paper named in `schedule` for sharing tiles.
"""

from dataclasses import replace

from tilewright.core.hardware import WARP
from tilewright.kernels import tiling
from tilewright.kernels.config import Config, listed_configs, named_configs
from tilewright.kernels.cost_family import Copying
from tilewright.kernels.kernel import LIBRARY_ARGUMENTS, Kernel, Parameter
from tilewright.kernels.library import schedule
from tilewright.kernels.support import EVERYTHING

_VECTOR = 4  # floats of a 16-byte copy
_PAIR = 2  # floats of a complex element


def _threads(config: Config) -> int:
    return tiling.threads_of_4_by_8(config) * config.K_SLICES


def _tile_elements(side: int, depth: int) -> int:
    """TILE_ELEMENTS of tile_copy.cuh, at most: for every two k of a factor that is transposed, 4 more."""
    return depth * side + depth // 2 * 4


def _shared_bytes(config: Config, floats: int = 1) -> int:
    """The stages, or in their place the sums of all slices, or results on their way to unaligned rows. floats: of an
    element of A or B."""
    depth = config.BK // floats
    tiles = _tile_elements(config.BM, depth) + _tile_elements(config.BN // floats, depth)
    sums = config.K_SLICES * config.BM * config.BN
    return tiling.FLOAT_BYTES * max(config.STAGES * floats * tiles, sums)


def _copies_evenly(config: Config, side: int, floats: int = 1) -> bool:
    """Whether the block's threads cover a tile of `side` rows of A or columns of B, in either order (TileCopy), of
    elements of this many floats."""
    threads, depth, lines, run = _threads(config), config.BK // floats, 2 * floats, 16 // floats
    warps = threads // WARP
    warps_side = min(warps, max(side // lines, 1))
    if warps % warps_side or side % (lines * warps_side) or depth % (run * (warps // warps_side)):
        return False
    for pieces in (side * floats // _VECTOR, side):  # in a row, by 16 bytes and by elements
        abreast = min(threads, pieces)
        rows = threads // abreast
        if pieces % abreast or threads % abreast or (depth % rows and rows <= depth) or (rows > 1 and rows % 2):
            return False
    return True


KERNEL = Kernel(
    rung=16,
    name="split_k",
    idea="k divided among blocks: and among warps, so that small and skinny products fill the GPU",
    parameters=(
        Parameter("BM", 64, (16, 32, 64, 128), "rows of D that a block computes"),
        Parameter("BN", 64, (32, 64, 128), "columns of D that a block computes"),
        Parameter("BK", 32, (16, 32, 64), "how far along k a block's tiles of A and B reach"),
        Parameter("TM", 4, (4, 8), "rows of D that a thread computes"),
        Parameter("TN", 8, (4, 8), "columns of D that a thread computes"),
        Parameter("K_SLICES", 1, (1, 2, 4), "groups of warps that divide the k of every tile among them"),
        Parameter("STAGES", 3, (2, 3), "tiles of A and B that are in shared memory or in flight", least=2),
        schedule.parameter(0, (0, 2, 3, 4)),
        Parameter("MIN_BLOCKS", 2, (2, 3, 4), "blocks that a multiprocessor must hold, which bounds the registers"),
    ),
    constraints={
        **tiling.WARPS_OF_4_BY_8,
        "TM must be a multiple of K_SLICES, which divide a thread's rows": lambda c: c.TM % c.K_SLICES == 0,
        **tiling.FRAGMENTS_OF_FLOAT4,
        "BK must be a multiple of 2*K_SLICES: fragments alternate between two sets of registers": lambda c: (
            c.BK % (2 * c.K_SLICES) == 0
        ),
        "32*K_SLICES*(BM/(4*TM))*(BN/(8*TN)) must be 32 to 1024, a block's threads": lambda c: (
            WARP <= _threads(c) <= 1024
        ),
        "BM, BN and BK must be such that the block's threads copy equally much of every tile, in either order: "
        "2 rows or columns and 16 of k a warp, or whole rows in memory": lambda c: (
            _threads(c) >= WARP and _copies_evenly(c, c.BM) and _copies_evenly(c, c.BN)
        ),
        **tiling.shared_memory_fits(_shared_bytes, "STAGES*BK*(BM+BN+4) floats, or K_SLICES*BM*BN if more,"),
        **tiling.registers_fit(_threads),
    },
    block=lambda config: (_threads(config), 1, 1),
    sums=tiling.sums_of_slices,
    cost=Copying(
        copies="cp.async",
        fragment=tiling.fragment_of_4_by_8,
        transposes=True,
        stages=lambda config: config.STAGES,
        k_slices=lambda config: config.K_SLICES,
        workers=lambda config: config.WORKERS,
        min_blocks=lambda config: config.MIN_BLOCKS,
    ),
    overlaps=True,
    support=EVERYTHING,
    arguments=LIBRARY_ARGUMENTS,
    constants=lambda config: {"COMPLEX": 0, "CONJUGATE_A": 0, "CONJUGATE_B": 0},
    shared_bytes=lambda config, layout: _shared_bytes(config),
    schedule=schedule.schedule,
    presets=named_configs(
        "BM BN BK TM TN K_SLICES STAGES WORKERS MIN_BLOCKS",
        {
            "tiny": (16, 32, 64, 4, 4, 4, 3, 0, 4),
            "small": (16, 128, 32, 4, 8, 2, 3, 0, 4),
            "medium": (64, 128, 32, 8, 8, 2, 3, 0, 2),
            "uneven": (32, 128, 32, 8, 8, 2, 3, 0, 3),
            "odd": (64, 64, 16, 8, 4, 1, 2, 3, 3),
            "flat": (64, 128, 16, 8, 8, 1, 2, 0, 4),
            "tall": (64, 64, 32, 8, 8, 2, 2, 0, 4),
            "deep": (32, 128, 32, 8, 8, 2, 2, 3, 3),
            "few_rows": (16, 32, 64, 4, 4, 4, 3, 4, 4),
            "large": (128, 128, 32, 8, 8, 1, 2, 2, 2),
        },
    ),
    portfolio=listed_configs(
        "BM BN BK TM TN K_SLICES STAGES WORKERS MIN_BLOCKS",
        (
            (32, 64, 32, 8, 4, 2, 2, 3, 3),
            (16, 32, 32, 4, 4, 4, 4, 0, 4),
            (64, 64, 16, 8, 8, 2, 3, 0, 1),
            (16, 32, 64, 4, 4, 4, 3, 2, 4),
            (32, 32, 32, 8, 4, 4, 3, 0, 2),
            (16, 32, 64, 4, 4, 4, 3, 0, 4),
            (64, 128, 16, 8, 8, 1, 3, 0, 4),
            (16, 64, 32, 4, 4, 2, 3, 0, 2),
            (64, 32, 32, 8, 4, 2, 2, 3, 3),
            (16, 64, 64, 4, 8, 4, 3, 2, 3),
            (32, 128, 16, 8, 8, 1, 2, 0, 8),
            (64, 64, 32, 4, 8, 1, 3, 0, 2),
            (16, 64, 64, 4, 8, 4, 3, 0, 2),
            (16, 32, 16, 4, 4, 2, 3, 0, 2),
            (32, 32, 32, 8, 4, 4, 3, 2, 1),
            (32, 64, 64, 8, 4, 4, 2, 1, 2),
        ),
    ),
)

COMPLEX = replace(
    KERNEL,
    rung=0,
    name="split_k_complex",
    idea="split_k for complex64: tiles of (re, im) pairs, each of B multiplied by both parts of A",
    parameters=(
        *KERNEL.parameters,
        Parameter("CONJUGATE_A", 0, (0, 1), "whether A is conjugated", least=0),
        Parameter("CONJUGATE_B", 0, (0, 1), "whether B is conjugated", least=0),
    ),
    constraints={
        **KERNEL.constraints,
        "BK must be a multiple of 4*K_SLICES: fragments of pairs alternate too": lambda c: c.BK % (4 * c.K_SLICES) == 0,
        "BM, BN and BK must be such that the block's threads copy equally many pairs of every tile, in either order: 4 "
        "rows or columns and 8 of k a warp, or whole rows in memory": lambda c: (
            _copies_evenly(c, c.BM, _PAIR) and _copies_evenly(c, c.BN // _PAIR, _PAIR)
        ),
    },
    constants=lambda config: {"COMPLEX": 1},
    shared_bytes=lambda config, layout: _shared_bytes(config, _PAIR),
    presets={},
    portfolio=(),
)
"""The kernel of a complex product that `runtime/complex_factors.py` puts in the place of the real one's: problem, tile
and config are those of the real product, m x 2n x 2k, and A and B those of the complex one, as floats."""

KERNELS = (KERNEL,)
