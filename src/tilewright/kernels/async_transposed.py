"""Rung 19, async_transposed: cp.async brings A as it lies, wherever rows begin; each warp transposes its own copies.

Sources: the PTX ISA manual's ldmatrix; the paper named in `stream_k` for sharing tiles.
"""

from pathlib import Path

from tilewright.kernels import stream_k, tiling
from tilewright.kernels.spec import Config, Constraint, Kernel, Parameter

_LANES_M, _LANES_N = 4, 8
_UNIT_ROWS = 8  # that a warp transposes at a time


def _threads(config: Config) -> int:
    return config.SLICES * 32 * (config.BM // (_LANES_M * config.TM)) * (config.BN // (_LANES_N * config.TN))


def _shared_bytes(config: Config) -> int:
    """Tiles of A, one of them as it lies, and two of B; in their place at the end all slices' sums, or a tile of C."""
    pitch = config.BK + 16 if config.BK % 32 == 0 else config.BK
    tiles = config.BM * (pitch + config.PLACES * config.BK) + 2 * config.BK * config.BN
    sums = config.SLICES * config.BM * config.BN if config.SLICES > 1 else 0
    return max(tiling.FLOAT_BYTES * max(tiles, sums), tiling.result_tile_bytes(config))


KERNEL = Kernel(
    rung=19,
    name="async_transposed",
    idea="cp.async brings tiles as they lie, wherever rows begin; each warp transposes what it copied of A",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("BM", 64, (32, 64, 128), "rows of C that a block computes"),
        Parameter("BN", 128, (64, 128), "columns of C that a block computes"),
        Parameter("BK", 64, (16, 32, 48, 64), "how far along k a block's tiles of A and B reach"),
        Parameter("TM", 8, (8,), "rows of C that a thread computes"),
        Parameter("TN", 8, (4, 8), "columns of C that a thread computes"),
        Parameter("SLICES", 2, (1, 2, 4), "parts of a block's threads, which divide the k of every tile among them"),
        Parameter("PLACES", 1, (1, 2), "tiles of A that are transposed: 2 where one comes while another is multiplied"),
        stream_k.parameter(264, (1, 132, 264, 396, 528)),
        Parameter("BLOCKS", 2, (1, 2, 3, 4), "blocks that a multiprocessor shall hold, which bounds the registers"),
    ),
    constraints=(
        Constraint(
            lambda c: c.BM % (_LANES_M * c.TM) == 0, "BM must be a multiple of 4*TM: 4 lanes of a warp stand along m"
        ),
        Constraint(
            lambda c: c.BN % (_LANES_N * c.TN) == 0, "BN must be a multiple of 8*TN: 8 lanes of a warp stand along n"
        ),
        *tiling.FRAGMENTS_OF_FOURS,
        Constraint(
            lambda c: c.TM % 8 == 0, "TM must be a multiple of 8: fours of a thread's rows change places at an odd k"
        ),
        Constraint(lambda c: c.TM % c.SLICES == 0, "TM must be a multiple of SLICES, which share the rows"),
        Constraint(
            lambda c: _threads(c) % 128 == 0 and 128 <= _threads(c) <= 1024,
            "SLICES*32*(BM/(4*TM))*(BN/(8*TN)) must be a multiple of 128 up to 1024, a block's threads",
        ),
        Constraint(
            lambda c: _threads(c) > 0 and c.BM % (_UNIT_ROWS * _threads(c) // 32) == 0,
            "BM must be a multiple of 8 times the block's warps, which transpose 8 rows each",
        ),
        Constraint(
            lambda c: c.BK % 16 == 0 and c.BK % (4 * c.SLICES) == 0,
            "BK must be a multiple of 16 and of 4*SLICES: a slice has pairs of k in each half of its share",
        ),
        Constraint(
            lambda c: (
                _threads(c) > 0
                and c.BK % (_threads(c) // 32) == 0
                and c.BK * c.BN % (4 * _threads(c)) == 0
                and 4 * _threads(c) % c.BN == 0
            ),
            "BK must be a multiple of the block's warps, which copy a row of B each, and BK*BN of 4*threads",
        ),
        Constraint(lambda c: c.PLACES <= 2, "PLACES must be 1 or 2"),
        tiling.shared_memory_fits(_shared_bytes, "BM*(BK+16+PLACES*BK)+2*BK*BN floats, or SLICES*BM*BN+BM/4 if more,"),
        tiling.registers_fit(_threads),
    ),
    tile=tiling.tile,
    block=lambda config: (_threads(config), 1, 1),
    vectorized=True,
    overlaps=True,
    least_capability=(8, 0),
    shared_bytes=_shared_bytes,
    blocks=stream_k.blocks,
    workspace_bytes=stream_k.workspace_bytes,
)
