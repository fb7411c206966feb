"""Expected speedup of a product over cuBLAS: tables hold cuBLAS's speed next to each measurement, from the same run."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tilewright.core.problem import Problem
from tilewright.kernels.support import Addresses
from tilewright.select.cost.prediction import Dims
from tilewright.select.counted import Counted, that_count
from tilewright.select.measured import tables_of
from tilewright.select.orders import order_of
from tilewright.select.positions import FAR, LENGTH, Positions
from tilewright.select.tables.cases import Case

_NEIGHBOURS = 8
"""Tabled problems that are asked."""

_CAUTION = 0.5
"""Standard deviations, of what these say, that a guess stays below their mean."""


class Speedup(NamedTuple):
    """Expected speedup of a product over cuBLAS, and the time that it saves."""

    ratio: float
    """cuBLAS's time over ours."""
    saved_us: float
    """cuBLAS's time less ours: negative where cuBLAS is faster."""


def expected_speedup(
    problem: Problem, capability: tuple[int, int], device: str = "", addresses: Addresses = Addresses()
) -> Speedup | None:
    """How a product by the fastest kernel known compares with cuBLAS on a GPU; None where nothing like it was measured.

    For a problem of the tables: what was measured, our time and cuBLAS's from one run. For another one: the mean, of
    logarithms, over the nearest problems with the same orders and element types, a nearer one counting more, less half
    their standard deviation; cuBLAS's time follows from its speed there. Bias and activation change nothing. Only
    device time counts, not the host's, and only kernels that keep the problem's precision. cuBLAS's times are those of
    float32 products, or where the precision is "tf32" of products in TF32: then kernels that round to it count alone.

    That is a guess. With each of the H200's 525 float32 problems left out in turn, 502 are expected to be faster. 27 of
    these take longer than cuBLAS, 13% at worst; over all 502, cuBLAS's time over ours is 1.54 in the geometric mean,
    and 1.30 by CUDA cores alone. Of 197 bfloat16 and float16 problems, 35 are expected to be faster, and 12 of these
    take longer, 48% at worst; the mean is 1.34.

    Args:
        problem: the product.
        capability: the GPU's compute capability: on what its own tables lack, those of others with the same are asked.
        device: the name that the GPU's driver gives it.
        addresses: of the operands, or what they leave when divided by 16.
    """
    order = order_of(problem.arithmetic, capability)
    known = _measured(device, capability, Case.of(problem), problem.arithmetic.precision, order)
    if known is None or problem.is_empty or problem.k == 0:
        return None
    sizes = Dims.of(problem, addresses)
    if (row := known.row(sizes)) is not None:
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
    return Speedup(math.exp(ratio), baseline_us * (1 - math.exp(-ratio)))


class _TabledCase(Positions):
    """Tabled measurements of one case: for each problem, the logarithms of the ratio and of cuBLAS's GFLOP/s."""

    def __init__(self, case: Case, counted: Counted) -> None:
        best_last = np.lexsort((counted.gflops, counted.accurate))
        best = np.zeros(len(counted.sizes), np.intp)
        best[counted.row[best_last]] = best_last
        best = best[~np.isnan(counted.baseline_gflops[best])]
        super().__init__(case, counted.sizes[counted.row[best]])
        self.speeds = np.log(counted.baseline_gflops[best])
        self.ratios = np.log(counted.gflops[best]) - self.speeds


@lru_cache
def _measured(
    device: str, capability: tuple[int, int], case: Case, promise: str | None, order: str | None
) -> _TabledCase | None:
    counted = that_count(tables_of(device, capability), case, promise, order, rounding=promise == "tf32")
    known = None if counted is None else _TabledCase(case, counted)
    return known if known and len(known.rows) else None
