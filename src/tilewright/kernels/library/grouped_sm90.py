"""grouped_sm90, grouped_fp8: grouped products of 16-bit and of float8 factors by Hopper's warpgroups, which
`grouped_matmul` alone runs."""

from dataclasses import replace
from pathlib import Path

from tilewright.core.dtypes import RESULTS
from tilewright.core.gpus import clusters
from tilewright.core.hardware import ceil_div
from tilewright.core.problem import LAYOUTS, Order, Problem
from tilewright.kernels import warpgroups
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Warpgroups
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.library import gemm_fp8, gemm_sm90
from tilewright.kernels.support import Support

_CONSUMERS = 2
"""Warpgroups that multiply."""
_SOURCE = Path(__file__).with_suffix(".cu")
_OTHERS = ("SPLITS", "CONSUMERS")
"""Parameters that it has as constants."""


def most_tiles(problem: Problem, config: Config) -> int:
    """Tiles that D has at most, by clusters of blocks: each group may end within a row of them."""
    down, across = config.BM * config.CLUSTER, config.BN * config.CLUSTER_N
    return (problem.m // down + min(problem.batch, problem.m)) * ceil_div(problem.n, across)


def _blocks(problem: Problem, config: Config, multiprocessors: int) -> int:
    """One a multiprocessor, in whole clusters; fewer where the result has fewer tiles, whatever the groups."""
    sharing = config.CLUSTER * config.CLUSTER_N
    return min(most_tiles(problem, config), clusters(multiprocessors, sharing)) * sharing


def _of_type(
    name: str,
    idea: str,
    like: Kernel,
    results: tuple[str, ...],
    relayouts: tuple[Order | None, Order | None],
    presets: dict[str, dict[str, int]],
) -> Kernel:
    """The kernel for groups of the factors that another takes, whose sums are made in the same way."""
    family, constants = like.cost, like.constants(like.config())
    assert isinstance(family, Warpgroups)
    anew, most = int(constants["PROMOTE"]) > 0, gemm_sm90.SUMS[_CONSUMERS]

    return Kernel(
        name=name,
        idea=idea,
        source=_SOURCE,
        parameters=tuple(one for one in like.parameters if one.name not in _OTHERS),
        constraints={
            **gemm_sm90.TILES,
            f"BM*BN/128 over the consumers of a tile{' and BN/2 together' if anew else ''} must be at most "
            f"{most}, a thread's registers for sums": lambda c: gemm_sm90.sums(c, anew, held=False) <= most,
            **warpgroups.shared_memory_fits(lambda c: like.shared_bytes(c, "NN")),
        },
        constants=lambda config: {**constants, "MADE": 1, "CONSUMERS": _CONSUMERS},
        tile=like.tile,
        block=like.block,
        cost=replace(family, splits=lambda config: 1),
        cluster=lambda config: config.CLUSTER * config.CLUSTER_N,
        support=Support(
            factors=like.support.factors,
            results=results,
            layouts=LAYOUTS,
            batches=True,
            grouped=True,
            least_capability=(9, 0),
            architectures=("sm_90a",),
        ),
        arguments=("sizes", "A_map", "B_map", "output", "scales", "offsets"),
        shared_bytes=like.shared_bytes,
        tensor_maps=like.tensor_maps,
        relayouts=lambda config: relayouts,
        overlaps=True,
        blocks=_blocks,
        presets=presets,
    )


KERNEL = _of_type(
    "grouped_sm90",
    "rows of each group against a matrix of its own on Hopper's tensor cores; only the GPU knows the groups",
    gemm_sm90.KERNEL,
    RESULTS,
    ("row", None),  # across k a load starts at multiples of 16 bytes, a group's rows anywhere
    {
        "alternating": {"BM": 128, "BN": 192, "STAGES": 5, "PINGPONG": 1},
        "alternating_across": {"BM": 128, "BN": 192, "STAGES": 5, "PINGPONG": 1, "CLUSTER_N": 2},
        "narrow": {"BM": 128, "BN": 128, "STAGES": 7, "PINGPONG": 1},
        "narrow_across": {"BM": 128, "BN": 128, "STAGES": 7, "PINGPONG": 1, "CLUSTER_N": 2},
        "wide_across": {"BM": 128, "BN": 256, "STAGES": 4, "CLUSTER_N": 2},
        "few_rows": {"BM": 64, "BN": 256, "STAGES": 5, "PINGPONG": 1},
        "few_rows_narrow": {"BM": 64, "BN": 128, "STAGES": 8, "PINGPONG": 1},
    },
)

FP8 = _of_type(
    "grouped_fp8",
    "rows of each group, of float8, against a matrix of its own, with scales; sums promoted to float32",
    gemm_fp8.KERNEL,
    gemm_fp8.KERNEL.support.results,
    ("row", "column"),
    {
        "alternating": {"PINGPONG": 1},
        "alternating_across": {"PINGPONG": 1, "CLUSTER_N": 2},
        "large": {"BM": 256, "STAGES": 4},
        "few_rows": {"BM": 64, "STAGES": 8, "PINGPONG": 1},
    },
)


def kernel_for(dtype: str) -> Kernel:
    """The kernel for factors of an element type; that for 16 bits where no kernel is for it."""
    return FP8 if dtype in FP8.support.factors else KERNEL
