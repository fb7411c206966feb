"""The host's time in first calls of shapes, next to PyTorch's.

Sizes are drawn at random. Products of the same kind come first, untimed, until what they run is compiled and loaded; a
call that loads code after all does not count. No call waits for the GPU, nor for memory.
"""

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from studies.record import Measurement
from tilewright.core.errors import LaunchError
from tilewright.core.problem import Layout, Problem, Scalars
from tilewright.runtime.base import Engine
from tilewright.tools.bench.end_to_end import Call, Stopwatch, Tensors, TorchCalls, exact
from tilewright.tools.bench.ncu import problem_of

STEP, SMALLEST, LARGEST = 8, 256, 4096
"""Sizes are multiples of STEP, so that all rows are aligned."""

SHAPES = 100
"""Shapes that are timed."""

LOADING = 300
"""Calls before the timed ones, which load the code that all calls need."""

_SPARE_BYTES = 2**30
"""Memory that PyTorch has to spare: more than operands, result and copies of a product take."""

KINDS = tuple((dtype, layout) for dtype in ("float32", "bfloat16") for layout in ("NN", "NT"))


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
) -> Iterator[Measurement]:
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
    drawn, stopwatch = random.Random(f"{dtype} {layout}"), Stopwatch(calls.wait, now)
    seen: set[tuple[int, ...]] = set()

    def pair() -> tuple[Call, Call]:
        """Calls of a new shape: ours, and the framework's own."""
        sizes = tuple(drawn.randint(SMALLEST // STEP, largest // STEP) * STEP for _ in range(3))
        if sizes in seen:
            return pair()
        seen.add(sizes)
        problem = problem_of("x".join(map(str, sizes)), layout, dtype, dtype)
        operands = _zeros(calls, problem)
        return calls.ours(problem, Scalars(), None)(operands, None), calls.own(problem, Scalars())(operands, None)

    def timed(both: Sequence[Call], swapped: bool) -> list[float]:
        """Microseconds of each, the second first where they are swapped."""
        taken = [0.0, 0.0]
        for number in (1, 0) if swapped else (0, 1):
            taken[number] = 1e6 * stopwatch.seconds(both[number], 1, ended=False)
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
    case = problem_of(str(SMALLEST), layout, dtype, dtype).case
    for which, times in (("first", first), ("second", again)):
        what: dict[str, str | int] = {"case": case, "call": which}
        what |= {"smallest": SMALLEST, "largest": largest, "shapes": shapes}
        for way, samples in zip(("tilewright", calls.name), zip(*times, strict=True), strict=True):
            yield Measurement(what=what, way=way, us=statistics.median(samples))


def _zeros(calls: TorchCalls, problem: Problem) -> Tensors:
    """Operands: the host's time does not depend on their values."""

    def zeros(layout: Layout, rows: int, cols: int) -> Any:
        lines = calls.torch.zeros(
            layout.lines(rows, cols), dtype=getattr(calls.torch, problem.dtype), device=calls.device
        )
        return lines if layout.order == "row" else lines.T

    a, b = zeros(problem.a, problem.m, problem.k), zeros(problem.b, problem.k, problem.n)
    return Tensors(a, b, None, None, None)


def measurements(engine: Engine) -> Iterator[Measurement]:
    """First and second calls of every kind of product."""
    gpu: Any = engine
    calls = TorchCalls.on_gpu()
    for dtype, layout in KINDS:
        yield from measure(calls, dtype, layout, lambda: int(gpu.loaded))
