"""Checks kernels: runs them under a checker, and again with their threads in other orders."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.engines.base import run
from tilewright.engines.emulator.checker import Checker, Finding, arrays_of, padded
from tilewright.engines.emulator.compiler import CHECKED
from tilewright.engines.emulator.engine import EmulatorEngine, LaunchFacts
from tilewright.engines.emulator.program import Watch
from tilewright.errors import LaunchError
from tilewright.kernels.spec import Config, Kernel
from tilewright.kernels.takes import VECTOR_BYTES
from tilewright.problem import Layout, Problem, Scalars

_BACKWARDS = 1
_SHUFFLED = 20
"""Seed of a schedule."""

_SCHEDULES = {_BACKWARDS: "backwards", _SHUFFLED: "shuffled"}


@dataclass(frozen=True)
class Checked:
    """What came of a check."""

    findings: list[Finding]
    result: NDArray[np.float32]
    """C, as the first run left it."""


def check(
    kernel: Kernel,
    config: Config,
    problem: Problem,
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    scalars: Scalars = Scalars(),
) -> Checked:
    """Run a kernel on a problem, and look for what is wrong however right the result may be.

    There are gaps between the rows of A, B and C, so that an access past the end of a row shows: the problem's leading
    dimensions are not used. Where nothing is found, the kernel runs again, its threads and blocks backwards and
    shuffled, and must give the same bits.

    Raises:
        CompileError: the compiler refuses the source.
        EngineUnavailableError: there is no C++ compiler, or, where something is found, no binutils.
    """
    session = _Session(kernel, config, problem, (a, b, c), scalars)
    result, error = session.run(watched=True)
    findings = [finding for checker in session.checkers for finding in checker.findings()]
    if error and not findings:
        findings.append(Finding("launch", None, message=error))
    if findings:
        return Checked(findings, result)
    for schedule, order in _SCHEDULES.items():
        other, error = session.run(watched=False, schedule=schedule)
        different = np.argwhere(other.view(np.uint32) != result.view(np.uint32))
        if error or len(different):
            message = error or (
                f"C[{different[0][0]}, {different[0][1]}] and {len(different) - 1} other elements of {result.size} "
                f"differ when threads run {order}"
            )
            findings.append(Finding("order", None, message=message))
    return Checked(findings, result)


class _Session:
    """Runs one kernel on the same operands again and again."""

    def __init__(
        self,
        kernel: Kernel,
        config: Config,
        problem: Problem,
        operands: tuple[NDArray[Any], ...],
        scalars: Scalars,
    ) -> None:
        self._kernel = kernel
        self._config = config
        self._scalars = scalars
        self._engine = EmulatorEngine(CHECKED, self._watch)
        self._operands = operands
        gaps = [_gap(array) for array in operands]
        lds = [array.shape[1] + gap for array, gap in zip(operands, gaps, strict=True)]
        self._problem = replace(problem, a=Layout(ld=lds[0]), b=Layout(ld=lds[1]), d=Layout(ld=lds[2]), c=None)
        self._matrices = [padded(array, ld) for array, ld in zip(operands, lds, strict=True)]
        self._watched = False
        self._schedule = 0
        self._padded_at: dict[int, int] = {}
        self.checkers: list[Checker] = []

    def run(self, watched: bool, schedule: int = 0) -> tuple[NDArray[np.float32], str]:
        """C, and why the launch failed."""
        self._watched, self._schedule = watched, schedule
        a, b, _ = self._matrices
        c = padded(self._operands[2], self._problem.d.ld)
        self._padded_at = {matrix.pointer: matrix.owner.slack for matrix in (a, b, c)}
        error = ""
        try:
            run(self._engine, self._kernel, self._config, self._problem, a, b, c, self._scalars)
        except LaunchError as failure:
            error = str(failure)
        return self._engine.download(c), error

    def _watch(self, facts: LaunchFacts) -> Watch:
        if not self._watched:
            return Watch(schedule=self._schedule)
        executable = facts.executable
        checker = Checker(executable.program.library, arrays_of(facts, self._padded_at), executable.kernel.overlaps)
        self.checkers.append(checker)
        return Watch(checker)


def _gap(array: NDArray[Any]) -> int:
    """Elements between the rows, so that as many rows as before begin at multiples of 16 bytes."""
    vector = VECTOR_BYTES // array.itemsize
    cols = array.shape[1]
    if cols % vector == 0:
        return vector
    return 1 if (cols + 1) % vector else 2
