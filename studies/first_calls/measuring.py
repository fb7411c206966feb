"""The host's time in first calls of shapes, next to PyTorch's: `python -m studies.first_calls.measuring [--json FILE]`.

Sizes are drawn at random. Products of the same kind come first, untimed, until what they run is compiled and loaded; a
call that loads code after all does not count. No call waits for the GPU, nor for memory.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.bench.end_to_end import Call, Tensors, TorchCalls, exact
from tilewright.bench.environment import environment
from tilewright.bench.records import Facts, PerCall, RunFile
from tilewright.engines.registry import resolve_engine
from tilewright.errors import LaunchError, TilewrightError
from tilewright.files import Output, check_outputs
from tilewright.problem import Arithmetic, Layout, Problem, Scalars, orders

if TYPE_CHECKING:
    from tilewright.engines.cuda import CudaEngine

STEP, SMALLEST, LARGEST = 8, 256, 4096
"""Sizes are multiples of STEP, so that all rows are aligned."""

SHAPES = 100
"""That are timed."""

LOADING = 300
"""That come first."""

_SPARE_BYTES = 2**30
"""Memory that PyTorch has to spare: more than operands, result and copies of a product take."""

KINDS = tuple((dtype, layout) for dtype in ("float32", "bfloat16") for layout in ("NN", "NT"))


class FirstCalls(Facts):
    """Products of one kind. Times are medians over the shapes, of what the host spends in a call."""

    case: str
    """As of a problem."""
    framework: str
    """Name and version."""
    smallest: int
    """m, n or k."""
    largest: int
    shapes: int
    first_us: PerCall
    again_us: PerCall
    """Of second calls, on the same arrays."""


class FirstCallsRun(RunFile):
    """What one run measured, and where."""

    first_calls: list[FirstCalls]


def measure(
    calls: TorchCalls,
    dtype: str,
    layout: str,
    loaded: Callable[[], int],
    *,
    shapes: int = SHAPES,
    loading: int = LOADING,
    largest: int = LARGEST,
    now: Callable[[], float] = time.perf_counter,
) -> FirstCalls:
    """Time first and second calls.

    Args:
        calls: the framework, and where its tensors lie.
        dtype, layout: element type of all matrices, and the orders of A and B, as in 'NT'.
        loaded: says how many kernels are loaded.
        shapes, loading: how many shapes are timed, and how many come first.
        largest: m, n or k.
        now: seconds.

    Raises:
        LaunchError: nearly all calls loaded code, however many came before.
    """
    drawn = random.Random(f"{dtype} {layout}")
    seen: set[tuple[int, ...]] = set()

    def pair() -> tuple[Call, Call]:
        """Calls of a new shape: ours, and the framework's own."""
        sizes = tuple(drawn.randint(SMALLEST // STEP, largest // STEP) * STEP for _ in range(3))
        if sizes in seen:
            return pair()
        seen.add(sizes)
        problem = _problem(sizes, dtype, layout)
        operands = _zeros(calls, problem)
        return calls.ours(problem, Scalars(), None)(operands, None), calls.own(problem, Scalars())(operands, None)

    def timed(both: Sequence[Call], swapped: bool) -> list[float]:
        """Microseconds of each, the second first where they are swapped."""
        taken = [0.0, 0.0]
        for number in (1, 0) if swapped else (0, 1):
            calls.wait()
            start = now()
            both[number]()
            taken[number] = 1e6 * (now() - start)
        return taken

    first: list[list[float]] = []
    again: list[list[float]] = []
    with exact(calls.torch):
        calls.torch.empty(_SPARE_BYTES, dtype=calls.torch.uint8, device=calls.device)
        for _ in range(loading):
            for call in pair():
                call()
        for turn in range(4 * shapes):
            both, before = pair(), loaded()
            taken = timed(both, turn % 2 == 1)
            if loaded() != before:
                continue
            first.append(taken)
            again.append(timed(both, turn % 2 == 1))
            if len(first) == shapes:
                break
        else:
            raise LaunchError(f"of {4 * shapes} calls only {len(first)} loaded no code, after {loading} others")
    return FirstCalls(
        case=_problem((SMALLEST,) * 3, dtype, layout).case,
        framework=calls.name,
        smallest=SMALLEST,
        largest=largest,
        shapes=shapes,
        first_us=PerCall.of(map(statistics.median, zip(*first, strict=True))),
        again_us=PerCall.of(map(statistics.median, zip(*again, strict=True))),
    )


def _zeros(calls: TorchCalls, problem: Problem) -> Tensors:
    """Operands: the host's time does not depend on their values."""

    def zeros(layout: Layout, rows: int, cols: int) -> Any:
        lines = calls.torch.zeros(
            layout.lines(rows, cols), dtype=getattr(calls.torch, problem.dtype), device=calls.device
        )
        return lines if layout.order == "row" else lines.T

    a, b = zeros(problem.a, problem.m, problem.k), zeros(problem.b, problem.k, problem.n)
    return Tensors(a, b, None, None, None)


def _problem(sizes: Sequence[int], dtype: str, layout: str) -> Problem:
    a, b = orders(layout)
    m, n, k = sizes
    return Problem(m, n, k, Arithmetic(dtype, dtype), a=a, b=b)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.first_calls.measuring", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured here")
    options = parser.parse_args(arguments)
    try:
        check_outputs([Output("--json", options.json, FirstCallsRun.kind())])
        engine, calls = resolve_engine("cuda"), TorchCalls.on_gpu()
        if TYPE_CHECKING:
            assert isinstance(engine, CudaEngine)
        found: list[FirstCalls] = []
        for dtype, layout in KINDS:
            one = measure(calls, dtype, layout, lambda: engine.loaded)
            found.append(one)
            print(f"{one.case}  first {one.first_us}  again {one.again_us}", flush=True)
            if options.json:
                FirstCallsRun(environment=environment(engine), first_calls=found).save(options.json)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
