"""Rung 18, tma_transposed: factors in any order, loaded as memory has them and transposed in shared memory.

A config may have one copied beforehand instead, or both, as rung 15 does (`COPIED`): transposing a tile takes time in
every block that reads it, copying a factor once.
"""

from dataclasses import replace

from tilewright.kernels import tiling
from tilewright.kernels.config import Config, listed_configs, named_configs
from tilewright.kernels.kernel import Kernel, Parameter, Sums
from tilewright.kernels.library import schedule, tma_packed


def _run(config: Config) -> int:
    """Rows that one ldmatrix loads pieces of, so that they lie on distinct banks."""
    return 1 if config.BK % 32 == 0 else 2 if config.BK % 16 == 0 else 4


def _threads(config: Config) -> int:
    return config.K_SLICES * tiling.threads_of_4_by_8(config)


def _rows_at_a_time(config: Config) -> int:
    """Rows that the warps of a block transpose together."""
    return _threads(config) // 8 * _run(config)


def _shared_bytes(config: Config, b_buffers: int = 1) -> int:
    return tiling.FLOAT_BYTES * tma_packed.shared_floats(config, config.A_BUFFERS, b_buffers, config.K_SLICES)


def _b_buffers(config: Config) -> int:
    """Transposed tiles of B: A_BUFFERS, if a multiprocessor then still holds all its workers; else 1."""
    blocks = max(config.MIN_BLOCKS, config.WORKERS)
    fits = tiling.holds(blocks, _shared_bytes(config, config.A_BUFFERS) + tma_packed.BARRIER_BYTES)
    return config.A_BUFFERS if fits else 1


KERNEL: Kernel = replace(
    tma_packed.KERNEL,
    rung=18,
    name="tma_transposed",
    idea="TMA, A without a copy: loaded as memory has it, and transposed by ldmatrix while it is multiplied",
    parameters=(
        Parameter("BM", 64, (32, 64, 128), "rows of D that a block computes"),
        Parameter("BN", 128, (64, 128), "columns of D that a block computes"),
        Parameter("BK", 64, (32, 48, 64, 128), "how far along k a block's tiles of A and B reach"),
        Parameter("TM", 8, (8,), "rows of D that a thread computes"),
        Parameter("TN", 8, (8,), "columns of D that a thread computes"),
        Parameter("K_SLICES", 2, (1, 2, 4), "groups of warps that divide the k of every tile among them"),
        Parameter(
            "A_BUFFERS",
            2,
            (1, 2),
            "transposed tiles of A, and of B if they fit: with 2, one is stored while the other is multiplied",
        ),
        Parameter(
            "UNROLL",
            32,
            (12, 16, 24, 32),
            "k in the code of the inner loop: more for fewer branches, fewer for the instruction cache",
        ),
        schedule.parameter(1, (0, 1, 2, 3)),
        Parameter("MIN_BLOCKS", 2, (1, 2, 3, 4), "blocks that a multiprocessor must hold, which bounds the registers"),
        Parameter(
            "BUNDLE",
            1,
            (1, 2, 3, 4),
            "blocks that start as one, on the same multiprocessor: those with a tile of their own next to workers",
        ),
        Parameter(
            "COPIED",
            0,
            (0, 1, 2, 3),
            "factors that are copied beforehand to the order in which the loop reads them: 1 A, 2 B, 3 both; 0 none",
            least=0,
            compiled=False,
        ),
    ),
    constraints={
        "K_SLICES*32*(BM/(4*TM))*(BN/(8*TN)) must be 128 or 256 threads: "
        "their warps transpose tiles together": lambda c: _threads(c) in (128, 256),
        "BK must be a multiple of 8 and of 4*K_SLICES: the order of quads repeats after 4 k": lambda c: (
            c.BK % 8 == 0 and c.BK % (4 * c.K_SLICES) == 0
        ),
        "UNROLL must be a multiple of 4 that divides BK/K_SLICES, a slice's k: "
        "the order of quads repeats after 4": lambda c: c.UNROLL % 4 == 0 and c.BK // c.K_SLICES % c.UNROLL == 0,
        "BM and BN must be multiples of threads/8; "
        "of threads/4 if BK is not a multiple of 32, and of threads/2 if it is not one of 16": lambda c: (
            c.BM % max(_rows_at_a_time(c), 1) == 0 and c.BN % max(_rows_at_a_time(c), 1) == 0
        ),
        "A_BUFFERS must be 1 or 2": lambda c: c.A_BUFFERS <= 2,
        "COPIED must be from 0 to 3": lambda c: c.COPIED <= 3,
        "MIN_BLOCKS must be a multiple of BUNDLE: a multiprocessor holds whole bundles": lambda c: (
            c.MIN_BLOCKS % c.BUNDLE == 0
        ),
        "BUNDLE must be 1 where WORKERS is 0: without workers all blocks are alike": lambda c: (
            c.BUNDLE == 1 or c.WORKERS > 0
        ),
        "TM must be a multiple of 8: a thread's quads of rows are exchanged at an odd k": lambda c: c.TM % 8 == 0,
        **tma_packed.constraints(_threads, _shared_bytes),
    },
    constants=lambda config: {"B_BUFFERS": _b_buffers(config)},
    block=lambda config: (_threads(config), 1, 1),
    # A single slice ends where k does, not where its tile does.
    sums=lambda config: tiling.sums_of_slices(config) if config.K_SLICES > 1 else Sums(),
    cost=replace(tma_packed.COST, k_slices=lambda config: config.K_SLICES),
    shared_bytes=lambda config, layout: _shared_bytes(config, _b_buffers(config) if layout[1] == "T" else 1),
    relayouts=lambda config: ("column" if config.COPIED & 1 else None, "row" if config.COPIED & 2 else None),
    presets=named_configs(
        "BM BN BK K_SLICES A_BUFFERS UNROLL WORKERS MIN_BLOCKS",
        {
            "small": (32, 64, 128, 4, 2, 16, 0, 2),
            "medium": (32, 128, 64, 2, 2, 16, 0, 2),
            "deep": (32, 64, 64, 4, 2, 16, 3, 3),
            "flat": (64, 128, 32, 1, 1, 16, 0, 4),
            "large": (64, 128, 48, 1, 1, 16, 1, 2),
        },
    ),
    portfolio=listed_configs(
        "BM BN BK TM TN K_SLICES A_BUFFERS UNROLL WORKERS MIN_BLOCKS BUNDLE COPIED",
        (
            (32, 64, 64, 8, 8, 4, 2, 16, 2, 2, 1, 0),
            (32, 64, 64, 8, 8, 4, 2, 16, 3, 3, 1, 0),
            (32, 64, 64, 8, 8, 4, 1, 16, 0, 4, 1, 0),
            (64, 64, 32, 8, 8, 2, 2, 16, 0, 3, 1, 0),
            (64, 128, 32, 8, 8, 1, 1, 16, 0, 4, 1, 0),
            (32, 64, 64, 8, 8, 4, 1, 16, 1, 2, 1, 0),
        ),
    ),
)

KERNELS = (KERNEL,)
