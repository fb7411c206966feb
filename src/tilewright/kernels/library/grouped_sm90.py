"""Kernels of grouped_sm90.cu: grouped products of 16-bit, float8 and int8 factors by Hopper's warpgroups, which
`grouped_matmul` alone runs.

A is read along k: along rows, TMA loads start at multiples of 16 bytes, and groups anywhere, so a column-major A is
copied first. Offsets are cut off at 0 and at the rows of A, so no offsets make the kernel read or write outside of its
arrays. grouped_fp8 promotes sums every 128 of k, and multiplies them at the end by the scale of their row of A and of
their group's column of B (`Scale.step_k` is the distance from one matrix's scales to the next one's). The kernels are
not in `KERNELS`, as they compute no product of `matmul`.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tilewright.core.hardware import ceil_div
from tilewright.core.problem import Order, Problem
from tilewright.kernels import warpgroups
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Warpgroups
from tilewright.kernels.kernel import Kernel, Schedule, Sums
from tilewright.kernels.library import gemm_sm90

_CONSUMERS = 2
"""Warpgroups that multiply."""
_SOURCE = Path(__file__).with_suffix(".cu")
_OTHERS = ("SPLITS", "CONSUMERS", "SWAP_AB")
"""Parameters of `gemm_sm90` that are constants here."""
_SINGLE = {form.name: (form, of) for form, of in zip(gemm_sm90.FORMS, gemm_sm90.KERNELS, strict=True)}
"""Forms and kernels of products that are not grouped, by name."""


def most_tiles(problem: Problem, config: Config) -> int:
    """Tiles that D has at most, by clusters of blocks: each group may end within a row of them."""
    down, across = config.BM * config.CLUSTER_M, config.BN * config.CLUSTER_N
    return (problem.m // down + min(problem.batch, problem.m)) * ceil_div(problem.n, across)


def _schedule(problem: Problem, config: Config, multiprocessors: int) -> Schedule:
    """A block a multiprocessor, in whole clusters; fewer where the result has fewer tiles, whatever the groups."""
    return Schedule.of_clusters(most_tiles(problem, config), config.CLUSTER_M * config.CLUSTER_N, multiprocessors)


def _kernel(
    like: str,
    *,
    name: str,
    idea: str,
    relayouts: tuple[Order | None, Order | None],
    presets: Mapping[str, Mapping[str, int]],
) -> Kernel:
    """A kernel for groups of the factors that another multiplies, whose sums are made in the same way."""
    form, single = _SINGLE[like]
    constants = {**single.constants(single.config()), "PARTIAL_BUFFERS": 1, "CONSUMERS": _CONSUMERS, "SWAP_AB": 0}
    assert isinstance(single.cost, Warpgroups)
    return replace(
        single,
        name=name,
        idea=idea,
        source=_SOURCE,
        parameters=tuple(one for one in single.parameters if one.name not in _OTHERS),
        constraints={
            **gemm_sm90.TILES,
            **gemm_sm90.sums_fit(form),
            **(gemm_sm90.OF_INTEGERS if form.integers else {}),
            **warpgroups.shared_memory_fits(lambda c: single.shared_bytes(c, "NN")),
        },
        constants=lambda config: constants,
        presets=presets,
        portfolio=(),
        support=replace(single.support, epilogue=False, separate_c=False, grouped=True),
        cluster=lambda config: config.CLUSTER_M * config.CLUSTER_N,
        schedule=_schedule,
        arguments=("sizes", "A_map", "B_map", "output", "scales", "offsets"),
        relayouts=lambda config: relayouts,
        stored_box=None,
        cost=replace(single.cost, splits=lambda config: 1),
        sums=lambda config: Sums(),
    )


KERNEL = _kernel(
    name="grouped_sm90",
    idea="rows of each group against a matrix of its own on Hopper's tensor cores; only the GPU knows the groups",
    like="gemm_sm90",
    relayouts=("row", None),  # across k a load starts at multiples of 16 bytes, a group's rows anywhere
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

FP8 = _kernel(
    name="grouped_fp8",
    idea="rows of each group, of float8, against a matrix of its own, with scales; sums promoted to float32",
    like="gemm_fp8",
    relayouts=("row", "column"),
    presets={
        "alternating": {"PINGPONG": 1},
        "alternating_across": {"PINGPONG": 1, "CLUSTER_N": 2},
        "large": {"BM": 256, "STAGES": 4},
        "few_rows": {"BM": 64, "STAGES": 8, "PINGPONG": 1},
    },
)

OF_INT8 = _kernel(
    name="grouped_int8",
    idea="rows of each group, of 8-bit integers, against a matrix of its own; sums exact in int32",
    like="gemm_int8",
    relayouts=("row", "column"),
    presets={
        "alternating": {"BN": 128, "STAGES": 6, "PINGPONG": 1},
        "alternating_across": {"BN": 128, "STAGES": 6, "PINGPONG": 1, "CLUSTER_N": 2},
        "few_rows": {"BM": 64, "BN": 128, "STAGES": 8, "PINGPONG": 1},
    },
)

KERNELS = KERNEL, FP8, OF_INT8


def kernel_for(dtype: str) -> Kernel:
    """The kernel for factors of an element type; that for 16 bits where no kernel is for it."""
    return next((one for one in KERNELS if dtype in one.support.factors), KERNEL)
