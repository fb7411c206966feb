"""Checks several kernels side by side, each stage by stage: a kernel with a fault is not checked any further."""

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.bench.case import Case
from tilewright.bench.checking import Outcome
from tilewright.engines.side_by_side import Workers
from tilewright.kernels.spec import Config, Kernel


@dataclass(frozen=True)
class Job:
    """A kernel that is checked, and on what."""

    kernel: Kernel
    config: Config
    stages: Sequence[Sequence[Case]]
    """Cases, of which those of a stage are run where none of the stages before has found a fault."""
    rows: bool = False
    """Whether rows are to have the same bits whatever m is."""

    @property
    def cases(self) -> list[Case]:
        """Those of all stages."""
        return list(itertools.chain(*self.stages))


@dataclass
class _Running:
    """A job as far as it has been run."""

    job: Job
    stage: int = -1
    waiting: list[list[int]] = field(default_factory=list)
    """Groups of cases of the stage that nobody has begun, by their numbers in the stage."""
    left: int = 0
    """Groups of the stage that have not ended."""
    found: list[Outcome | None] = field(default_factory=list)
    """What came of the cases of the stage."""
    outcomes: list[Outcome] = field(default_factory=list)
    error: BaseException | None = None
    done: bool = False

    def go_on(self) -> None:
        """Begin the next stage, if there is one and all is well so far."""
        self.stage += 1
        if self.stage == len(self.job.stages) or not all(one.clean for one in self.outcomes):
            self.done = True
            return
        cases = self.job.stages[self.stage]
        self.found = [None] * len(cases)
        self.waiting = _by_form(self.job.kernel, cases)
        self.left = len(self.waiting)

    def end_group(self) -> None:
        self.left -= 1
        if self.left == 0 and self.error is None:
            self.outcomes += [one for one in self.found if one is not None]
            self.go_on()
        self.done |= self.error is not None


def run_jobs(
    jobs: Sequence[Job],
    run: Callable[[Job, Sequence[Case]], Iterator[Outcome]],
    workers: int,
    ended: Callable[[Job], Any] = lambda job: None,
) -> Iterator[tuple[Job, list[Outcome], BaseException | None]]:
    """Each job in its turn, once it has ended: what came of its cases, and the error that ended it, if one did. Fewer
    outcomes than cases: a fault was found in a stage, and those behind it were left out.

    Args:
        jobs: what is checked. Cases that run the same code are run one after the other, others side by side.
        run: checks a kernel on cases.
        workers: how many groups of cases run at a time.
        ended: called after each case, from any thread.
    """
    all_running = [_Running(job) for job in jobs]
    changed, stopped = threading.Condition(), False
    for one in all_running:
        one.go_on()

    def take() -> tuple[_Running, list[int]] | None:
        with changed:
            while not stopped and not all(one.done for one in all_running):
                for one in all_running:
                    if not one.done and one.waiting:
                        return one, one.waiting.pop(0)
                changed.wait()
        return None

    def work() -> None:
        while (taken := take()) is not None:
            running, numbers = taken
            stage, found = running.job.stages[running.stage], running.found
            try:
                for number, outcome in zip(numbers, run(running.job, [stage[i] for i in numbers]), strict=False):
                    found[number] = outcome
                    ended(running.job)
            except BaseException as error:
                running.error = error
            with changed:
                running.end_group()
                changed.notify_all()

    with Workers(workers) as pool:
        try:
            for _ in range(workers):
                pool.submit(work)
            for one in all_running:
                with changed:
                    while not one.done:
                        changed.wait()
                yield one.job, one.outcomes, one.error
        finally:
            with changed:
                stopped = True
                changed.notify_all()


def _by_form(kernel: Kernel, cases: Sequence[Case]) -> list[list[int]]:
    """Numbers of cases, those together that run the same code, which is compiled once; of a source file all."""
    if kernel.foreign:
        return [list(range(len(cases)))]
    groups: dict[Any, list[int]] = {}
    for number, case in enumerate(cases):
        form = case.config, kernel.variant(case.problem, kernel.config(case.config)), case.sampled
        groups.setdefault(form, []).append(number)
    return list(groups.values())
