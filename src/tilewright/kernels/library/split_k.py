"""Rung 16, split_k: k divided among the warps of a block and among blocks.

Sources: CUTLASS, "Efficient GEMM in CUDA", for sliced-K; the paper named in `stream_k` for sharing tiles.
"""

from pathlib import Path

from tilewright.kernels import tiling
from tilewright.kernels.families import Copying
from tilewright.kernels.library import stream_k
from tilewright.kernels.spec import RUNG_ARGUMENTS, Config, Constraint, Kernel, Parameter
from tilewright.kernels.takes import Takes

_PAD = 4
_WARP = 32
_COPY_M, _COPY_K = 2, 16  # how lanes stand over the tile of A when they copy it


def _warps(config: Config) -> int:
    """Warps that compute a tile together."""
    lanes_n = _WARP // config.LANES_M
    return config.BM // (config.LANES_M * config.TM) * (config.BN // (lanes_n * config.TN))


def _threads(config: Config) -> int:
    return _WARP * _warps(config) * config.SLICES


def _shared_bytes(config: Config) -> int:
    """The stages, or in their place the sums of all slices, or results on their way to unaligned rows."""
    stages = tiling.FLOAT_BYTES * config.STAGES * config.BK * (config.BM + _PAD + config.BN)
    sums = tiling.FLOAT_BYTES * config.SLICES * config.BM * config.BN if config.SLICES > 1 else 0
    return max(stages, sums, tiling.result_tile_bytes(config))


def _copies_evenly(config: Config) -> bool:
    warps = _warps(config) * config.SLICES
    along_m, along_n = min(warps, config.BM // _COPY_M), min(warps, config.BN // 32)
    of_b = 4 * _WARP * warps  # elements that all threads copy at a time where rows are aligned
    return (
        warps % along_m == 0
        and config.BM % (_COPY_M * along_m) == 0
        and config.BK % (_COPY_K * (warps // along_m)) == 0
        and warps % along_n == 0
        and config.BN % (32 * along_n) == 0
        and config.BK % (warps // along_n) == 0
        and of_b % config.BN == 0
        and (config.BK * config.BN % of_b == 0 or of_b > config.BK * config.BN)
    )


KERNEL = Kernel(
    rung=16,
    name="split_k",
    idea="k divided among warps and among blocks, so that small and skinny products fill the GPU",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("BM", 64, (16, 32, 64, 128), "rows of C that a block computes"),
        Parameter("BN", 64, (32, 64, 128), "columns of C that a block computes"),
        Parameter("BK", 32, (16, 32, 64), "how far along k a block's tiles of A and B reach"),
        Parameter("TM", 4, (4, 8), "rows of C that a thread computes"),
        Parameter("TN", 8, (4, 8), "columns of C that a thread computes"),
        Parameter("LANES_M", 4, (4,), "of a warp's 32 lanes, how many stand along m"),
        Parameter("SLICES", 1, (1, 2, 4), "groups of warps that divide the steps along k among them"),
        Parameter("STAGES", 3, (2, 3), "tiles of A and B that are in shared memory or on their way", least=2),
        stream_k.parameter(0, (0, 1, 264, 396, 528)),
        Parameter("BLOCKS", 2, (2, 3, 4), "blocks that a multiprocessor shall hold, which bounds the registers"),
    ),
    constraints=(
        Constraint(lambda c: c.LANES_M in (2, 4, 8, 16), "LANES_M must be 2, 4, 8 or 16: lanes stand in pairs along m"),
        Constraint(lambda c: c.BM % (c.LANES_M * c.TM) == 0, "BM must be a multiple of LANES_M*TM, a warp's rows"),
        Constraint(
            lambda c: c.BN % (_WARP // max(c.LANES_M, 1) * c.TN) == 0,
            "BN must be a multiple of (32/LANES_M)*TN, a warp's columns",
        ),
        Constraint(lambda c: c.TM % c.SLICES == 0, "TM must be a multiple of SLICES, which share the rows"),
        Constraint(lambda c: c.BN % 32 == 0, "BN must be a multiple of 32: a warp copies so many columns of B"),
        *tiling.FRAGMENTS_OF_FOURS,
        Constraint(
            lambda c: c.BK % (2 * c.SLICES) == 0,
            "BK must be a multiple of 2*SLICES: fragments take turns in two sets of registers",
        ),
        Constraint(
            lambda c: 32 <= _threads(c) <= 1024,
            "32*SLICES*(BM/(LANES_M*TM))*(BN/((32/LANES_M)*TN)) must be 32 to 1024, a block's threads",
        ),
        Constraint(
            lambda c: _threads(c) >= 32 and _copies_evenly(c),
            "BM, BN and BK must be such that the block's warps copy equally many pieces: of 2 rows and 16 of k of A's "
            "tile, and of 32 columns of B's",
        ),
        tiling.shared_memory_fits(_shared_bytes, "STAGES*BK*(BM+4+BN) floats, or SLICES*BM*BN if more,"),
        tiling.registers_fit(_threads),
    ),
    tile=tiling.tile,
    block=lambda config: (_threads(config), 1, 1),
    cost=Copying(
        copies="cp.async",
        fragment=tiling.fragment_of_4_by_8,
        transposes=True,
        stages=lambda config: config.STAGES,
        k_slices=lambda config: config.K_SLICES,
        workers=lambda config: config.WORKERS,
        min_blocks=lambda config: config.MIN_BLOCKS,
    ),
    vectorized=True,
    overlaps=True,
    takes=Takes(least_capability=(8, 0)),
    arguments=(*RUNG_ARGUMENTS, "sums", "tickets"),
    shared_bytes=_shared_bytes,
    blocks=stream_k.blocks,
    workspace_bytes=stream_k.workspace_bytes,
    presets={
        "tiny": {"BM": 16, "BN": 32, "BK": 64, "TM": 4, "TN": 4, "SLICES": 4, "STAGES": 3, "WAVE": 0, "BLOCKS": 4},
        "small": {"BM": 16, "BN": 128, "BK": 32, "TM": 4, "TN": 8, "SLICES": 2, "STAGES": 3, "WAVE": 0, "BLOCKS": 4},
        "medium": {"BM": 64, "BN": 128, "BK": 32, "TM": 8, "TN": 8, "SLICES": 2, "STAGES": 3, "WAVE": 1, "BLOCKS": 2},
        "uneven": {"BM": 32, "BN": 128, "BK": 32, "TM": 8, "TN": 8, "SLICES": 2, "STAGES": 3, "WAVE": 0, "BLOCKS": 3},
        "odd": {"BM": 64, "BN": 64, "BK": 16, "TM": 8, "TN": 4, "SLICES": 1, "STAGES": 2, "WAVE": 396, "BLOCKS": 3},
        "flat": {"BM": 64, "BN": 128, "BK": 16, "TM": 8, "TN": 8, "SLICES": 1, "STAGES": 2, "WAVE": 1, "BLOCKS": 4},
        "tall": {"BM": 64, "BN": 64, "BK": 32, "TM": 8, "TN": 8, "SLICES": 2, "STAGES": 2, "WAVE": 1, "BLOCKS": 4},
        "deep": {"BM": 32, "BN": 128, "BK": 32, "TM": 8, "TN": 8, "SLICES": 2, "STAGES": 2, "WAVE": 396, "BLOCKS": 3},
        "few_rows": {
            "BM": 16,
            "BN": 32,
            "BK": 64,
            "TM": 4,
            "TN": 4,
            "SLICES": 4,
            "STAGES": 3,
            "WAVE": 528,
            "BLOCKS": 4,
        },
        "large": {"BM": 128, "BN": 128, "BK": 32, "TM": 8, "TN": 8, "SLICES": 1, "STAGES": 2, "WAVE": 264, "BLOCKS": 2},
    },
)
