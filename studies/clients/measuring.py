"""Times and errors of a blocked Cholesky factorisation, of conjugate gradients and of a training, on PyTorch.

The ways take turns in a solver, and train one after the other. The time is that of a solution; of a training, a step's.
The error of a solver is the relative residual in float64; that of a training is the largest difference of a loss from
that of the same step in float64, over that.
"""

import runpy
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

import tilewright.torch
from studies.frameworks.models import TASKS, Sizes, training
from studies.precisions.ways import multiplying
from studies.record import Measurement
from tilewright.api.front import matmul
from tilewright.runtime.base import Engine
from tilewright.tools.bench.end_to_end import exact

_Product = Callable[[Any, Any], Any]
_EXAMPLES = Path(__file__).parents[2] / "examples"


class Way(NamedTuple):
    """How products are made: by a function, and by PyTorch's own within a context."""

    product: _Product
    within: Callable[[], AbstractContextManager[object]]


class Scale(NamedTuple):
    """How large everything is."""

    device: str = "cuda"
    factored: tuple[tuple[int, int], ...] = ((8192, 512), (16384, 1024))
    """Rows of matrices that are factored, and columns that are factored at a time."""
    solved: tuple[tuple[int, int], ...] = ((8192, 256), (16384, 1024))
    """Rows of matrices of systems, and right-hand sides."""
    model: str = "GPT-2"
    sizes: Sizes = Sizes()
    steps: int = 20
    """Steps of the training."""
    turns: int = 3


def ways() -> dict[str, Way]:
    """All ways to make the products of a program, by name."""
    found = {
        "PyTorch float32": Way(torch.matmul, partial(exact, torch)),
        "PyTorch TF32": Way(torch.matmul, partial(multiplying, "tf32")),
    }
    for precision in ("float32", "fp16x3"):
        product = partial(matmul, precision=precision)
        found[f"tilewright {precision}"] = Way(product, partial(tilewright.torch.enable, precision, wait=True))
    return found


class Program(NamedTuple):
    """A system that is solved, and how."""

    name: str
    size: str
    solve: Callable[[_Product], tuple[Any, int | None]]
    """The result, and the steps that it took, by a product."""
    residual: Callable[[Any], float]
    """The relative error of a result."""


def outcomes(scale: Scale) -> Iterator[Measurement]:
    """Run everything, one after the other."""
    cholesky = runpy.run_path(str(_EXAMPLES / "torch_cholesky.py"))["cholesky"]
    gradients = runpy.run_path(str(_EXAMPLES / "torch_conjugate_gradients.py"))["solve"]
    for size, block in scale.factored:
        yield from _solved(scale, _factorisation(cholesky, _definite(scale, size, 1.0), block))
    for size, sides in scale.solved:
        a = _definite(scale, size, 0.1)
        yield from _solved(scale, _solution(gradients, a, torch.randn(size, sides, device=scale.device)))
    yield from _trained(scale)


def _factorisation(cholesky: Callable[[Any, int, _Product], Any], a: Any, block: int) -> Program:
    def residual(lower: Any) -> float:
        exactly, exact_a = lower.double(), a.double()
        return float((exactly @ exactly.T - exact_a).norm() / exact_a.norm())

    size = f"{len(a)}, {block} at a time"
    return Program("Cholesky", size, lambda product: (cholesky(a, block, product), None), residual)


def _solution(gradients: Callable[[Any, Any, _Product], tuple[Any, int]], a: Any, b: Any) -> Program:
    def residual(x: Any) -> float:
        sides = b.double()
        return float((a.double() @ x.double() - sides).norm() / sides.norm())

    size = f"{len(a)}, {b.shape[1]} sides"
    return Program("conjugate gradients", size, lambda product: gradients(a, b, product), residual)


def _definite(scale: Scale, size: int, least: float) -> Any:
    """A symmetric positive definite matrix whose smallest eigenvalue is about this."""
    torch.manual_seed(0)
    factor = torch.randn(size, size, device=scale.device)
    return factor @ factor.T / size + least * torch.eye(size, device=scale.device)


def _solved(scale: Scale, program: Program) -> Iterator[Measurement]:
    """A solver with each way, which take turns; the first turn compiles, and is not timed."""
    taken: dict[str, list[float]] = {name: [] for name in ways()}
    found: dict[str, tuple[float, int | None]] = {}
    for turn in range(1 + scale.turns):
        for name, way in ways().items():
            with way.within() if way.product is torch.matmul else exact(torch):
                seconds, (result, steps) = _timed(scale, partial(program.solve, way.product))
            if turn:
                taken[name].append(seconds)
            else:
                with exact(torch):
                    found[name] = program.residual(result), steps
    for name, (error, steps) in found.items():
        yield _measured(program.name, program.size, name, taken[name], error, steps)


def _trained(scale: Scale) -> Iterator[Measurement]:
    """A training with each way, next to the same in float64."""
    with exact(torch):
        expected, _ = _losses(scale, torch.float64)
    size = f"{scale.sizes.batch} x {scale.sizes.length}"
    for name, way in ways().items():
        with way.within():
            losses, seconds = _losses(scale, torch.float32)
        off = max(abs(one - other) / abs(other) for one, other in zip(losses, expected, strict=True))
        yield _measured(f"training of {scale.model}", size, name, seconds[1:], off, scale.steps)


def _measured(
    program: str, size: str, way: str, seconds: Sequence[float], error: float, steps: int | None
) -> Measurement:
    facts = {} if steps is None else {"steps": steps}
    us = 1e6 * statistics.median(seconds)
    return Measurement(what={"program": program, "size": size}, way=way, us=us, error=error, facts=facts)


def _losses(scale: Scale, dtype: torch.dtype) -> tuple[list[float], list[float]]:
    """Losses of a training's steps, which begin alike, and the seconds that each took."""
    torch.manual_seed(1)
    with torch.device(scale.device):
        task = TASKS[scale.model](scale.sizes)
    task.model.to(dtype)
    step = training(task)
    steps = [_timed(scale, lambda: float(step())) for _ in range(scale.steps)]
    return [loss for _, loss in steps], [seconds for seconds, _ in steps]


def _timed(scale: Scale, work: Callable[[], Any]) -> tuple[float, Any]:
    wait = torch.cuda.synchronize if scale.device == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    result = work()
    wait()
    return time.perf_counter() - start, result


def measurements(engine: Engine) -> Iterator[Measurement]:
    """Every program with every way."""
    return outcomes(Scale())
