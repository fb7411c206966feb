"""Checks several kernels side by side, each stage by stage: a kernel with a fault is not checked any further."""

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import PriorityQueue
from typing import Any

from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.runtime.side_by_side import Workers
from tilewright.tools.bench.case import CheckCase
from tilewright.tools.bench.checking import Outcome


@dataclass(frozen=True)
class CheckJob:
    """A kernel that is checked, and on what."""

    kernel: Kernel
    config: Config
    stages: Sequence[Sequence[CheckCase]]
    """Cases, of which those of a stage are run where none of the stages before has found a fault."""
    rows: bool = False
    """Whether rows are to have the same bits whatever m is."""

    @property
    def cases(self) -> list[CheckCase]:
        """Cases of all stages."""
        return list(itertools.chain(*self.stages))


@dataclass
class _Running:
    """A job as far as it has been run."""

    job: CheckJob
    stage: int = -1
    left: int = 0
    """Groups of the stage that have not ended."""
    found: list[Outcome | None] = field(default_factory=list)
    """Outcomes of the cases of the stage."""
    outcomes: list[Outcome] = field(default_factory=list)
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)


def run_jobs(
    jobs: Sequence[CheckJob],
    run: Callable[[CheckJob, Sequence[CheckCase]], Iterator[Outcome]],
    workers: int,
    ended: Callable[[CheckJob], Any] = lambda job: None,
) -> Iterator[tuple[CheckJob, list[Outcome], BaseException | None]]:
    """Each job in its turn, once it has ended: what came of its cases, and the error that ended it, if one did. Fewer
    outcomes than cases: a fault was found in a stage, and those behind it were left out.

    Args:
        jobs: what is checked. Cases that run the same code are run one after the other, others side by side.
        run: checks a kernel on cases.
        workers: how many groups of cases run at a time.
        ended: called after each case, from any thread.
    """
    running = [_Running(job) for job in jobs]
    waiting: PriorityQueue[tuple[int, int, list[int]]] = PriorityQueue()
    """Groups of cases that nobody has begun, by their numbers in the stage; those of earlier jobs come first."""
    lock = threading.Lock()

    def begin_stage(number: int) -> None:
        """Have the next stage run, if there is one and all is well so far."""
        one = running[number]
        one.stage += 1
        if one.stage == len(one.job.stages) or not all(outcome.clean for outcome in one.outcomes):
            one.done.set()
            return
        cases = one.job.stages[one.stage]
        groups = _by_form(one.job.kernel, cases)
        one.found, one.left = [None] * len(cases), len(groups)
        for order, group in enumerate(groups):
            waiting.put((number, order, group))

    def work() -> None:
        while (taken := waiting.get())[0] >= 0:
            number, _, group = taken
            one = running[number]
            if one.done.is_set():
                continue
            stage, found = one.job.stages[one.stage], one.found
            try:
                for place, outcome in zip(group, run(one.job, [stage[i] for i in group]), strict=False):
                    found[place] = outcome
                    ended(one.job)
            except BaseException as error:
                one.error = error
                one.done.set()
            with lock:
                one.left -= 1
                if one.left == 0 and one.error is None:
                    one.outcomes += [outcome for outcome in found if outcome is not None]
                    begin_stage(number)

    for number in range(len(running)):
        begin_stage(number)
    with Workers(workers) as pool:
        try:
            for _ in range(workers):
                pool.submit(work)
            for one in running:
                one.done.wait()
                yield one.job, one.outcomes, one.error
        finally:
            for order in range(workers):
                waiting.put((-1, order, []))


def _by_form(kernel: Kernel, cases: Sequence[CheckCase]) -> list[list[int]]:
    """Numbers of cases, those together that run the same code, which is compiled once; of a source file all."""
    if not kernel.has_variants:
        return [list(range(len(cases)))]
    groups: dict[Any, list[int]] = {}
    for number, case in enumerate(cases):
        form = case.config, kernel.variant(case.problem, kernel.config(case.config)), case.sampled
        groups.setdefault(form, []).append(number)
    return list(groups.values())
