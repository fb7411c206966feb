"""grouped_sm90: grouped products of 16-bit factors by Hopper's warpgroups. `grouped_matmul` alone runs it."""

from dataclasses import replace
from pathlib import Path

from tilewright.gpus import clusters
from tilewright.kernels import warpgroups
from tilewright.kernels.families import Warpgroups
from tilewright.kernels.library import gemm_sm90
from tilewright.kernels.spec import Config, Constraint, Kernel
from tilewright.kernels.takes import Takes
from tilewright.problem import LAYOUTS, Problem

_CONSUMERS = 2
"""Warpgroups that multiply."""
_SUMS = 192
"""Of a thread, that its registers have room for."""
_LIKE = gemm_sm90.KERNEL
assert isinstance(_LIKE.cost, Warpgroups)
_COST = _LIKE.cost
_OTHERS = ("SPLITS", "CONSUMERS")
"""Parameters that it has as constants."""


def _together(config: Config) -> int:
    """Consumers of a tile."""
    return 1 if config.PINGPONG else _CONSUMERS


def most_tiles(problem: Problem, config: Config) -> int:
    """Tiles that D has at most, by clusters of blocks: each group may end within a row of them."""
    down, across = config.BM * config.CLUSTER, config.BN * config.CLUSTER_N
    return (problem.m // down + min(problem.batch, problem.m)) * -(-problem.n // across)


def _blocks(problem: Problem, config: Config, multiprocessors: int) -> int:
    """One a multiprocessor, in whole clusters; fewer where the result has fewer tiles, whatever the groups."""
    sharing = config.CLUSTER * config.CLUSTER_N
    return min(most_tiles(problem, config), clusters(multiprocessors, sharing)) * sharing


KERNEL = Kernel(
    rung=0,
    name="grouped_sm90",
    idea="rows of each group against a matrix of its own on Hopper's tensor cores; only the GPU knows the groups",
    source=Path(__file__).with_suffix(".cu"),
    parameters=tuple(one for one in _LIKE.parameters if one.name not in _OTHERS),
    constraints=(
        *gemm_sm90.TILES,
        Constraint(
            lambda c: c.BM // _together(c) * c.BN // warpgroups.THREADS <= _SUMS,
            f"BM*BN/128 over the consumers of a tile must be at most {_SUMS}, a thread's registers for sums",
        ),
        warpgroups.shared_memory_fits(lambda c: _LIKE.shared_bytes(c, "NN")),
    ),
    constants=lambda config: {
        "TERMS": 1,
        "SCALED": 0,
        "FACTOR_SCALES": 0,
        "HOLDS_A": 0,
        "EXCHANGED": 0,
        "PROMOTE": 0,
        "MADE": 1,
        "CONSUMERS": _CONSUMERS,
    },
    tile=_LIKE.tile,
    block=_LIKE.block,
    cost=replace(_COST, splits=lambda config: 1),
    cluster=lambda config: config.CLUSTER * config.CLUSTER_N,
    vectorized=True,
    takes=Takes(
        factors=("float16", "bfloat16"),
        results=("float32", "float16", "bfloat16"),
        layouts=LAYOUTS,
        batches=True,
        grouped=True,
        least_capability=(9, 0),
        architectures=("sm_90a",),
    ),
    arguments=("sizes", "A_map", "B_map", "output", "offsets"),
    shared_bytes=_LIKE.shared_bytes,
    tensor_maps=_LIKE.tensor_maps,
    relayouts=lambda config: ("row", None),  # across k a load starts at multiples of 16 bytes, a group's rows anywhere
    overlaps=True,
    blocks=_blocks,
    presets={
        "alternating": {"BM": 128, "BN": 192, "STAGES": 5, "PINGPONG": 1},
        "alternating_across": {"BM": 128, "BN": 192, "STAGES": 5, "PINGPONG": 1, "CLUSTER_N": 2},
        "narrow": {"BM": 128, "BN": 128, "STAGES": 7, "PINGPONG": 1},
        "narrow_across": {"BM": 128, "BN": 128, "STAGES": 7, "PINGPONG": 1, "CLUSTER_N": 2},
        "wide_across": {"BM": 128, "BN": 256, "STAGES": 4, "CLUSTER_N": 2},
        "few_rows": {"BM": 64, "BN": 256, "STAGES": 5, "PINGPONG": 1},
        "few_rows_narrow": {"BM": 64, "BN": 128, "STAGES": 8, "PINGPONG": 1},
    },
)
