"""The process that measures, and what starts it, watches its deadlines, and replaces it when it hangs or crashes.

It is a process of its own so that a kernel which hangs or crashes ends only it.
"""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from tilewright.api.engines import resolve_engine
from tilewright.core.errors import CompileError, EngineUnavailableError, LaunchError, TilewrightError
from tilewright.core.problem import Problem, Scalars
from tilewright.kernels.kernel import Choice
from tilewright.kernels.support import Addresses
from tilewright.runtime.base import Engine
from tilewright.runtime.plan import Plan
from tilewright.runtime.worker_process import LostError, WorkerProcess
from tilewright.tools.bench.end_to_end import Stopwatch
from tilewright.tools.bench.measure import OperandSet, measure, operand_sets, reads_c, time_both, verify, work_on
from tilewright.tools.bench.records import Record
from tilewright.tools.bench.run import baseline_library
from tilewright.tools.bench.verify import READS_C, Operands, limit
from tilewright.tools.tune.journal import Outcome

_PREPARE_S = 300.0
"""Making a problem's operands may take this long, and a second more for each _PREPARED_FLOPS of their product."""

_PREPARED_FLOPS = 1e9

_SHORT_S = 2e-3
"""The first, short sample of a config lasts about this long, or one run."""

_MOST_SHORT_RUNS = 100


class Prepare(NamedTuple):
    """Draw operands for a problem, and compute what they come to."""

    problem: Problem
    scalars: Scalars = Scalars()


class TuneJob(NamedTuple):
    """Verify one config, and time it unless its first sample shows that it is slow."""

    problem: Problem
    scalars: Scalars
    choice: Choice
    incumbent: Choice | None
    """The best so far, to be timed in turns with."""
    samples: int
    slack: float
    """How many times slower than the incumbent the first sample may be."""


class Final(NamedTuple):
    """Measure the best configs of a problem next to the baseline."""

    problem: Problem
    scalars: Scalars
    choices: list[Choice]
    samples: int


class Answer(NamedTuple):
    """Answer of the process to a job."""

    outcome: Outcome
    time_us: float | None = None
    against: float | None = None
    note: str = ""
    broken: bool = False
    """Whether the process can run nothing more, as after an illegal access on a GPU."""


def serve(connection: Connection, engine_name: str) -> None:
    """Answer jobs until the other end closes. The first answer is an empty text, or why there is no engine."""
    try:
        engine = resolve_engine(engine_name)
    except TilewrightError as error:
        connection.send(str(error))
        return
    connection.send("")
    while True:
        request = connection.recv()
        if isinstance(request, Prepare):
            bench = _Bench(engine, request.problem, request.scalars)
            connection.send(bench.prepare())
        elif isinstance(request, Final):
            connection.send(bench.final(request))
        else:
            answer = bench.answer(request)
            connection.send(answer)
            if answer.broken:
                return


@dataclass
class _Bench:
    """One problem's operands, and the incumbent's first sample."""

    engine: Engine
    problem: Problem
    scalars: Scalars
    _incumbent: tuple[Choice, float] | None = None

    @cached_property
    def operands(self) -> Operands:
        return Operands.draw(self.problem, self.scalars)

    @cached_property
    def sets(self) -> list[OperandSet]:
        return operand_sets(self.engine, self.operands)

    def prepare(self) -> str:
        """Make the operands; returns why that failed, or an empty text."""
        try:
            _ = self.operands.reference, self.sets
        except (TilewrightError, MemoryError, RuntimeError) as error:
            return str(error) or type(error).__name__
        return ""

    def answer(self, job: TuneJob) -> Answer:
        try:
            return self._measure(job)
        except CompileError as error:
            return Answer("refused", note=str(error))
        except (TilewrightError, MemoryError, RuntimeError) as error:  # RuntimeError: of the CUDA libraries' own
            return Answer("failed", note=str(error), broken=not self._alive())

    def final(self, request: Final) -> list[Record] | str:
        """Records of the configs, or why there are none."""
        try:
            library = baseline_library(self.engine)
        except EngineUnavailableError:
            library = None
        try:
            return measure(
                self.engine,
                request.choices,
                self.problem,
                samples=request.samples,
                library=library,
                scalars=self.scalars,
            )
        except (TilewrightError, MemoryError, RuntimeError) as error:
            return str(error)

    def _measure(self, job: TuneJob) -> Answer:
        kernel, config = job.choice
        plan, error = verify(self.engine, kernel, config, self.operands)
        allowed = limit(self.problem, kernel.support.precision)
        if not error <= allowed:
            why = f"; {READS_C}" if reads_c(self.engine, kernel, config, self.operands) else ""
            return Answer("wrong", note=f"relative error {error:.1e}, right up to {allowed:.1e}{why}")
        short = self._short_sample(plan)
        if job.incumbent and short > job.slack * self._incumbents_sample(job.incumbent):
            return Answer("stopped", short)
        plans = [plan, *([self._plan(job.incumbent)] if job.incumbent else [])]
        works = [work_on(self.engine, one, self.sets, self.scalars) for one in plans]
        times = [both.usual_us for both in time_both(self.engine, works, job.samples, rotation=len(self.sets))]
        if job.incumbent is None or times[0] < times[1]:
            self._incumbent = (job.choice, short)
        return Answer("timed", times[0], times[1] if job.incumbent else None)

    def _plan(self, choice: Choice) -> Plan:
        return self.engine.plan(*choice, self.problem, Addresses(*self.sets[0].pointers[:3]))

    def _incumbents_sample(self, incumbent: Choice) -> float:
        if self._incumbent is None or self._incumbent[0] != incumbent:
            self._incumbent = (incumbent, self._short_sample(self._plan(incumbent)))
        return self._incumbent[1]

    def _short_sample(self, plan: Plan) -> float:
        """Microseconds of a run by the host's clock."""
        work, numbers = work_on(self.engine, plan, self.sets, self.scalars), itertools.count()
        stopwatch = Stopwatch(self.engine.synchronize)
        once = stopwatch.seconds(lambda: work(next(numbers), None), 1)
        runs = min(math.ceil(_SHORT_S / once), _MOST_SHORT_RUNS)
        return (once if runs == 1 else stopwatch.seconds(lambda: work(next(numbers), None), runs) / runs) * 1e6

    def _alive(self) -> bool:
        try:
            self.engine.synchronize()
        except (TilewrightError, RuntimeError):
            return False
        return True


class Worker:
    """A process that measures: started when there is something to measure, and again after each that was lost."""

    def __init__(self, engine_name: str, deadline_s: float) -> None:
        """Prepare a worker.

        Args:
            engine_name: 'cuda' or 'emulator'.
            deadline_s: seconds that one config may take.
        """
        self.deadline_s = deadline_s
        self._engine_name = engine_name
        self._worker: WorkerProcess | None = None
        self._problem_of: tuple[Problem, Scalars] | None = None

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def ask(self, request: TuneJob | Final) -> Any:
        """An Answer to a TuneJob; to a Final records, or a text that says why there are none.

        Raises:
            LostError: it took longer than the deadline, or the process ended; the next request gets a new one.
            EngineUnavailableError: no process can be started that has the engine.
            LaunchError: the problem's operands cannot be made.
        """
        worker = self._start()
        if (request.problem, request.scalars) != self._problem_of:
            self._prepare(worker, request.problem, request.scalars)
        configs = len(request.choices) + 1 if isinstance(request, Final) else 1
        answer = self._exchange(worker, request, self.deadline_s * configs)
        if isinstance(answer, Answer) and answer.broken:
            self.end()
        return answer

    def end(self) -> None:
        """End the process."""
        if self._worker:
            self._worker.end()
        self._worker = self._problem_of = None

    def _start(self) -> WorkerProcess:
        if self._worker is not None:
            return self._worker
        worker = self._worker = WorkerProcess(serve, self._engine_name, name="tune")
        try:
            if refusal := worker.wait_for_start():
                raise EngineUnavailableError(refusal)
        except EngineUnavailableError:
            self.end()
            raise
        return worker

    def _prepare(self, worker: WorkerProcess, problem: Problem, scalars: Scalars) -> None:
        try:
            refusal = self._exchange(worker, Prepare(problem, scalars), _PREPARE_S + problem.flops / _PREPARED_FLOPS)
        except LostError as error:
            refusal = str(error)
        if refusal:
            raise LaunchError(f"the operands of {problem.shape} cannot be made: {refusal}")
        self._problem_of = problem, scalars

    def _exchange(self, worker: WorkerProcess, request: TuneJob | Final | Prepare, allowed_s: float) -> Any:
        worker.send(request)
        try:
            return worker.receive(allowed_s)
        except LostError:
            self.end()
            raise
