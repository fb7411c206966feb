"""The search: tries the configs of kernels on a problem, the likely best first, and keeps the fastest."""

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any

from tilewright.core.errors import TilewrightError
from tilewright.core.gpus import Gpu, find_gpu
from tilewright.core.problem import Problem, Scalars
from tilewright.emulator.host import cores
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Choice, Kernel
from tilewright.kernels.support import Addresses
from tilewright.runtime.base import Engine
from tilewright.runtime.executable import CompileReport
from tilewright.runtime.relayouts import jobs
from tilewright.runtime.worker_process import LostError
from tilewright.select.tables.cases import timed_case
from tilewright.tools.bench.records import Record
from tilewright.tools.explain.cost.prediction import predict
from tilewright.tools.tune import space
from tilewright.tools.tune.compiling import compiled, compilers
from tilewright.tools.tune.journal import Journal, Outcome, Trial, source_digest
from tilewright.tools.tune.worker import Answer, Final, TuneJob, Worker

_RANKED_AS = find_gpu("NVIDIA H200", (9, 0))
"""Whose costs order the configs on the emulator, which is no GPU in particular."""

_AHEAD = 4
"""Configs in flight or waiting to be measured, for each core."""

_FINALISTS = 4
"""The fastest configs are measured again, next to the baseline: this many of all, and the fastest of every kernel."""

_FINAL_WITHIN = 1.5
"""A kernel whose fastest config is more than this many times slower than the best has none in the final."""


@dataclass(frozen=True)
class Settings:
    """How to search."""

    samples: int = 5
    final_samples: int = 10
    slack: float = 1.25
    """A config is dropped after its first short sample where that is this many times slower than the best's."""
    scalars: Scalars = Scalars()
    """Scalars of the product that is measured."""
    exhaustive: bool = False
    """Take the configs as they are enumerated, and measure all of them in full: to judge the ranking by."""


@dataclass
class SearchProgress:
    """How far a search is."""

    total: int
    """Configs in the space."""
    done: int = 0
    best: Trial | None = None
    outcomes: dict[Outcome, int] = field(default_factory=dict)
    resumed: int = 0
    """Trials among those done that the journal had from an earlier run."""


OnTrial = Callable[[SearchProgress, Trial], None]
"""Called with every trial as it ends."""


class Search:
    """One problem's search. `run` tries configs until all are tried or time is up; `final` measures the best again."""

    def __init__(
        self,
        engine: Engine,
        worker: Worker,
        journal: Journal,
        problem: Problem,
        spaces: Mapping[Kernel, Sequence[Config]],
        settings: Settings,
    ) -> None:
        """Set up a search, with what the journal knows of it already.

        Args:
            engine: where; only asked what it is and to compile.
            worker: measures.
            journal: earlier trials, and where new ones are written.
            problem: what to compute.
            spaces: the configs of each kernel.
            settings: how to search.
        """
        self._engine, self._worker, self._journal = engine, worker, journal
        self._problem, self._settings = problem, settings
        self._kernels = {kernel.name: kernel for kernel in spaces}
        self._digests = {kernel.name: source_digest(kernel) for kernel in spaces}
        self._gpu: Gpu = find_gpu(engine.device_name, engine.capability) if engine.capability else _RANKED_AS
        self.trials = self._earlier(spaces)
        self._factors: dict[str, list[float]] = {}
        tried = {trial.tried for trial in self.trials}
        self._waiting = {
            kernel.name: self._ranked(kernel, [config for config in configs if (kernel.name, config) not in tried])
            for kernel, configs in spaces.items()
        }
        self.progress = SearchProgress(sum(map(len, spaces.values())), resumed=len(self.trials))
        for trial in self.trials:
            self._count(trial)
        timed = [trial for trial in self.trials if trial.outcome == "timed"]
        self.progress.best = min(timed, key=lambda trial: trial.time_us or math.inf, default=None)
        self._before_s = max((trial.at_s for trial in self.trials), default=0.0)

    def run(self, budget_s: float = math.inf, on_trial: OnTrial = lambda progress, trial: None) -> Trial | None:
        """Try configs until all are tried or this many seconds are spent; returns the best, None where none was right.

        Raises:
            EngineUnavailableError: no process to measure in can be started.
            RecordsError: the journal cannot be written.
        """
        self._start = time.monotonic()
        compiling: dict[Future[CompileReport | str], Choice] = {}
        ready: list[tuple[Choice, CompileReport, float]] = []
        with compilers() as threads:
            while time.monotonic() - self._start < budget_s:
                while len(compiling) + len(ready) < _AHEAD * cores() and (choice := self._next_to_compile()):
                    compiling[threads.submit(self._compiled, choice)] = choice
                for future in wait(compiling, 0.0 if ready else 0.2, FIRST_COMPLETED).done:
                    choice, report = compiling.pop(future), future.result()
                    if isinstance(report, str):
                        self._note(on_trial, self._trial(choice, "refused", report))
                    elif reason := self._unfit(choice, report):
                        self._note(on_trial, self._trial(choice, "unfit", reason))
                    else:
                        ready.append((choice, report, self._predict(choice, report)))
                if ready:
                    chosen = min(ready, key=lambda one: self._expected(one[0].kernel.name, one[2]))
                    ready.remove(chosen)
                    self._note(on_trial, self._measure(*chosen))
                elif not compiling:
                    break
        return self.progress.best

    def final(self) -> list[Record]:
        """Records of the best configs, measured once more in one run next to the baseline, the fastest first.

        Raises:
            TilewrightError: they cannot be measured together; the message says why.
        """
        timed = sorted(
            (trial for trial in self.trials if trial.outcome == "timed"), key=lambda trial: trial.time_us or math.inf
        )
        chosen = {trial.tried: None for trial in timed[:_FINALISTS]}
        for kernel in self._kernels:
            best = next((trial for trial in timed if trial.kernel == kernel), None)
            if best and (best.time_us or math.inf) <= _FINAL_WITHIN * (timed[0].time_us or 0):
                chosen[best.tried] = None
        if not chosen:
            return []
        choices = [Choice(self._kernels[name], config) for name, config in chosen]
        try:
            records = self._worker.ask(
                Final(self._problem, self._settings.scalars, choices, self._settings.final_samples)
            )
        except LostError as error:
            raise TilewrightError(f"the final measurement of {self._problem.shape} {error.outcome}: {error}") from None
        if isinstance(records, str):
            raise TilewrightError(f"the final measurement of {self._problem.shape} failed: {records}")
        return sorted(records, key=lambda record: record.usual_us)

    def _earlier(self, spaces: Mapping[Kernel, Sequence[Config]]) -> list[Trial]:
        """Trials of these configs in the journal, the last of each.

        A config that was stopped counts as tried where the one that it was slower than is among them: searches of
        other kernels may share the journal.
        """
        wanted = {(kernel.name, config) for kernel, configs in spaces.items() for config in configs}
        found = self._journal.of(self._engine.device_name, self._digests, self._problem, self._settings.scalars)
        trials = [trial for trial in found if trial.tried in wanted]
        timed = {trial.tried for trial in trials if trial.outcome == "timed"}

        def holds(trial: Trial) -> bool:
            if trial.outcome != "stopped":
                return True
            if self._settings.exhaustive or trial.incumbent is None:
                return False
            name, values = trial.incumbent
            return (name, Config(values)) in timed

        return list({trial.tried: trial for trial in trials if holds(trial)}.values())

    def _ranked(self, kernel: Kernel, configs: Sequence[Config]) -> list[tuple[Choice, float]]:
        """Configs that wait to be compiled, the last one being the next."""
        choices = [Choice(kernel, config) for config in configs]
        costs = [(choice, self._predict(choice, None)) for choice in choices]
        if self._settings.exhaustive:
            return costs[::-1]
        return sorted(costs, key=lambda cost: -cost[1])

    def _predict(self, choice: Choice, report: CompileReport | None) -> float:
        cost = predict(choice.kernel, choice.config, self._problem, self._gpu, report)
        return cost.us if cost else math.inf

    def _expected(self, kernel: str, predicted_us: float) -> float:
        """A prediction, times what this kernel's measured times were over their predictions so far; of all the same
        where configs are taken as they are enumerated."""
        if self._settings.exhaustive:
            return 0.0
        factors = self._factors.get(kernel)
        return predicted_us * (statistics.median(factors) if factors else 1.0)

    def _next_to_compile(self) -> Choice | None:
        heads = [(name, waiting[-1][1]) for name, waiting in self._waiting.items() if waiting]
        if not heads:
            return None
        name = min(heads, key=lambda head: self._expected(*head))[0]
        return self._waiting[name].pop()[0]

    def _compiled(self, choice: Choice) -> CompileReport | str:
        return compiled(self._engine, jobs(*choice, self._problem, Addresses()).jobs[-1])

    def _unfit(self, choice: Choice, report: CompileReport) -> str | None:
        """Why the GPU cannot run a config; None where it can, or where there is no GPU."""
        return space.unfit(*choice, self._gpu, self._problem.layout, report) if self._engine.capability else None

    def _measure(self, choice: Choice, report: CompileReport, predicted_us: float) -> Trial:
        settings, best, start = self._settings, self.progress.best, time.monotonic()
        rival = best if best and not settings.exhaustive else None
        incumbent = Choice(self._kernels[rival.kernel], Config(rival.config)) if rival else None
        job = TuneJob(self._problem, settings.scalars, choice, incumbent, settings.samples, settings.slack)
        try:
            answer: Answer = self._worker.ask(job)
        except LostError as error:
            answer = Answer(error.outcome, note=str(error))
        return self._trial(
            choice,
            answer.outcome,
            answer.note,
            time_us=answer.time_us,
            against=answer.against,
            incumbent=(rival.kernel, rival.config) if rival and answer.outcome == "stopped" else None,
            predicted_us=predicted_us if math.isfinite(predicted_us) else None,
            registers=report.registers,
            spent_s=round(time.monotonic() - start, 4),
        )

    def _trial(self, choice: Choice, outcome: Outcome, note: str, **measured: Any) -> Trial:
        problem, name = self._problem, choice.kernel.name
        return Trial(
            device=self._engine.device_name,
            digest=self._digests[name],
            kernel=name,
            config=dict(choice.config),
            **{name: getattr(problem, name) for name in ("m", "n", "k", "batch")},
            **self._settings.scalars.named,
            case=timed_case(problem),
            outcome=outcome,
            note=note[:2000],
            **measured,
        )

    def _note(self, on_trial: OnTrial, trial: Trial) -> None:
        trial = trial.model_copy(update={"at_s": round(self._before_s + time.monotonic() - self._start, 4)})
        self._journal.append(trial)
        self.trials.append(trial)
        self._count(trial)
        best = self.progress.best
        # Against the incumbent's time of the same samples: the clocks of the moment are alike for both.
        rival = trial.against or (best.time_us if best else None) or math.inf
        if trial.outcome == "timed" and (trial.time_us or math.inf) < rival:
            self.progress.best = trial
        on_trial(self.progress, trial)

    def _count(self, trial: Trial) -> None:
        self.progress.done += 1
        self.progress.outcomes[trial.outcome] = self.progress.outcomes.get(trial.outcome, 0) + 1
        if trial.time_us and trial.predicted_us:
            self._factors.setdefault(trial.kernel, []).append(trial.time_us / trial.predicted_us)


def searchable(kernels: Sequence[Kernel], problem: Problem, capability: tuple[int, int] | None) -> list[Kernel]:
    """Kernels that a search for the fastest goes through: they run on the GPU, support the problem, and have its
    precision.

    Of kernels with one source and one relayout, which have the same configs, only the first.
    """
    found: dict[object, Kernel] = {}
    promise = problem.arithmetic.precision
    for kernel in kernels:
        with contextlib.suppress(TilewrightError):
            kernel.check(problem)
            if kernel.meets(promise) and (capability is None or kernel.support.runs_on(capability, problem.dtype)):
                found.setdefault((kernel.source, kernel.relayouts), kernel)
    return list(found.values())
