"""Checks a few blocks of launches on matrices that no memory holds."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.errors import LaunchError, NotSampledError
from tilewright.core.problem import UNSCALED, Layout, Problem, Scalars
from tilewright.emulator.check import telling_shapes
from tilewright.emulator.checker import Checker, Finding, arrays_of, checker_of, divided
from tilewright.emulator.compiler import OVERFLOWS
from tilewright.emulator.engine import EmulatorEngine, LaunchFacts
from tilewright.emulator.program import Extents, Watch
from tilewright.emulator.repeating import Repeating
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.runtime.base import Matrix, run

_AT = (0.0, 0.55, 0.8, 1.0)
"""Which blocks run along each side of the grid, as fractions of it. Of a matrix of 1.4 * 2^32 elements the second is
between 2^31 and 2^32, and the last two are behind that."""

_FIRST_PAGES = {"A": 0, "B": 700, "C": 1400}
"""Where the elements of each matrix begin among those that are repeated."""


class Part(NamedTuple):
    """Rows and columns of C that blocks have written, and what they are made of, in float64."""

    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    result: NDArray[np.float64]
    a: NDArray[np.float64]
    b: NDArray[np.float64]
    c: NDArray[np.float64]
    """Elements of C before the launch."""


class Sample(NamedTuple):
    """Result of a check of some blocks."""

    findings: list[Finding]
    notes: list[Finding]
    parts: list[Part]
    """Empty where these blocks alone make no results: where partial sums are added by atomic operations."""


def check_sample(kernel: Kernel, config: Config, problem: Problem, scalars: Scalars = Scalars()) -> Sample:
    """Run a few blocks of a kernel at both ends of its grid and between them, and look for what is wrong.

    Each block must have tiles of its own.

    Args:
        kernel, config, problem, scalars: what runs; one product of any size.

    Raises:
        CompileError: the compiler refuses the source.
        EngineUnavailableError: there is no C++ compiler, or, where something is found, no binutils.
        LaunchError: the geometry is one that a GPU refuses, or the address space has no room for the matrices.
        NotSampledError: blocks share tiles, operands are copied, or it is not one product without bias and scales.
    """
    if problem.is_empty:
        return Sample([], [], [])
    if problem.batch != 1 or problem.epilogue.bias or problem.scaling != UNSCALED:
        raise NotSampledError(f"blocks of {kernel.name} are checked on one product alone, without bias and scales")
    checkers: list[Checker] = []
    launches: list[LaunchFacts] = []
    padded_at: dict[int, int] = {}

    def watch(facts: LaunchFacts) -> Watch:
        checkers.append(checker_of(facts, arrays_of(facts, padded_at)))
        launches.append(facts)
        return Watch(checkers[-1], chosen_blocks(facts.grid, kernel.cluster(config)))

    engine = EmulatorEngine(OVERFLOWS, watch, max(kernel.tiles(problem, config), 1))
    _check_blocks(engine, kernel, config, problem)
    elements = Repeating(problem.dtype)
    of_c = elements if problem.result == problem.dtype else Repeating(problem.result)
    m, n, k = problem.m, problem.n, problem.k
    a = elements.matrix(problem.a, m, k, _FIRST_PAGES["A"])
    b = elements.matrix(problem.b, k, n, _FIRST_PAGES["B"])
    c = of_c.matrix(problem.d, m, n, _FIRST_PAGES["C"])
    padded_at |= {one.pointer: 2**32 * np.dtype(one.dtype).itemsize for one in (a, b, c)}
    error = ""
    try:
        run(engine, kernel, config, problem, a, b, c, scalars)
    except LaunchError as failure:
        if not checkers:
            raise
        error = str(failure)
    findings, notes = divided(finding for checker in checkers for finding in checker.findings())
    if error and not findings:
        findings.append(Finding("launch", None, message=error))
    (launched,) = launches
    if error or launched.executable.program.has_turns:
        return Sample(findings, notes, [])
    written = checkers[0].written(c.pointer)
    findings = findings or list(_idle(launched, kernel, config, problem, written))
    depth = np.arange(k)
    parts = [
        Part(
            rows,
            cols,
            np.stack([_elements(c, row * c.ld, c.ld)[cols] for row in rows.tolist()]).astype(np.float64),
            elements.block(problem.a, rows, depth, _FIRST_PAGES["A"]),
            elements.block(problem.b, depth, cols, _FIRST_PAGES["B"]),
            of_c.block(problem.d, rows, cols, _FIRST_PAGES["C"]),
        )
        for rows, cols in _alike(c, written)
    ]
    return Sample(findings, notes, parts)


def chosen_blocks(grid: Extents, cluster: int) -> list[int]:
    """Numbers of the blocks to run, counted along x first: all of each cluster that has one."""
    sides = [sorted({min(int(extent * at), extent - 1) for at in _AT}) for extent in grid]
    numbers = (x + grid[0] * (y + grid[1] * z) for z, y, x in itertools.product(*reversed(sides)))
    clusters = sorted({number // cluster for number in numbers})
    return [cluster * number + rank for number in clusters for rank in range(cluster)]


def _check_blocks(engine: EmulatorEngine, kernel: Kernel, config: Config, problem: Problem) -> None:
    """Raise NotSampledError where a launch's blocks cannot be checked alone."""
    plan = engine.plan(kernel, config, problem)
    (launch, *others), needs, why = plan.steps, plan.needs, ""
    m, n, k = telling_shapes(kernel, config)[0]
    a, b = Layout(problem.a.order), Layout(problem.b.order)
    small = replace(problem, m=m, n=n, k=k, a=a, b=b, c=None, d=Layout())
    few = kernel.grid(small, config, engine.multiprocessors)
    if others or needs.relayout_bytes or needs.workspace_bytes or needs.counters:
        why = "copies operands or shares tiles between blocks"
    elif launch.function.executable.program.cooperative:
        why = "synchronises its grid"
    elif math.prod(launch.grid) <= few and problem.m * problem.n > m * n:
        why = "computes many tiles with each block"
    if why:
        instead = ": leave --shape out, and all of them are checked on lines that are far apart"
        raise NotSampledError(
            f"{kernel.name} {why}, so no few of its blocks can be checked on {problem.shape}"
            + (instead if kernel.support.gaps else "")
        )


def _idle(
    launched: LaunchFacts, kernel: Kernel, config: Config, problem: Problem, written: NDArray[Any]
) -> Iterator[Finding]:
    """Blocks that have written nothing, where each has a tile of its own."""
    tiles = 0 if kernel.schedule or kernel.unknown_tile(config) else kernel.tiles(problem, config)
    if math.prod(launched.grid) != tiles:
        return
    wrote = set(map(tuple, written["block"].tolist()))
    x, y, _ = launched.grid
    for number in chosen_blocks(launched.grid, kernel.cluster(config)):
        block = number % x, number // x % y, number // (x * y)
        if block not in wrote:
            yield Finding("unwritten", None, message=f"block {block} writes no element of C")


def _alike(c: Matrix, written: NDArray[Any]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows and columns of C that were written: rows of which the same columns are, together."""
    item, line = np.dtype(c.dtype).itemsize, c.ld
    columns: dict[int, list[NDArray[np.int64]]] = {}
    for offset, size in zip((written["offset"] // item).tolist(), (written["bytes"] // item).tolist(), strict=True):
        begin = offset
        while begin < offset + size:  # a run may go on in the next line
            row, col = divmod(begin, line)
            end = min(offset + size, (row + 1) * line)
            columns.setdefault(row, []).append(np.arange(col, col + end - begin))
            begin = end
    alike: dict[bytes, list[int]] = {}
    for row, runs in columns.items():
        alike.setdefault(np.concatenate(runs).tobytes(), []).append(row)
    for cols_as_bytes, rows in alike.items():
        yield np.array(rows), np.frombuffer(cols_as_bytes, np.int64)


def _elements(matrix: Matrix, first: int, count: int) -> NDArray[Any]:
    """Elements of a matrix's memory, in place."""
    item = np.dtype(matrix.dtype).itemsize
    begin = matrix.pointer - matrix.owner.ctypes.data + first * item
    elements: NDArray[Any] = matrix.owner[begin : begin + count * item].view(matrix.dtype)
    return elements
