"""Float32 products that terms cannot hold: `python -m tilewright.bench.float32_way --out FILE`.

A kernel of terms computes them in float32, in the same launch. It takes turns with the kernel for precision="ieee", and
with itself on factors that terms hold. What terms cannot hold is one infinity: in the middle of a, or the last element
of b, which is found when all has been split.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tilewright.bench.environment import environment
from tilewright.bench.records import Facts, RunFile
from tilewright.bench.run import pick
from tilewright.engines.base import Engine, Matrix, Work
from tilewright.engines.plan import Plan, Pointers
from tilewright.engines.registry import resolve_engine
from tilewright.errors import TilewrightError
from tilewright.files import Output, check_outputs
from tilewright.kernels.spec import Choice
from tilewright.problem import Arithmetic, Problem, orders

SIZES = (1024, 2048, 4095, 4096, 8192)
LAYOUTS = ("NN", "NT")
SAMPLES = 7
MIDDLE, END, IEEE, TERMS = "infinity in the middle of a", "infinity at the end of b", "ieee", "terms"
_ROWS = 64
"""Of D, whose error is looked at: those above the infinity's."""


class Product(Facts):
    """One product, size x size x size."""

    layout: str
    size: int
    us: dict[str, float]
    """Medians of samples that took turns, microseconds: with an infinity, of the kernel for 'ieee', and of terms."""
    error: float
    """Relative Frobenius error of float32's way, of rows that no infinity reaches."""


class Float32Way(RunFile):
    """What one run measured, and where."""

    products: list[Product]


class _Set(NamedTuple):
    """Operands of one run."""

    a: Matrix
    b: Matrix
    middle: Matrix
    """a with an infinity in its middle."""
    end: Matrix
    """b with an infinity at its end."""
    d: Matrix


def measure(engine: Engine, size: int, layout: str, terms: Choice, ieee: Choice, samples: int = SAMPLES) -> Product:
    """Time one product in each way, on operands that rotate through twice the last-level cache.

    Args:
        engine: where.
        size: m, n and k.
        layout: the orders of a and b, as in 'NT'.
        terms: a kernel of terms, and its config.
        ieee: the one for precision="ieee".
        samples: of each.
    """
    random = np.random.default_rng(size)
    a, b = (random.standard_normal((size, size), np.float32) for _ in "ab")
    middle, end = a.copy(), b.copy()
    middle[size // 2, size // 2] = end[-1, -1] = np.inf
    of_a, of_b = orders(layout)
    sets = [
        _Set(
            a=engine.upload(a, order=of_a.order),
            b=engine.upload(b, order=of_b.order),
            middle=engine.upload(middle, order=of_a.order),
            end=engine.upload(end, order=of_b.order),
            d=engine.upload(np.full_like(a, np.nan)),
        )
        for _ in range(-(-2 * engine.cache_bytes // (2 * a.nbytes)))
    ]
    by_terms = engine.plan(*terms, Problem(size, size, size, a=of_a, b=of_b))
    exactly = engine.plan(*ieee, Problem(size, size, size, Arithmetic(precision="ieee"), a=of_a, b=of_b))

    def work(plan: Plan, operands: Callable[[_Set], tuple[Matrix, Matrix]]) -> Work:
        def start(index: int, stream: Any) -> None:
            one = sets[index % len(sets)]
            left, right = operands(one)
            engine.start(plan, Pointers(left.pointer, right.pointer, one.d.pointer), stream=stream)

        return start

    works = {
        MIDDLE: work(by_terms, lambda one: (one.middle, one.b)),
        END: work(by_terms, lambda one: (one.a, one.end)),
        IEEE: work(exactly, lambda one: (one.a, one.b)),
        TERMS: work(by_terms, lambda one: (one.a, one.b)),
    }
    times = engine.time(list(works.values()), samples, rotation=len(sets))
    works[MIDDLE](0, None)
    engine.synchronize()
    rows = min(_ROWS, size // 2)
    exact = a[:rows].astype(np.float64) @ b.astype(np.float64)
    error = np.linalg.norm(engine.download(sets[0].d)[:rows] - exact) / np.linalg.norm(exact)
    us = {name: float(np.median(of)) for name, of in zip(works, times, strict=True)}
    return Product(layout=layout, size=size, us=us, error=float(error))


def _pick(engine: Engine, size: int, layout: str, precision: str | None) -> Choice:
    a, b = orders(layout)
    problem = Problem(size, size, size, Arithmetic(precision=precision), a=a, b=b)
    return pick(engine, problem)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.bench.float32_way", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where the records are written")
    options = parser.parse_args(arguments)
    try:
        check_outputs([Output("--out", options.out, Float32Way.kind())])
        engine = resolve_engine("cuda")
        found: list[Product] = []
        for size in SIZES:
            for layout in LAYOUTS:
                terms, ieee = (_pick(engine, size, layout, precision) for precision in (None, "ieee"))
                one = measure(engine, size, layout, terms, ieee)
                found.append(one)
                print(f"{size} {layout}  {one.us}  error {one.error:.1e}", flush=True)
                Float32Way(environment=environment(engine), products=found).save(options.out)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
