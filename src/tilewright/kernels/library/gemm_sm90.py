"""gemm_sm90: products of 16-bit factors by Hopper's warpgroups, with operands in either order.

Nobody has measured it yet, so it is only used where it is named.
"""

from dataclasses import replace
from pathlib import Path

from tilewright.kernels import warpgroups
from tilewright.kernels.spec import Config, Constraint, Kernel, Parameter, TensorBox
from tilewright.kernels.takes import EVERYTHING
from tilewright.problem import Problem

_CONSUMERS = 2
_SUMS = 192
"""That a thread's 232 registers have room for: NVRTC then spills none, with any epilogue."""
_REACH = 16
"""Multiprocessors near enough to each other for a cluster; those of a group that are left over take none of four."""
_BOX = 256
"""The most rows of a tensor box."""


def _boxes(config: Config, layout: str) -> tuple[TensorBox, TensorBox]:
    """What one load moves: lines along k of a whole tile, or lines of 64 rows of A or columns of B across 64 k."""
    line, swizzle = warpgroups.LINE, warpgroups.LINE * warpgroups.ITEM_BYTES
    a = TensorBox(config.BM if layout[0] == "N" else line, line, swizzle)
    b = TensorBox(config.BN // config.CLUSTER if layout[1] == "T" else line, line, swizzle)
    return a, b


def _shared_bytes(config: Config, layout: str) -> int:
    """Of a block: its stages, each with two barriers. A row-major B has blocks of 64 columns, the last loaded whole."""
    line = warpgroups.LINE
    columns = config.BN if layout[1] == "T" else -(-config.BN // line) * line
    tiles = warpgroups.ITEM_BYTES * line * (config.BM + columns)
    return config.STAGES * (tiles + 2 * warpgroups.BARRIER_BYTES) + _CONSUMERS * warpgroups.BARRIER_BYTES


def _blocks(problem: Problem, config: Config, multiprocessors: int) -> int:
    """One a multiprocessor, whose registers hold no second, in whole clusters; or one for each part of a tile's k."""
    if config.SPLITS > 1:
        return KERNEL.tiles(problem, config) * config.SPLITS
    clusters = problem.batch * -(-problem.m // (config.BM * config.CLUSTER)) * -(-problem.n // config.BN)
    reach = max(config.CLUSTER, _REACH) if config.CLUSTER > 2 else config.CLUSTER
    return min(clusters, multiprocessors // reach * reach // config.CLUSTER) * config.CLUSTER


KERNEL: Kernel = Kernel(
    rung=0,
    name="gemm_sm90",
    idea="16-bit factors on Hopper's tensor cores by warpgroups, in every order of A and B",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("BM", 128, (128, 256), "rows of D that a block computes, half of them each consumer"),
        Parameter("BN", 256, (64, 96, 112, 128, 160, 176, 192, 208, 224, 256), "columns of D that a block computes"),
        Parameter("STAGES", 4, (3, 4, 5, 6, 7), "tiles of A and of B in shared memory or on their way"),
        Parameter("BAND", 16, (1, 4, 8, 16, 32), "rows of tiles whose columns are computed one after the other"),
        Parameter("PINGPONG", 0, (0, 1), "whether each consumer computes tiles of its own", least=0),
        Parameter("CLUSTER", 1, (1, 2, 4), "blocks that load tiles of B for each other"),
        Parameter("SPLITS", 1, (1, 2, 4, 8), "blocks that share the k of a tile"),
    ),
    constraints=(
        Constraint(
            lambda c: c.BM in ((64, 128, 192, 256) if c.PINGPONG else (128, 256)),
            "BM must be 128 or 256: each of two consumers multiplies 64 rows at a time, and a box has at most 256",
        ),
        Constraint(
            lambda c: c.BN % 8 == 0 and c.BN <= _BOX,
            "BN must be a multiple of 8, at most 256, the columns of one instruction",
        ),
        Constraint(
            lambda c: c.BM * c.BN <= _SUMS * (1 if c.PINGPONG else _CONSUMERS) * warpgroups.THREADS,
            "BM*BN must be at most 49152: a thread has 192 sums",
        ),
        Constraint(lambda c: c.STAGES >= 2, "STAGES must be at least 2: one is loaded while another is multiplied"),
        Constraint(
            lambda c: (
                c.SPLITS == 1 or (c.BM == 128 and not c.PINGPONG and c.CLUSTER == 1 and c.BN % (8 * c.SPLITS) == 0)
            ),
            "SPLITS above 1 takes BM=128, PINGPONG=0, CLUSTER=1 and BN a multiple of 8*SPLITS",
        ),
        Constraint(
            lambda c: c.SPLITS == 1 or 4 * c.BM * c.BN <= c.STAGES * warpgroups.tiles_bytes(c),
            "STAGES tiles of A and of B must leave room for BM*BN float32 sums, where SPLITS is above 1",
        ),
        warpgroups.shared_memory_fits(lambda c: _shared_bytes(c, "NN")),
    ),
    tile=warpgroups.tile,
    block=lambda config: ((1 + _CONSUMERS) * warpgroups.THREADS, 1, 1),
    cost=replace(warpgroups.PERSISTENT, band=lambda config: config.BAND),
    vectorized=True,
    takes=replace(EVERYTHING, factors=("float16", "bfloat16"), least_capability=(9, 0), architectures=("sm_90a",)),
    arguments=("sizes", "A_map", "B_map", "output"),
    shared_bytes=_shared_bytes,
    tensor_maps=_boxes,
    relayouts=lambda config: (None, None),
    overlaps=True,
    blocks=_blocks,
)
