"""Float32 products of which terms cannot hold all.

A kernel of terms puts the infinities and NaN of its factors on a list, looks at sums where elements are so small that
terms lose bits of them, and computes in float32 what is left, in the same launch. It takes turns with the kernel for
precision="ieee", and with itself on factors that terms hold.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from studies.record import Measurement
from tilewright.bench.run import pick
from tilewright.core.hardware import ceil_div
from tilewright.core.problem import Arithmetic, Problem, orders
from tilewright.engines.base import Engine, Matrix, Work
from tilewright.engines.plan import Plan, Pointers
from tilewright.kernels.spec import NON_FINITE, Choice

SIZES = (1024, 2048, 4095, 4096, 8192)
LAYOUTS = ("NN", "NT")
SAMPLES = 7
IEEE, TERMS = "ieee", "terms"

Change = Callable[[NDArray[np.float32], NDArray[np.float32]], None]
"""Of a and b, in place."""


def _one_infinity(a: NDArray[np.float32], b: NDArray[np.float32]) -> None:
    a[len(a) // 2, len(a) // 2] = np.inf


def _row_of_nan(a: NDArray[np.float32], b: NDArray[np.float32]) -> None:
    a[-1, : NON_FINITE // 2] = np.nan


def _probabilities(a: NDArray[np.float32], b: NDArray[np.float32]) -> None:
    """Softmax of numbers with a deviation of 20: the smallest underflow."""
    a *= 20
    np.exp(a - a.max(axis=1, keepdims=True), out=a)
    a /= a.sum(axis=1, keepdims=True)


def _overflow(a: NDArray[np.float32], b: NDArray[np.float32]) -> None:
    """What is found with the first element, and holds for all."""
    a *= np.float32(2.0**60)
    b *= np.float32(2.0**55)


def _one_overflows(a: NDArray[np.float32], b: NDArray[np.float32]) -> None:
    """What is found when all has been split."""
    b[-1, -1] = np.finfo(np.float32).max


CASES: dict[str, Change] = {
    "an infinity in a": _one_infinity,
    "NaN in a row of a": _row_of_nan,
    "a of probabilities": _probabilities,
    "products near overflow": _overflow,
    "the largest float32 in b": _one_overflows,
}
"""What is done to normal factors, in place, so that terms do not hold all. The last two are computed in float32."""
_ROWS = 64
"""Of D, whose error is looked at: the first."""


class _Factors(NamedTuple):
    """Of one product."""

    a: Matrix
    b: Matrix


def measure(
    engine: Engine, size: int, layout: str, terms: Choice, ieee: Choice, samples: int = SAMPLES
) -> list[Measurement]:
    """Time one product in each way, on operands that rotate through twice the last-level cache.

    Args:
        engine: where.
        size: m, n and k.
        layout: the orders of a and b, as in 'NT'.
        terms: a kernel of terms, and its config.
        ieee: the one for precision="ieee".
        samples: of each.
    """
    of_a, of_b = orders(layout)
    random = np.random.default_rng(size)
    normal = [random.standard_normal((size, size), np.float32) for _ in "ab"]

    def factors(change: Change | None) -> list[NDArray[np.float32]]:
        both = [x.copy() for x in normal]
        if change:
            change(*both)
        return both

    results = [engine.upload(np.full((size, size), np.nan, np.float32)) for _ in range(_copies(engine, size))]

    def upload(change: Change | None) -> list[_Factors]:
        a, b = factors(change)
        return [_Factors(engine.upload(a, order=of_a.order), engine.upload(b, order=of_b.order)) for _ in results]

    ordinary = upload(None)
    by_terms = engine.plan(*terms, Problem(size, size, size, a=of_a, b=of_b))
    exactly = engine.plan(*ieee, Problem(size, size, size, Arithmetic(precision="ieee"), a=of_a, b=of_b))

    def work(plan: Plan, sets: list[_Factors]) -> Work:
        def start(index: int, stream: Any) -> None:
            (left, right), d = sets[index % len(sets)], results[index % len(sets)]
            engine.start(plan, Pointers(left.pointer, right.pointer, d.pointer), stream=stream)

        return start

    works = {name: work(by_terms, upload(change)) for name, change in CASES.items()}
    works |= {IEEE: work(exactly, ordinary), TERMS: work(by_terms, ordinary)}
    times = engine.time(list(works.values()), samples, rotation=len(results))
    errors: dict[str, float] = {}
    for name, change in CASES.items():
        works[name](0, None)
        engine.synchronize()
        a, b = (x.astype(np.float64) for x in factors(change))
        with np.errstate(invalid="ignore"):
            exact = a[:_ROWS] @ b
            found = engine.download(results[0])[:_ROWS] - exact
        finite = abs(exact) < np.finfo(np.float32).max
        errors[name] = float(np.linalg.norm(found[finite]) / np.linalg.norm(exact[finite]))
    what: dict[str, str | int] = {"size": size, "layout": layout}
    us = {name: float(np.median(of)) for name, of in zip(works, times, strict=True)}
    return [Measurement(what=what, way=name, us=us[name], error=errors.get(name)) for name in works]


def _copies(engine: Engine, size: int) -> int:
    """Factors that rotate: more than twice the last-level cache."""
    return ceil_div(2 * engine.cache_bytes, 2 * 4 * size * size)


def _pick(engine: Engine, size: int, layout: str, precision: str | None) -> Choice:
    a, b = orders(layout)
    problem = Problem(size, size, size, Arithmetic(precision=precision), a=a, b=b)
    return pick(engine, problem)


def measurements(engine: Engine, given: Namespace) -> Iterator[Measurement]:
    """Every case of every product."""
    for size in SIZES:
        for layout in LAYOUTS:
            terms, ieee = (_pick(engine, size, layout, precision) for precision in (None, "ieee"))
            yield from measure(engine, size, layout, terms, ieee)
