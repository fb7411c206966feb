"""A case of a check: a problem, its scalars and values, and the config that it runs with."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from tilewright.core.dtypes import ITEM_BYTES, SUMS_OF_INT8
from tilewright.core.hardware import round_up
from tilewright.core.problem import UNSCALED, Layout, Problem, Scalars, orders
from tilewright.emulator.check import is_huge
from tilewright.emulator.engine import MULTIPROCESSORS
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import VECTOR_BYTES

MANY = 12
"""Multiprocessors that share two tiles: more than the emulator has, so that partial sums are added in several steps."""

_GROUPS = 4
"""Groups of a grouped product."""

NAN, INFINITY, TINY = "NaN", "infinity", "tiny"
VALUES = {
    NAN: "NaN in A and in C",
    INFINITY: "infinities in A and in B",
    TINY: "products that float32 holds with fewer bits",
}
"""Values of elements besides random numbers, in words."""

INFINITE, NEAR_OVERFLOW, FAR_ABOVE = 128, 126, 60
UNFIT = {
    INFINITE: "an infinity in each factor",
    NEAR_OVERFLOW: "an element near overflow",
    FAR_ABOVE: "an element far above all others",
}
"""By exponent. Kernels of parts put the first on a list. No part represents the second: they multiply in float32. Next
to the last, scaled parts lose bits of all others, so that they look for small sums and find them."""


class CheckCase(NamedTuple):
    """One run of a check."""

    problem: Problem
    scalars: Scalars
    config: Mapping[str, int]
    multiprocessors: int = MULTIPROCESSORS
    """For how many of them the launch is made."""
    sampled: bool = False
    """Whether some of the blocks run, on matrices that no memory holds (`check_sample`)."""
    unfit: int | None = None
    """The exponent of an element that parts may not represent, one of `UNFIT`."""
    cached: str | None = None
    """The operand, A or B, whose copy is made by a launch of its own."""
    values: str = ""
    """One of `VALUES`, which some elements have; if empty, all are random numbers."""


def fitting(scalars: Scalars, result: str) -> Scalars:
    """The scalars that results of a type may have: integers, rounded up, where results are int32."""
    return Scalars(*map(math.ceil, scalars[:2])) if result == SUMS_OF_INT8 else scalars


def in_words(case: CheckCase, kernel: Kernel, config: Config) -> str:
    """A case in words, for messages; its config and what else all cases of a kernel may share only where it differs."""
    problem, usual = case.problem, kernel.support.arithmetic()
    words = [problem.shape, *([problem.layout] if problem.layout != "NN" else []), f"beta {case.scalars.beta:g}"]
    if problem.dtype != usual.factors or problem.dtype_b != problem.dtype:
        words.append(f"factors of {' and '.join(dict.fromkeys((problem.dtype, problem.dtype_b)))}")
    if problem.result != kernel.support.arithmetic(problem.dtype).result:
        words.append(f"results of {problem.result}")
    words += filter(None, (str(problem.epilogue).replace("+", " and "),))
    if problem.scaling != kernel.support.scaled(replace(problem, scaling=UNSCALED)).scaling:
        words.append(str(problem.scaling))
    if problem.batch > 1 and not problem.grouped:
        sides = {"A": problem.a, "B": problem.b, "C": problem.addend}
        words += [f"one {name} for all" for name, layout in sides.items() if not layout.batch_stride]
    gaps = problem.d.ld != problem.n
    said = (
        (gaps and is_huge(problem), f"{problem.d.ld} elements from row to row"),
        (gaps and not is_huge(problem), "aligned rows"),
        (problem.addend != problem.d, "C separate from D"),
        (case.unfit is not None, UNFIT.get(case.unfit or 0, "")),
        (case.values, VALUES.get(case.values, "")),
        (case.cached, f"a copy of {case.cached} that is kept"),
        (case.multiprocessors != MULTIPROCESSORS, f"{case.multiprocessors} multiprocessors"),
        (case.scalars.alpha == 0, "alpha 0"),
    )
    words += [text for holds, text in said if holds]
    words += [f"{name}={value}" for name, value in case.config.items() if config[name] != value]
    return ", ".join(words)


def supported_problem(kernel: Kernel, problem: Problem, dtype: str = "") -> Problem:
    """A problem of which sizes and orders are given, as a kernel takes it: its element types, scales and groups, and
    a B for each group."""
    support = kernel.support
    count = _GROUPS if support.grouped else problem.batch
    arithmetic, b = support.arithmetic(dtype), problem.b._replace(batch_stride=None)
    return support.scaled(replace(problem, arithmetic=arithmetic, batch=count, b=b, grouped=support.grouped))


def problem_of(
    kernel: Kernel, shape: tuple[int, int, int], dtype: str, layout: str, aligned: bool = False, batch: int = 1
) -> Problem:
    """A problem of these sizes and orders, as a kernel takes it: the element types (of the factors, if any is given),
    scales and groups that it has; aligned: with lines that begin at multiples of 16 bytes."""
    a, b = orders(layout)
    problem = supported_problem(kernel, Problem(*shape, batch=batch, a=a, b=b), dtype)
    return with_aligned_lines(problem) if aligned else problem


def with_aligned_lines(problem: Problem) -> Problem:
    """A problem whose matrices have lines that begin at multiples of 16 bytes, and whose C lies as D does."""

    def aligned(layout: Layout, dtype: str) -> Layout:
        return layout._replace(ld=round_up(layout.ld, VECTOR_BYTES // ITEM_BYTES[dtype]), batch_stride=None)

    a, b = aligned(problem.a, problem.dtype), aligned(problem.b, problem.dtype_b)
    return replace(problem, a=a, b=b, c=None, d=aligned(problem.d, problem.result))


def shares_tiles(kernel: Kernel, config: Config) -> bool:
    """Whether `MANY` multiprocessors share two tiles."""
    shared = problem_of(kernel, shared_sizes(kernel, config), "", "NN")
    return kernel.scheduled(shared, config, MANY).workspace_bytes > 0


def shared_sizes(kernel: Kernel, config: Config) -> tuple[int, int, int]:
    """Sizes of two tiles, neither of which is whole, with a step for each of many blocks."""
    tile = kernel.tile(config)
    return tile.m + tile.m // 2 + 1, max(tile.n - 3, 1), (MANY + 1) * tile.k - 5
