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
from tilewright.engines.base import Matrix, run
from tilewright.engines.emulator.check import telling_shapes
from tilewright.engines.emulator.checker import Checker, Finding, arrays_of, checker_of, divided
from tilewright.engines.emulator.compiler import OVERFLOWS
from tilewright.engines.emulator.engine import EmulatorEngine, LaunchFacts
from tilewright.engines.emulator.program import Extents, Watch
from tilewright.engines.emulator.repeating import Repeating
from tilewright.kernels.spec import Config, Kernel

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
    """What C held before."""


class Sample(NamedTuple):
    """What came of some blocks."""

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
    return _SampledLaunch(kernel, config, problem, scalars).sample()


def chosen_blocks(grid: Extents, cluster: int) -> list[int]:
    """Numbers of the blocks to run, counted along x first: all of each cluster that has one."""
    sides = [sorted({min(int(extent * at), extent - 1) for at in _AT}) for extent in grid]
    numbers = (x + grid[0] * (y + grid[1] * z) for z, y, x in itertools.product(*reversed(sides)))
    clusters = sorted({number // cluster for number in numbers})
    return [cluster * number + rank for number in clusters for rank in range(cluster)]


class _SampledLaunch:
    """One launch of some blocks."""

    def __init__(self, kernel: Kernel, config: Config, problem: Problem, scalars: Scalars) -> None:
        self._kernel, self._config, self._problem, self._scalars = kernel, config, problem, scalars
        self._checkers: list[Checker] = []
        self._launched: list[LaunchFacts] = []
        if problem.batch != 1 or problem.epilogue.bias or problem.scaling != UNSCALED:
            raise NotSampledError(f"blocks of {kernel.name} are checked on one product alone, without bias and scales")
        self._engine = EmulatorEngine(OVERFLOWS, self._watch, max(kernel.tiles(problem, config), 1))
        self._check_blocks()
        factors = Repeating(problem.dtype)
        self._of = {"A": factors, "B": factors, "C": factors}
        if problem.result != problem.dtype:
            self._of["C"] = Repeating(problem.result)

    def sample(self) -> Sample:
        problem = self._problem
        m, n, k = problem.m, problem.n, problem.k
        a, b, c = (
            self._of[name].matrix(layout, *sides, _FIRST_PAGES[name])
            for name, layout, sides in (("A", problem.a, (m, k)), ("B", problem.b, (k, n)), ("C", problem.d, (m, n)))
        )
        self._padded_at = {one.pointer: 2**32 * np.dtype(one.dtype).itemsize for one in (a, b, c)}
        error = ""
        try:
            run(self._engine, self._kernel, self._config, problem, a, b, c, self._scalars)
        except LaunchError as failure:
            if not self._checkers:
                raise
            error = str(failure)
        findings, notes = divided(finding for checker in self._checkers for finding in checker.findings())
        if error and not findings:
            findings.append(Finding("launch", None, message=error))
        (launched,) = self._launched
        if error or launched.executable.program.has_turns:
            return Sample(findings, notes, [])
        written = self._checkers[0].written(c.pointer)
        findings = findings or list(self._idle(launched, written))
        return Sample(findings, notes, list(self._parts(c, written)))

    def _watch(self, facts: LaunchFacts) -> Watch:
        checker = checker_of(facts, arrays_of(facts, self._padded_at))
        self._checkers.append(checker)
        self._launched.append(facts)
        return Watch(checker, chosen_blocks(facts.grid, self._kernel.cluster(self._config)))

    def _check_blocks(self) -> None:
        kernel, config, problem = self._kernel, self._config, self._problem
        plan = self._engine.plan(kernel, config, problem)
        (launch, *others), needs, why = plan.steps, plan.needs, ""
        m, n, k = telling_shapes(kernel, config)[0]
        a, b = Layout(problem.a.order), Layout(problem.b.order)
        small = replace(problem, m=m, n=n, k=k, a=a, b=b, c=None, d=Layout())
        few = kernel.grid(small, config, self._engine.multiprocessors)
        if others or needs.relayout_bytes or needs.workspace_bytes or needs.tickets:
            why = "copies operands or shares tiles between blocks"
        elif launch.function.executable.program.cooperative:
            why = "synchronises its grid"
        elif math.prod(launch.grid) <= few and problem.m * problem.n > m * n:
            why = "computes many tiles with each block"
        if why:
            instead = ": leave --shape out, and all of them are checked on lines that are far apart"
            raise NotSampledError(
                f"{kernel.name} {why}, so no few of its blocks can be checked on {problem.shape}"
                + (instead if kernel.takes.gaps else "")
            )

    def _idle(self, launched: LaunchFacts, written: NDArray[Any]) -> Iterator[Finding]:
        """Blocks that have written nothing, where each has a tile of its own."""
        kernel, config = self._kernel, self._config
        tiles = 0 if kernel.blocks or kernel.untold(config) else kernel.tiles(self._problem, config)
        if math.prod(launched.grid) != tiles:
            return
        wrote = set(map(tuple, written["block"].tolist()))
        x, y, _ = launched.grid
        for number in chosen_blocks(launched.grid, kernel.cluster(config)):
            block = number % x, number // x % y, number // (x * y)
            if block not in wrote:
                yield Finding("unwritten", None, message=f"block {block} writes no element of C")

    def _parts(self, c: Matrix, written: NDArray[Any]) -> Iterator[Part]:
        """What was written, by rows of which the same columns are."""
        problem = self._problem
        item, line = np.dtype(c.dtype).itemsize, problem.d.ld
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
        for cols_as_bytes, rows_alike in alike.items():
            rows, cols = np.array(rows_alike), np.frombuffer(cols_as_bytes, np.int64)
            depth = np.arange(problem.k)
            result = np.stack([_elements(c, row * line, line)[cols] for row in rows_alike]).astype(np.float64)
            yield Part(
                rows,
                cols,
                result,
                self._original("A", problem.a, rows, depth),
                self._original("B", problem.b, depth, cols),
                self._original("C", problem.d, rows, cols),
            )

    def _original(
        self, name: str, layout: Layout, rows: NDArray[np.int64], cols: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        return self._of[name].block(layout, rows, cols, _FIRST_PAGES[name])


def _elements(matrix: Matrix, first: int, count: int) -> NDArray[Any]:
    """Elements of a matrix's memory, in place."""
    item = np.dtype(matrix.dtype).itemsize
    begin = matrix.pointer - matrix.owner.ctypes.data + first * item
    elements: NDArray[Any] = matrix.owner[begin : begin + count * item].view(matrix.dtype)
    return elements
