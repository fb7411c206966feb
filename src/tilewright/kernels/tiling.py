"""Parameters, constraints and geometry that the rungs with block and thread tiles (4 to 9) have in common.

Tiles of D are counted along one grid dimension, since a grid holds 65535 blocks along y and z but 2^31 - 1 along x.
Rungs move pointers along k instead of computing addresses from k.
"""

from collections.abc import Callable

from tilewright.core.gpus import MULTIPROCESSORS, STATIC_SHARED_LIMIT
from tilewright.core.hardware import WARP
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Fragment, Staging
from tilewright.kernels.kernel import Constraints, Parameter, Sums

FLOAT_BYTES = 4
_LANES_M, _LANES_N = 4, 8
_HOPPER = MULTIPROCESSORS[9, 0]  # whose room the constraints of rungs with MIN_BLOCKS are about


def tile_parameters(bm: int, bn: int, bk: int, tm: int, tn: int) -> tuple[Parameter, ...]:
    """The five sizes of two-level tiling, with these defaults."""
    return (
        Parameter("BM", bm, (32, 64, 128, 256), "rows of C that a block computes"),
        Parameter("BN", bn, (32, 64, 128, 256), "columns of C that a block computes"),
        Parameter("BK", bk, (8, 16, 32), "how far along k a block's tiles of A and B reach"),
        Parameter("TM", tm, (4, 8, 16), "rows of C that a thread computes"),
        Parameter("TN", tn, (4, 8, 16), "columns of C that a thread computes"),
    )


def min_blocks_parameter(default: int, values: tuple[int, ...]) -> Parameter:
    """The number of blocks that share a multiprocessor, of rungs that multiply fragments or by warpgroups."""
    meaning = "blocks that a multiprocessor is to have registers for where tiles divide C"
    return Parameter("MIN_BLOCKS", default, values, meaning)


def threads(config: Config) -> int:
    """Threads in a block: one for each TM x TN tile of the block's BM x BN."""
    return config.BM // config.TM * (config.BN // config.TN)


def threads_of_warps(config: Config) -> int:
    """Threads in a block: a warp for each WM x WN tile of the block's BM x BN."""
    return config.BM // config.WM * (config.BN // config.WN) * WARP


def block_of_warps(config: Config) -> tuple[int, int, int]:
    """Extents of a block of these."""
    return (threads_of_warps(config), 1, 1)


WARPS_DIVIDE: Constraints = {
    "BM must be a multiple of WM: warps divide the rows of the block's tile": lambda c: c.BM % c.WM == 0,
    "BN must be a multiple of WN: warps divide the columns of the block's tile": lambda c: c.BN % c.WN == 0,
}
"""The warps' tiles cover the block's."""


def block(config: Config) -> tuple[int, int, int]:
    """Extents of a block."""
    return (threads(config), 1, 1)


def sums_of_slices(config: Config) -> Sums:
    """The sums of K_SLICES slices of every BK of k: each adds its products one after the other, and last the slices are
    added up. With WORKERS, blocks may share a tile's k."""
    return Sums(None if config.WORKERS else f"fma {config.BK}/{config.K_SLICES}")


STAGING = Staging(fragment=lambda c: Fragment(c.TM, c.TN, lanes_n=min(c.BN // c.TN, WARP)))
"""How kernels with the five sizes are predicted that stage through registers."""


def shared_tiles_bytes(config: Config, pad: int = 0) -> int:
    """Bytes of a BM x BK tile of A and a BK x (BN + pad) tile of B."""
    return FLOAT_BYTES * config.BK * (config.BM + config.BN + pad)


def fragment_of_4_by_8(config: Config) -> Fragment:
    """A TM x TN fragment, of warps whose lanes are arranged 4 along m and 8 along n."""
    return Fragment(config.TM, config.TN, lanes_n=_LANES_N)


def threads_of_4_by_8(config: Config) -> int:
    """Threads that compute a tile together, 4 lanes of each warp along m and 8 along n."""
    return 32 * (config.BM // (_LANES_M * config.TM)) * (config.BN // (_LANES_N * config.TN))


WARPS_OF_4_BY_8: Constraints = {
    "BM must be a multiple of 4*TM: 4 lanes of a warp are arranged along m": lambda c: c.BM % (_LANES_M * c.TM) == 0,
    "BN must be a multiple of 8*TN: 8 lanes of a warp are arranged along n": lambda c: c.BN % (_LANES_N * c.TN) == 0,
}
"""For kernels whose warps are arranged like this."""


def registers_fit(threads_of: Callable[[Config], int]) -> Constraints:
    """MIN_BLOCKS blocks have the registers for results and for the fragments of two k; threads_of counts a block's."""
    return {
        f"MIN_BLOCKS*threads*(TM*TN+2*(TM+TN)) must be at most {_HOPPER.registers}, a multiprocessor's "
        "registers": lambda c: c.MIN_BLOCKS * threads_of(c) * (c.TM * c.TN + 2 * (c.TM + c.TN)) <= _HOPPER.registers
    }


def holds(blocks: int, shared_bytes: int) -> bool:
    """Whether a multiprocessor has the shared memory for blocks of this many bytes each."""
    return blocks * (shared_bytes + _HOPPER.reserved_shared_bytes) <= _HOPPER.shared_bytes


def shared_memory_fits(bytes_of: Callable[[Config], int], floats: str) -> Constraints:
    """MIN_BLOCKS blocks have the shared memory that bytes_of counts for one; floats says what most of it is."""
    of_block = _HOPPER.shared_bytes - _HOPPER.reserved_shared_bytes
    return {
        f"MIN_BLOCKS times {floats} must fit a multiprocessor's {of_block // 1024} KiB": lambda c: holds(
            c.MIN_BLOCKS, bytes_of(c)
        )
    }


def loads_evenly(
    width: int, pieces: str, threads_of: Callable[[Config], int] = threads, counted: str = "(BM/TM)*(BN/TN)"
) -> Constraints:
    """Every thread of a block loads equally many pieces of `width` elements of each tile; `pieces` and `counted` say in
    words which, and how many threads there are."""
    unit = f"{width}*threads" if width > 1 else "threads"
    why = f"must be a multiple of {unit}: every thread loads {pieces}, threads being {counted}"
    return {
        f"BM*BK {why}": lambda c: c.BM * c.BK % (width * max(threads_of(c), 1)) == 0,
        f"BN*BK {why}": lambda c: c.BN * c.BK % (width * max(threads_of(c), 1)) == 0,
    }


DIVIDES: Constraints = {
    "BM must be a multiple of TM: threads divide the rows of the tile": lambda c: c.BM % c.TM == 0,
    "BN must be a multiple of TN: threads divide the columns of the tile": lambda c: c.BN % c.TN == 0,
    "(BM/TM)*(BN/TN) must be at most 1024, a block's threads": lambda c: threads(c) <= 1024,
}
"""The threads' tiles cover the block's, and there are not too many of them."""

_FITS = "the tiles of A and B must take at most 49152 bytes, a block's static shared memory"

SHARED_FITS = {_FITS: lambda c: shared_tiles_bytes(c, c.get("PAD", 0)) <= STATIC_SHARED_LIMIT}

PADDED_ROWS = Parameter("PAD", 0, (0, 1), "unused columns added to the rows of both tiles in shared memory", least=0)
"""The parameter PAD of rungs whose tiles of A and of B both lie row by row."""

PADDED_ROWS_FIT = {_FITS: lambda c: shared_tiles_bytes(c, c.PAD) + FLOAT_BYTES * c.BM * c.PAD <= STATIC_SHARED_LIMIT}
"""Tiles fit into shared memory, PAD being added to the rows of both."""

FRAGMENTS_OF_FLOAT4: Constraints = {
    "TM must be a multiple of 4: fragments are read as float4s": lambda c: c.TM % 4 == 0,
    "TN must be a multiple of 4: fragments are moved as float4s": lambda c: c.TN % 4 == 0,
}
"""Fragments of kernels that keep A transposed in shared memory."""

FLOAT4S: Constraints = {
    "TM must be a multiple of 4: a fragment of A is read as float4s": lambda c: c.TM % 4 == 0,
    "TN must be a multiple of 4: fragments of B and C are moved as float4s": lambda c: c.TN % 4 == 0,
    "BK must be a multiple of 4: rows of A are loaded as float4s": lambda c: c.BK % 4 == 0,
}
"""Fragments and rows are whole float4s. (BM and BN are, as multiples of TM and TN.)"""

VECTOR_CONSTRAINTS: Constraints = {
    **DIVIDES,
    **FLOAT4S,
    **loads_evenly(4, "whole float4s"),
    **SHARED_FITS,
}
"""All that rung 6 and those made from it ask for."""
