"""Rung 18, tma_transposed: A brought as it lies in memory and transposed between two places in shared memory.

Sources: the PTX ISA manual's ldmatrix; the paper named in `stream_k` for sharing tiles.
"""

from pathlib import Path

from tilewright.kernels import tiling
from tilewright.kernels.families import Copying
from tilewright.kernels.library import stream_k
from tilewright.kernels.spec import Config, Constraint, Kernel, Parameter, TensorBox, Tile
from tilewright.kernels.takes import Takes


def _run(config: Config) -> int:
    """Rows of A that one load of matrices takes pieces of, so that they lie on distinct banks."""
    return 1 if config.BK % 32 == 0 else 2 if config.BK % 16 == 0 else 4


def _threads(config: Config) -> int:
    return config.SLICES * tiling.threads_of_4_by_8(config)


def _shared_bytes(config: Config) -> int:
    """Tiles of A, one of them as it came, and two of B; at the end of a tile of C, all slices' sums in their place."""
    tiles = config.BK * ((1 + config.PLACES) * config.BM + 2 * config.BN)
    sums = config.SLICES * config.BM * config.BN if config.SLICES > 1 else 0
    return max(tiling.FLOAT_BYTES * max(tiles, sums), tiling.result_tile_bytes(config))


KERNEL = Kernel(
    rung=18,
    name="tma_transposed",
    idea="nothing packed: TMA brings A as it lies, and loads of matrices transpose it while it is multiplied",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("BM", 64, (32, 64, 128), "rows of C that a block computes"),
        Parameter("BN", 128, (64, 128), "columns of C that a block computes"),
        Parameter("BK", 64, (32, 48, 64, 128), "how far along k a block's tiles of A and B reach"),
        Parameter("TM", 8, (8,), "rows of C that a thread computes"),
        Parameter("TN", 8, (8,), "columns of C that a thread computes"),
        Parameter("SLICES", 2, (1, 2, 4), "parts of a block's threads, which divide the k of every tile among them"),
        Parameter("PLACES", 2, (1, 2), "tiles of A that are transposed: 2 where one comes while another is multiplied"),
        Parameter(
            "UNROLL",
            32,
            (12, 16, 24, 32),
            "k in the code of the inner loop: fewer turns of the loop, or less to keep in the instruction cache",
        ),
        stream_k.parameter(132, (1, 132, 256, 264, 396)),
        Parameter("BLOCKS", 2, (1, 2, 3, 4), "blocks that a multiprocessor shall hold, which bounds the registers"),
        Parameter(
            "BUNDLE",
            1,
            (1, 2, 3, 4),
            "blocks that start as one, on the same multiprocessor: those with a tile of their own beside sharers",
        ),
    ),
    constraints=(
        *tiling.WARPS_OF_4_BY_8,
        Constraint(
            lambda c: _threads(c) in (128, 256),
            "SLICES*32*(BM/(4*TM))*(BN/(8*TN)) must be 128 or 256 threads: their warps transpose A together",
        ),
        *tiling.FRAGMENTS_OF_FOURS,
        Constraint(
            lambda c: c.BK % 8 == 0 and c.BK % (4 * c.SLICES) == 0,
            "BK must be a multiple of 8 and of 4*SLICES: a slice has pairs of k in each half of its share",
        ),
        Constraint(
            lambda c: c.UNROLL % 4 == 0 and c.BK // c.SLICES % c.UNROLL == 0,
            "UNROLL must be a multiple of 4 that divides BK/SLICES, a slice's k: the order of rows repeats after 4",
        ),
        Constraint(
            lambda c: c.BM % (_threads(c) // 8 * _run(c)) == 0,
            "BM must be a multiple of an eighth of the threads, where BK is none of 32 of a fourth of them, and where "
            "it is none of 16 of half of them",
        ),
        Constraint(lambda c: c.PLACES <= 2, "PLACES must be 1 or 2"),
        Constraint(
            lambda c: c.BLOCKS % c.BUNDLE == 0,
            "BLOCKS must be a multiple of BUNDLE: a multiprocessor holds whole bundles",
        ),
        Constraint(
            lambda c: c.BUNDLE == 1 or c.WAVE > 1,
            "BUNDLE must be 1 where WAVE is at most 1: without sharers all blocks are alike",
        ),
        Constraint(
            lambda c: c.TM % 8 == 0, "TM must be a multiple of 8: fours of a thread's rows change places at an odd k"
        ),
        Constraint(
            lambda c: max(c.BM, c.BN, c.BK) <= 256,
            "BM, BN and BK must be at most 256, the extents of a tensor box",
        ),
        tiling.shared_memory_fits(
            lambda c: _shared_bytes(c) + 16, "BK*((1+PLACES)*BM+2*BN) floats, or SLICES*BM*BN if more,"
        ),
        tiling.registers_fit(_threads),
    ),
    tile=lambda config: Tile(m=config.BM, n=config.BN, k=config.BK),
    cost=Copying(
        copies="tensor maps",
        fragment=tiling.fragment_of_4_by_8,
        transposes=True,
        k_slices=lambda config: config.K_SLICES,
        workers=lambda config: config.WORKERS,
        min_blocks=lambda config: config.MIN_BLOCKS,
    ),
    block=lambda config: (_threads(config), 1, 1),
    vectorized=True,
    takes=Takes(least_capability=(9, 0)),
    arguments=("M", "N", "K", "alpha", "A_map", "B_map", "beta", "D_data", "ldd", "sums", "tickets"),
    shared_bytes=_shared_bytes,
    tensor_maps=lambda config: (TensorBox(config.BM, config.BK), TensorBox(config.BK, config.BN)),
    relayouts=(None, None),
    overlaps=True,
    blocks=stream_k.blocks,
    workspace_bytes=stream_k.workspace_bytes,
    presets={
        "small": {"BM": 32, "BN": 64, "BK": 128, "SLICES": 4, "PLACES": 2, "UNROLL": 16, "WAVE": 1, "BLOCKS": 2},
        "medium": {"BM": 32, "BN": 128, "BK": 64, "SLICES": 2, "PLACES": 2, "UNROLL": 16, "WAVE": 1, "BLOCKS": 2},
        "deep": {"BM": 32, "BN": 64, "BK": 64, "SLICES": 4, "PLACES": 2, "UNROLL": 16, "WAVE": 396, "BLOCKS": 3},
        "flat": {"BM": 64, "BN": 128, "BK": 32, "SLICES": 1, "PLACES": 1, "UNROLL": 16, "WAVE": 1, "BLOCKS": 4},
        "large": {"BM": 64, "BN": 128, "BK": 48, "SLICES": 1, "PLACES": 1, "UNROLL": 16, "WAVE": 132, "BLOCKS": 2},
    },
)
