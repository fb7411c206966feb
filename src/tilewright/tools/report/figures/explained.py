"""The figure of `tilewright explain --figure`."""

from collections.abc import Iterator
from pathlib import Path

from tilewright.core.errors import FigureError
from tilewright.core.files import FileKind, save
from tilewright.core.problem import Problem
from tilewright.kernels import LADDER
from tilewright.tools.explain.explanation import Explanation
from tilewright.tools.explain.roofline import least_bytes, moved
from tilewright.tools.explain.traffic import count
from tilewright.tools.report.figures.kernel_figure import KernelFigure, RooflineChart
from tilewright.tools.report.figures.roofline import SHARED, Dot
from tilewright.tools.report.measured import find_measured

KIND = FileKind("a figure", lambda content: content.startswith(b"<svg"))

_SUFFIX = ".svg"


def check(path: Path, problem: Problem) -> None:
    """Raise FigureError unless a problem's figure can have this name, and there is something to draw."""
    if path.suffix.lower() != _SUFFIX:
        raise FigureError(f"--figure takes a path that ends in {_SUFFIX}, got {path}")
    if problem.is_empty:
        raise FigureError(f"--figure takes a problem whose result has elements, got {problem.shape}")


def write(explained: Explanation, path: Path) -> None:
    """Draw all that the kernel has, and write it.

    Raises:
        FigureError: the path is none for a figure, or the problem has no elements.
        WriteError: the file cannot be written.
        EngineUnavailableError: there is no C++ compiler.
    """
    check(path, explained.problem)
    figure = KernelFigure(explained.kernel, explained.config, explained.problem, lines=True)
    save(path, figure.whole(_roofline(explained)).encode(), f"the figure to {path}")


def _roofline(explained: Explanation) -> RooflineChart | None:
    """The kernel among the rungs that were measured on this problem and GPU; None outside of float32."""
    problem, moves = explained.problem, explained.bytes
    if explained.arithmetic != "float32" or not moves.least or not problem.flops:
        return None
    return RooflineChart([*_own(explained), *_others(explained)], explained.gpu, problem.flops / moves.least)


def _own(explained: Explanation) -> Iterator[Dot]:
    """The kernel as measured, else as predicted."""
    kernel, problem = explained.kernel, explained.problem
    intensity = problem.flops / explained.bytes.requested
    levels = {SHARED: problem.flops / explained.bytes.shared} if explained.bytes.shared else {}
    if explained.measured:
        yield Dot(kernel.rung, kernel.name, intensity, explained.measured.gflops, levels=levels)
    elif explained.predicted:
        gflops = problem.gflops(explained.predicted.us)
        yield Dot(kernel.rung, kernel.name, intensity, gflops, note="predicted", levels=levels)


def _others(explained: Explanation) -> Iterator[Dot]:
    """The other rungs, with their own configs for the GPU, as far as they were measured."""
    problem, gpu = explained.problem, explained.gpu
    for kernel in LADDER:
        support = kernel.support
        if kernel.name == explained.kernel.name or support.precision or problem.dtype not in support.factors:
            continue
        config = kernel.config(capability=gpu.capability)
        measured = find_measured(kernel, config, problem, gpu)
        if measured and kernel.support.runs_on(gpu.capability, problem.dtype):
            requested = moved(least_bytes(problem), count(kernel, config, problem)).requested
            yield Dot(kernel.rung, kernel.name, problem.flops / requested, measured.gflops)
