"""Runs mutants, each in a process of its own with a deadline, and says what finds them."""

import multiprocessing
import multiprocessing.connection
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from tilewright.core.errors import CompileError, TilewrightError
from tilewright.core.problem import Scalars
from tilewright.emulator.check import telling_shapes
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel, valid_configs
from tilewright.tools.bench.case import CheckCase, in_words, problem_of
from tilewright.tools.bench.check_cases import stages
from tilewright.tools.bench.checking import outcomes
from tilewright.tools.cli.check import DEFAULT_ALPHA, DEFAULT_BETAS

from .operators import Mutant
from .subjects import Subject, mutated

DEADLINE_S = 60.0
"""For each case that a mutant is checked on. One that takes longer does not end, which is a finding too."""

CHECK, MORE, SURVIVED, REFUSED = "check", "more", "survived", "does not compile"
LOST = ("crashed", "hung")


class Verdict(NamedTuple):
    found_by: str
    """CHECK: check with its defaults; MORE: check with more shapes and configs; SURVIVED; or REFUSED, which counts as
    no mutant."""
    how: str = ""
    """The kind of what was found first."""
    where: str = ""
    """The case that showed it."""
    wrong: bool = False
    """Whether some result of check's defaults is wrong: what verification alone finds."""


def more_cases(kernel: Kernel, config: Config, dtype: str = "") -> list[CheckCase]:
    """Cases beyond those of check: every preset, smaller and deeper problems, one row or column."""
    scalars = Scalars(1.5 if "alpha" in kernel.scalars else 1.0, 0.5 if "beta" in kernel.scalars else 0.0)
    tile = kernel.tile(config)
    shapes = [(tile.m + 1, tile.n - 1, 9 * tile.k), (tile.m, tile.n, tile.k), (1, 67, 50), (67, 1, 50), (5, 7, 1)]
    named = [(config, shape) for shape in shapes]
    for preset in valid_configs(kernel, kernel.presets.values()):
        named += [(preset, shape) for shape in telling_shapes(kernel, preset)]
    problems = [(config, problem_of(kernel, shape, dtype, "NN")) for config, shape in named]
    return [CheckCase(problem, scalars, config) for config, problem in problems if kernel.why_not(problem) is None]


class _Trial:
    """A mutant that is being judged."""

    def __init__(self, subject: Subject, mutant: Mutant, fully: bool) -> None:
        context = multiprocessing.get_context("forkserver")
        self.subject, self.mutant = subject, mutant
        self._folder = tempfile.TemporaryDirectory()
        self.connection, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_answer, args=(theirs, subject, mutant, fully, Path(self._folder.name)))
        self._process.start()
        theirs.close()
        self._end = time.monotonic() + DEADLINE_S
        self._so_far = Verdict(CHECK)

    def verdict(self) -> Verdict | None:
        """None while it runs."""
        try:
            while self.connection.poll():
                answer, last = self.connection.recv()
                if last:
                    return answer
                self._so_far = answer
                self._end = time.monotonic() + DEADLINE_S
        except EOFError:
            return self._so_far if self._so_far.how else self._so_far._replace(how="crashed")
        if time.monotonic() > self._end:
            return self._so_far if self._so_far.how else self._so_far._replace(how="hung")
        return None

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()
        self._folder.cleanup()


def judge(
    mutants: Iterable[tuple[Subject, Mutant]], at_once: int = 2, fully: bool = True
) -> Iterator[tuple[Subject, Mutant, Verdict]]:
    """Verdicts on the mutants of subjects, in the order in which they are known.

    fully: whether to go on after the first finding, until it is known whether some result is wrong.
    """
    waiting, running = iter(mutants), []
    try:
        while True:
            while len(running) < at_once and (following := next(waiting, None)):
                running.append(_Trial(*following, fully))
            if not running:
                return
            multiprocessing.connection.wait([one.connection for one in running], timeout=1)
            for one in list(running):
                if (verdict := one.verdict()) is not None:
                    running.remove(one)
                    one.end()
                    yield one.subject, one.mutant, verdict
    finally:
        for one in running:
            one.end()


def _answer(connection: Connection, subject: Subject, mutant: Mutant, fully: bool, folder: Path) -> None:
    verdict = Verdict(CHECK)
    try:
        for verdict in _verdicts([mutated(name, mutant, folder / name) for name in subject.kernels], fully):
            connection.send((verdict, False))
    except CompileError:
        verdict = Verdict(REFUSED)
    except TilewrightError as error:
        verdict = verdict._replace(how=type(error).__name__)
    connection.send((verdict, True))


def _verdicts(kernels: Sequence[Kernel], fully: bool) -> Iterator[Verdict]:
    """Verdicts on a mutant, more and more complete; the last one is final. As `check` does, no stage of a kernel's
    cases is begun behind one that has found something."""
    verdict = Verdict(CHECK)
    yield verdict
    for kernel in kernels:
        for stage in _defaults(kernel):
            for outcome in outcomes(kernel, stage):
                if not outcome.clean and not verdict.how:
                    words = in_words(outcome.case, kernel, kernel.config())
                    verdict = verdict._replace(how=_kind(outcome), where=f"{kernel.name}: {words}")
                verdict = verdict._replace(wrong=verdict.wrong or not outcome.right)
                yield verdict
                if verdict.how and (verdict.wrong or not fully):
                    return
            if verdict.how:
                return
    yield Verdict(MORE)
    for kernel in kernels:
        for outcome in outcomes(kernel, more_cases(kernel, kernel.config())):
            if not outcome.clean:
                yield Verdict(MORE, _kind(outcome), in_words(outcome.case, kernel, kernel.config()))
                return
            yield Verdict(MORE)
    yield Verdict(SURVIVED)


def _defaults(kernel: Kernel) -> list[list[CheckCase]]:
    alpha = DEFAULT_ALPHA if "alpha" in kernel.scalars else 1.0
    betas = DEFAULT_BETAS if "beta" in kernel.scalars else (0.0,)
    return stages(kernel, kernel.config(), [Scalars(alpha, beta) for beta in betas])


def _kind(outcome) -> str:
    found = outcome.checked.findings
    return found[0].kind if found else "wrong result"
