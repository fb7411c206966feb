"""Float32 products of which parts cannot represent all.

A kernel of parts puts the infinities and NaN of its factors on a list, looks at sums where elements are so small that
parts lose bits of them, and computes in float32 what is left, in the same launch. It takes turns with the kernel for
precision="ieee", and with itself on factors that parts represent.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from studies.record import Measurement
from tilewright.core.problem import Arithmetic, Problem, orders
from tilewright.kernels.kernel import Choice
from tilewright.kernels.split import NON_FINITE
from tilewright.runtime.base import Engine, Work
from tilewright.tools.bench.measure import OperandSet, operand_sets, work_on
from tilewright.tools.bench.run import pick
from tilewright.tools.bench.verify import Operands

SIZES = (1024, 2048, 4095, 4096, 8192)
LAYOUTS = ("NN", "NT")
SAMPLES = 7
IEEE, PARTS = "ieee", "parts"

Change = Callable[[NDArray[np.float32], NDArray[np.float32]], None]
"""Function that changes a and b, in place."""


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
    """Scale both factors: the first element shows that the products overflow."""
    a *= np.float32(2.0**60)
    b *= np.float32(2.0**55)


def _one_overflows(a: NDArray[np.float32], b: NDArray[np.float32]) -> None:
    """Make the last element of b the largest float32, which is found when all has been split."""
    b[-1, -1] = np.finfo(np.float32).max


CASES: dict[str, Change] = {
    "an infinity in a": _one_infinity,
    "NaN in a row of a": _row_of_nan,
    "a of probabilities": _probabilities,
    "products near overflow": _overflow,
    "the largest float32 in b": _one_overflows,
}
"""Changes to normal factors, in place, after which bfloat16 parts do not represent all elements. The last two are
computed in float32."""
_ROWS = 64
"""First rows of D, whose error is looked at."""


def measure(
    engine: Engine, size: int, layout: str, parts: Choice, ieee: Choice, samples: int = SAMPLES
) -> list[Measurement]:
    """Time one product in each way, on operands that rotate through twice the last-level cache.

    Args:
        engine: where.
        size: m, n and k.
        layout: the orders of a and b, as in 'NT'.
        parts: a kernel of parts, and its config.
        ieee: the one for precision="ieee".
        samples: of each.
    """
    random = np.random.default_rng(size)
    normal = [random.standard_normal((size, size), np.float32) for _ in "ab"]

    def work(
        choice: Choice, precision: str | None, change: Change | None = None
    ) -> tuple[Work, Operands, list[OperandSet]]:
        """The work, its operands, and the sets of these that it runs on."""
        a, b = (x.copy() for x in normal)
        if change:
            change(a, b)
        operands = Operands(_problem(size, layout, precision), a, b, np.full((size, size), np.nan, np.float32))
        sets = operand_sets(engine, operands)
        return work_on(engine, engine.plan(*choice, operands.problem), sets), operands, sets

    ways = {name: work(parts, None, change) for name, change in CASES.items()}
    ways |= {IEEE: work(ieee, "ieee"), PARTS: work(parts, None)}
    times = engine.time([start for start, *_ in ways.values()], samples, rotation=len(ways[PARTS][2]))
    errors: dict[str, float] = {}
    for name in CASES:
        start, operands, sets = ways[name]
        start(0, None)
        engine.synchronize()
        with np.errstate(invalid="ignore"):
            exact = operands.a[:_ROWS].astype(np.float64) @ operands.b.astype(np.float64)
            found = engine.download(sets[0].c)[:_ROWS] - exact
        finite = abs(exact) < np.finfo(np.float32).max
        errors[name] = float(np.linalg.norm(found[finite]) / np.linalg.norm(exact[finite]))
    what: dict[str, str | int] = {"size": size, "layout": layout}
    us = {name: float(np.median(of)) for name, of in zip(ways, times, strict=True)}
    return [Measurement(what=what, way=name, us=us[name], error=errors.get(name)) for name in ways]


def _problem(size: int, layout: str, precision: str | None) -> Problem:
    a, b = orders(layout)
    return Problem(size, size, size, Arithmetic(precision=precision), a=a, b=b)


def measurements(engine: Engine) -> Iterator[Measurement]:
    """Every case of every product."""
    for size in SIZES:
        for layout in LAYOUTS:
            parts, ieee = (pick(engine, _problem(size, layout, precision)) for precision in (None, "ieee"))
            yield from measure(engine, size, layout, parts, ieee)
