"""gemm_sm90: products of 16-bit factors by Hopper's warpgroups, with operands in either order."""

from dataclasses import replace
from pathlib import Path

from tilewright.kernels import warpgroups
from tilewright.kernels.spec import Config, Constraint, Kernel, Parameter, TensorBox
from tilewright.kernels.takes import EVERYTHING
from tilewright.problem import Problem

_CONSUMERS = 2
_SUMS = 192
"""That a thread's 232 registers have room for: NVRTC then spills none, with any epilogue."""
_BOX = 256
"""The most rows of a tensor box."""


def _boxes(config: Config, layout: str) -> tuple[TensorBox, TensorBox]:
    """What one load moves: lines along k of a whole tile, or lines of 64 rows of A or columns of B across 64 k."""
    line, swizzle = warpgroups.LINE, warpgroups.LINE * warpgroups.ITEM_BYTES
    a = TensorBox(config.BM if layout[0] == "N" else line, line, swizzle)
    b = TensorBox(config.BN // config.CLUSTER if layout[1] == "T" else line, line, swizzle)
    return a, b


def _together(config: Config) -> int:
    """Consumers of a tile."""
    return 1 if config.PINGPONG else _CONSUMERS


def _tiles_bytes(config: Config, layout: str) -> int:
    """Of all stages. A row-major B has blocks of 64 columns, the last loaded whole."""
    line = warpgroups.LINE
    columns = config.BN if layout[1] == "T" else -(-config.BN // line) * line
    return config.STAGES * warpgroups.ITEM_BYTES * line * (config.BM + columns)


def _sums_bytes(config: Config) -> int:
    """Of a tile's sums."""
    return 4 * config.BM * config.BN


def _shared_bytes(config: Config, layout: str) -> int:
    """Of a block: its stages, each with two barriers, and one for each consumer."""
    return _tiles_bytes(config, layout) + (2 * config.STAGES + _CONSUMERS) * warpgroups.BARRIER_BYTES


def _blocks(problem: Problem, config: Config, multiprocessors: int) -> int:
    """One a multiprocessor, whose registers hold no second, in whole clusters; or one for each part of a tile's k."""
    if config.SPLITS > 1:
        return KERNEL.tiles(problem, config) * config.SPLITS
    clusters = problem.batch * -(-problem.m // (config.BM * config.CLUSTER)) * -(-problem.n // config.BN)
    return min(clusters, multiprocessors // config.CLUSTER) * config.CLUSTER


KERNEL: Kernel = Kernel(
    rung=0,
    name="gemm_sm90",
    idea="16-bit factors on Hopper's tensor cores by warpgroups, in every order of A and B",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("BM", 128, (64, 128, 192, 256), "rows of D that a block computes at a time"),
        Parameter("BN", 256, (32, 64, 96, 112, 128, 160, 176, 192, 208, 224, 256), "its columns"),
        Parameter("STAGES", 4, (3, 4, 5, 6, 7), "tiles of A and of B in shared memory or on their way"),
        Parameter("BAND", 16, (1, 4, 8, 16, 32), "rows of tiles whose columns are computed one after the other"),
        Parameter("PINGPONG", 0, (0, 1), "whether each consumer computes tiles of its own", least=0),
        Parameter("CLUSTER", 1, (1, 2), "blocks that load tiles of B for each other"),
        Parameter("SPLITS", 1, (1, 2, 4, 8), "blocks that share the k of a tile"),
    ),
    constraints=(
        Constraint(
            lambda c: c.BM % (64 * _together(c)) == 0 and c.BM <= _BOX,
            "BM must be a multiple of 64, with PINGPONG=0 of 128, at most 256, the rows of a tensor box",
        ),
        Constraint(
            lambda c: c.BN % (8 * c.CLUSTER) == 0 and c.BN <= _BOX,
            "BN must be a multiple of 8*CLUSTER, at most 256, the columns of one instruction",
        ),
        Constraint(
            lambda c: c.BM // _together(c) * c.BN <= _SUMS * warpgroups.THREADS,
            "BM*BN must be at most 49152, with PINGPONG=1 24576: a thread has 192 sums",
        ),
        Constraint(lambda c: c.STAGES >= 2, "STAGES must be at least 2: one is loaded while another is multiplied"),
        Constraint(lambda c: c.CLUSTER in (1, 2), "CLUSTER must be 1 or 2: larger ones leave multiprocessors idle"),
        Constraint(
            lambda c: c.SPLITS == 1 or (c.SPLITS in (2, 4, 8) and c.BM == 128 and not c.PINGPONG and c.CLUSTER == 1),
            "SPLITS must be 1, or with BM=128, PINGPONG=0 and CLUSTER=1 be 2, 4 or 8, the most blocks of a cluster",
        ),
        Constraint(
            lambda c: c.SPLITS == 1 or (c.BN % (8 * c.SPLITS) == 0 and _sums_bytes(c) <= _tiles_bytes(c, "TT")),
            "with SPLITS above 1, BN must be a multiple of 8*SPLITS, and BM*BN float32 sums fit into STAGES tiles",
        ),
        warpgroups.shared_memory_fits(lambda c: _shared_bytes(c, "NN")),
    ),
    tile=warpgroups.tile,
    block=lambda config: ((1 + _CONSUMERS) * warpgroups.THREADS, 1, 1),
    cost=replace(
        warpgroups.PERSISTENT,
        band=lambda config: config.BAND,
        cluster=lambda config: config.CLUSTER,
        alternates=lambda config: bool(config.PINGPONG),
        splits=lambda config: config.SPLITS,
        run=lambda config: 32,
        realigns=True,
    ),
    cluster=lambda config: config.CLUSTER * config.SPLITS,
    vectorized=True,
    takes=replace(EVERYTHING, factors=("float16", "bfloat16"), least_capability=(9, 0), architectures=("sm_90a",)),
    arguments=("sizes", "A_map", "B_map", "output"),
    shared_bytes=_shared_bytes,
    tensor_maps=_boxes,
    relayouts=lambda config: (None, None),
    overlaps=True,
    blocks=_blocks,
)
