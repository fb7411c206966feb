"""Expected speedup of a product over cuBLAS: tables hold cuBLAS's speed next to each measurement, from the same run."""

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.problem import Problem
from tilewright.kernels import KERNELS
from tilewright.kernels.support import VECTOR_BYTES, Addresses
from tilewright.select.model import Floats, ProblemSizes
from tilewright.select.orders import order_of
from tilewright.select.tables import store
from tilewright.select.tables.cases import timed_case, types_of
from tilewright.select.tables.entry import Entry, rank

_NEIGHBOURS = 8
"""Tabled problems that are asked."""

_CAUTION = 0.5
"""Standard deviations, of what these say, that a guess stays below their mean."""

_LENGTH = 0.3
"""Distance over which a neighbour's weight falls to 1/e."""

_FAR = 2.0
"""Where no tabled problem is as near as this, tables say nothing of a problem."""

_OTHER_ALIGNMENT = 1 / 3
"""How far apart aligned and unaligned lines put two problems."""


class Speedup(NamedTuple):
    """Expected speedup of a product, and the time that it saves."""

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
    if problem.is_empty or problem.k == 0:
        return None
    order, promise = order_of(problem.arithmetic, capability), problem.arithmetic.precision
    known = _measured(device, capability, timed_case(problem), promise, order)
    if known is None:
        return None
    row = known.rows.get((problem.m, problem.n, problem.k, problem.batch))
    aligned = not any(ProblemSizes.of(problem, addresses).unaligned)
    if row is not None and known.aligned[row] == aligned:
        ratio, baseline = known.ratios[row], known.speeds[row]
    else:
        apart = known.places - _place(np.array([[problem.m, problem.n, problem.k, problem.batch]]))
        distances = np.sqrt((apart * apart).sum(axis=0)) + _OTHER_ALIGNMENT * (known.aligned != aligned)
        near = distances.argsort()[:_NEIGHBOURS]
        if distances[near[0]] > _FAR:
            return None
        weights = np.exp((distances[near[0]] - distances[near]) / _LENGTH)
        ratio, baseline = (np.average(of[near], weights=weights) for of in (known.ratios, known.speeds))
        ratio -= _CAUTION * math.sqrt(np.average((known.ratios[near] - ratio) ** 2, weights=weights))
    baseline_us = problem.flops / math.exp(baseline) / 1e3
    return Speedup(math.exp(ratio), baseline_us * (1 - math.exp(-ratio)))


class _TabledCase:
    """Entries of one case: for each problem, the logarithms of the ratio and of cuBLAS's GFLOP/s."""

    def __init__(self, case: str, entries: Sequence[Entry]) -> None:
        sizes = np.array([(one.m, one.n, one.k, one.batch) for one in entries])
        self.rows = {tuple(one): row for row, one in enumerate(sizes.tolist())}
        """By m, n, k and batch."""
        self.places = _place(sizes)
        self.aligned = _dense_aligned(case, sizes)
        self.speeds = np.log([one.baseline_gflops or math.nan for one in entries])
        self.ratios = np.log([one.gflops for one in entries]) - self.speeds


def _place(sizes: Floats) -> Floats:
    """Where problems lie among others: how many results one has counts most, then k, then how square it is.

    One along an axis is twice the results, 8 times the k, or 32 times as tall or wide.
    """
    m, n, k, batch = np.log2(np.maximum(sizes, 1)).T
    return np.array([m + n + batch, k / 3, (m - n) / 5])


def _dense_aligned(case: str, sizes: Floats) -> Floats:
    """Whether all lines of problems' matrices without gaps start at multiples of 16 bytes."""
    items, (m, n, k, _) = [VECTOR_BYTES // ITEM_BYTES[one] for one in types_of(case)], sizes.T
    lines = np.array([k if case[0] == "N" else m, n if case[1] == "N" else k])
    aligned: Floats = (lines % items[0] == 0).all(axis=0) & (n % items[1] == 0)
    return aligned


@lru_cache
def _measured(
    device: str, capability: tuple[int, int], case: str, promise: str | None, order: str | None
) -> _TabledCase | None:
    """The best that counts on each problem, of the first table that has something of it."""
    best: dict[object, Entry] = {}
    for table in (one for one in store.of_gpu(device, capability) if one.capability == capability):
        for entry in sorted(table.best_of(case, partial(_counts, promise), order), key=rank):
            best.setdefault(entry.problem[:4], entry)
    return _TabledCase(case, list(best.values())) if best else None


@lru_cache
def _counts(promise: str | None, kernel: str) -> bool:
    found = (one for one in KERNELS if one.name == kernel)  # tables have kernels that are gone
    return any(one.meets(promise) and (one.support.precision == "tf32") == (promise == "tf32") for one in found)
