"""What a product gains over cuBLAS: tables hold cuBLAS's speed next to each measurement, from the same run."""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilewright.analysis.cost import Sizes
from tilewright.kernels.takes import Addresses
from tilewright.problem import Problem
from tilewright.select.measured import FAR, LENGTH, Case, Places, identity, tables_of, that_count, with_twins
from tilewright.select.orders import order_of

if TYPE_CHECKING:
    from tilewright.tables.table import Entry, Table

_NEIGHBOURS = 8
"""Tabled problems that are asked."""

_CAUTION = 0.5
"""Standard deviations, of what these say, that a guess stays below their mean."""


class Gain(NamedTuple):
    """What is expected of a product."""

    ratio: float
    """cuBLAS's time over ours."""
    saved_us: float
    """cuBLAS's time less ours: negative where cuBLAS is faster."""


def expected_gain(
    problem: Problem, capability: tuple[int, int], device: str = "", addresses: Addresses = Addresses()
) -> Gain | None:
    """How a product by the fastest kernel known compares with cuBLAS on a GPU; None where nothing like it was measured.

    For a problem of the tables: what was measured, our time and cuBLAS's from one run. For another one: the mean, of
    logarithms, over the nearest problems with the same orders and element types, a nearer one counting more, less half
    their standard deviation; cuBLAS's time follows from its speed there. Bias and activation change nothing. Only
    device time counts, not the host's, and only kernels that keep the problem's precision. cuBLAS's times are those of
    float32 products, or where the precision is "tf32" of products in TF32: then kernels that round to it count alone.

    That is a guess. With each of the H200's 525 float32 problems left out in turn, 502 are expected to gain. 27 of
    these take longer than cuBLAS, 13% at worst; over all 502, cuBLAS's time over ours is 1.54 in the geometric mean,
    and 1.30 by CUDA cores alone. Of 197 bfloat16 and float16 problems, 35 are expected to gain, and 12 of these take
    longer, 48% at worst; the mean is 1.34.

    Args:
        problem: the product.
        capability: the GPU's compute capability: on what its own tables lack, those of others with the same are asked.
        device: the name that the GPU's driver gives it.
        addresses: of the operands, or what they leave when divided by 16.
    """
    order = order_of(problem.arithmetic, capability)
    known = _measured(device, capability, problem.arithmetic.precision, order).get(Case.of(problem))
    if known is None or problem.is_empty or problem.k == 0:
        return None
    sizes = Sizes.of(problem, addresses)
    if (row := known.rows.get(identity(sizes))) is not None:
        ratio, baseline = known.ratios[row], known.speeds[row]
    else:
        distances = known.distances(sizes)
        near = distances.argsort()[:_NEIGHBOURS]
        if distances[near[0]] > FAR:
            return None
        weights = np.exp((distances[near[0]] - distances[near]) / LENGTH)
        ratio, baseline = (np.average(of[near], weights=weights) for of in (known.ratios, known.speeds))
        ratio -= _CAUTION * math.sqrt(np.average((known.ratios[near] - ratio) ** 2, weights=weights))
    baseline_us = problem.flops / math.exp(baseline) / 1e3
    return Gain(math.exp(ratio), baseline_us * (1 - math.exp(-ratio)))


class _Known(Places):
    """What tables say of one case: of each problem, the logarithms of the ratio and of cuBLAS's GFLOP/s."""

    def __init__(self, problems: dict[Sizes, tuple[float, float]]) -> None:
        super().__init__(list(problems))
        self.ratios, self.speeds = np.log(np.array(list(problems.values()))).T


@lru_cache
def _measured(device: str, capability: tuple[int, int], promise: str | None, order: str | None) -> dict[Case, _Known]:
    return known_of(tables_of(device, capability), promise, order)


def _counts(entry: "Entry", promise: str | None, order: str | None) -> bool:
    return entry.keeps(promise) and entry.rounds == (promise == "tf32") and entry.adds_in(order)


def known_of(tables: Iterable["Table"], promise: str | None = None, order: str | None = None) -> dict[Case, _Known]:
    """What tables say of kernels that keep a promise, by case: of their entries, those `that_count`, and of
    problems that a case lacks, those of its twin."""
    from tilewright.tables.cases import posed  # noqa: PLC0415
    from tilewright.tables.table import best_by_problem  # noqa: PLC0415

    found: dict[Case, dict[Sizes, tuple[float, float]]] = {}
    counted = that_count(tables, lambda entry: _counts(entry, promise, order), promise)
    for best in best_by_problem(entry for _, entry in counted).values():
        if best.baseline_gflops is not None:
            problem = posed(best.m, best.n, best.k, best.case, best.batch)
            ratio = best.gflops / best.baseline_gflops
            of_case = found.setdefault(Case.of(problem), {})
            of_case.setdefault(Sizes.of(problem, Addresses()), (ratio, best.baseline_gflops))
    return {case: _Known(problems) for case, problems in with_twins(found).items()}
