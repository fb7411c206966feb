"""Survey: the configs of a portfolio, timed on problems that are spread over sizes, orders, alignment and depth.

Problems follow one another by a sequence of low discrepancy, so that however many are measured, they are spread. All
code is compiled on all cores while problems whose code is there are measured. What has been measured is in the file at
once: a survey that was interrupted goes on from there.

A file has a line for each config, in the order in which problems name them, and a line for each problem:

    {"kernel": "gemm_sm90", "config": {...}}
    {"case": "NN bfloat16->bfloat16", "sizes": [m, n, k, batch], "us": {config's number: microseconds, ...},
     "alone": {config's number: microseconds of a single run, ...}, "others": {name: microseconds, ...}}
"""

import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tilewright.core.dtypes import INT8, ITEM_BYTES, default_result
from tilewright.core.errors import TilewrightError
from tilewright.core.hardware import round_up
from tilewright.core.problem import LAYOUTS, Arithmetic, Problem, Scalars, orders
from tilewright.kernels import KERNELS, find, recorded
from tilewright.kernels.cost_family import Streaming
from tilewright.kernels.kernel import Choice
from tilewright.kernels.support import Addresses
from tilewright.runtime.base import Work
from tilewright.runtime.executable import CompileReport
from tilewright.runtime.plan import Plan, Pointers
from tilewright.runtime.relayouts import jobs
from tilewright.select.tables.cases import problem_of, timed_case
from tilewright.tools.tune.compiling import compiled, compilers

SAMPLES = 5
"""Timed replays of each config on a problem."""

REPLAY_US = 300.0
"""A replay lasts about this long with the fastest config, of whose runs all configs' replays have as many."""

MOST_LAUNCHES, FEWEST_LAUNCHES = 64, 2
"""Runs in a replay."""

SLOW, SLOW_US = 2.0, 100.0
"""A config is run alone on a problem, and no more, where it takes this many times as long as the fastest, and so much
longer: what the host takes to start a run differs by tens of microseconds."""

NARROW = 48
"""Rows or columns of D up to which kernels that stage nothing are measured."""

AHEAD = 48
"""Problems whose code is compiled before they are measured."""

FACTOR_BYTES = RESULT_BYTES = 400 * 2**20
"""Memory for A and B, and for D: sets of operands take turns in it, so that no run finds its own in the L2 cache."""

SCRATCH_BYTES = 3 * 2**30
"""SurveyMemory for copies and partial sums of a run."""

_BOUNDARY = 256
_ROOTS = 6
"""Numbers of the sequence for a problem."""

_SMALLEST, _LARGEST, _LONGEST = 16, 8192, 65536
_LEAST_WORK, _MOST_WORK = 1e7, 3e11
_LARGEST_OF_BATCH, _MOST_MATRICES = 2048, 256


def problems(dtype: str) -> Iterator[Problem]:
    """Problems without end, spread evenly over what a user may multiply: of ten, seven are single products with sizes
    from 16 to 8192, one has less than 16 rows or columns, one has longer sides, and one is a batch."""
    base = _root(_ROOTS)
    arithmetic = Arithmetic(dtype, default_result(dtype))
    for number in count():
        points = [(0.5 + (number + 1) * base ** -(axis + 1)) % 1 for axis in range(_ROOTS)]
        if problem := _problem(arithmetic, points):
            yield problem


def _root(axes: int) -> float:
    """The positive solution of x^(axes+1) = x + 1, whose inverse powers make the sequence (M. Roberts, 2018)."""
    found = 2.0
    for _ in range(64):
        found = (1 + found) ** (1 / (axes + 1))
    return found


def _problem(arithmetic: Arithmetic, points: Sequence[float]) -> Problem | None:
    """The problem of a point in the unit cube; None where its work or memory is out of range."""
    *sides, of_order, of_lines, of_kind = points
    few, longer, batched = 0.7 <= of_kind < 0.8, 0.8 <= of_kind < 0.9, of_kind >= 0.9
    largest = _LONGEST if longer else _LARGEST_OF_BATCH if batched else _LARGEST
    batch = round(2 * (_MOST_MATRICES / 2) ** (10 * (of_kind - 0.9))) if batched else 1
    step = 1 if of_lines < 0.4 else 8 if of_lines < 0.85 else 64  # elements whose multiples all sizes are
    m, n, k = (max(round(_SMALLEST * (largest / _SMALLEST) ** side / step) * step, step) for side in sides)
    if few:  # as many as there are halves of an axis: rows where it is the first
        m, n = (
            (round(_SMALLEST ** (2 * sides[0])), n) if sides[0] < 0.5 else (m, round(_SMALLEST ** (2 * sides[0] - 1)))
        )
    item, result = ITEM_BYTES[arithmetic.factors], ITEM_BYTES[arithmetic.result]
    fits = batch * k * (m + n) * item <= FACTOR_BYTES - 2**20 and batch * m * n * result <= RESULT_BYTES - 2**20
    if not fits or not _LEAST_WORK / (8 if few else 1) < 2 * batch * m * n * k < _MOST_WORK:
        return None
    a, b = orders(LAYOUTS[int(of_order * len(LAYOUTS))])
    return Problem(m, n, k, arithmetic, batch, a, b)


class Surveyed(NamedTuple):
    """A problem, and what was measured on it."""

    problem: Problem
    us: Mapping[Choice, float]
    """Microseconds of a run among others like it."""
    alone: Mapping[Choice, float]
    """Microseconds of a run alone, with what it takes the host to start it; also of configs that are much slower than
    others, of which nothing else is measured."""
    others: Mapping[str, float]
    """Microseconds of the other products, timed in the same turns."""


class SurveyFile:
    """A survey's file: what it holds, and what is added to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[Surveyed] = []
        self._choices: list[Choice | None] = []
        """Configs by their numbers; None where there is no such kernel or config any more."""
        if path.exists():
            self._read()
        self._lines = path.open("a")

    def add(self, one: Surveyed) -> None:
        """Write what was measured on a problem."""
        numbers = {choice: number for number, choice in enumerate(self._choices)}
        for choice in one.alone:
            if choice not in numbers:
                numbers[choice] = len(self._choices)
                self._choices.append(choice)
                self._write({"kernel": choice.kernel.name, "config": dict(choice.config)})

        def numbered(times: Mapping[Choice, float]) -> dict[int, float]:
            return {numbers[choice]: _rounded(us) for choice, us in times.items()}

        p = one.problem
        line = {"case": timed_case(p), "sizes": [p.m, p.n, p.k, p.batch]}
        others = {name: _rounded(us) for name, us in one.others.items()}
        self._write(line | {"us": numbered(one.us), "alone": numbered(one.alone), "others": others})
        self.found.append(one)

    def _write(self, line: Mapping[str, Any]) -> None:
        self._lines.write(json.dumps(line, separators=(",", ":")) + "\n")
        self._lines.flush()

    def _read(self) -> None:
        for text in self.path.read_text().splitlines():
            line = json.loads(text)
            if "kernel" in line:
                config = recorded(line["kernel"], line["config"])
                self._choices.append(None if config is None else Choice(find(line["kernel"]), config))
            elif "case" in line:
                m, n, k, batch = line["sizes"]
                us, alone = (
                    {one: t for number, t in line[name].items() if (one := self._choices[int(number)]) is not None}
                    for name in ("us", "alone")
                )
                self.found.append(Surveyed(problem_of(m, n, k, line["case"], batch), us, alone, line["others"]))


def _rounded(us: float) -> float:
    return float(f"{us:.5g}")


class SurveyMemory:
    """The GPU's memory of a survey: operands of a type, many sets of which take turns."""

    def __init__(self, engine: Any, dtype: str) -> None:
        items = FACTOR_BYTES // ITEM_BYTES[dtype]
        random = np.random.default_rng(0)
        if dtype in INT8:
            some = random.integers(0, 256, 2**24, np.uint8).view(dtype)
        else:
            some = (random.random(2**24, dtype=np.float32) * 2 - 1).astype(dtype)
        self._factors = engine.upload(np.resize(some, (1, items)))
        self._results = engine.empty(1, RESULT_BYTES, "uint8")
        self._scratch = engine.empty(1, SCRATCH_BYTES, "uint8")

    def sets(self, problem: Problem, most: int) -> list[Pointers]:
        """Operands of a problem: as many as there is room for, at most this many."""
        m, n, k, batch = problem.m, problem.n, problem.k, problem.batch
        item, result = ITEM_BYTES[problem.dtype], ITEM_BYTES[problem.result]
        a, b, d = (round_up(batch * size, _BOUNDARY) for size in (item * m * k, item * k * n, result * m * n))
        sets = max(min(FACTOR_BYTES // (a + b), most), 1)
        wide = max(min(RESULT_BYTES // d, most), 1)
        factors, results, scratch = (one.pointer for one in (self._factors, self._results, self._scratch))
        return [
            Pointers(factors + i * (a + b), factors + i * (a + b) + a, results + i % wide * d, scratch=scratch)
            for i in range(sets)
        ]


def in_portfolios(problem: Problem, capability: tuple[int, int]) -> list[Choice]:
    """The configs of portfolios that a problem may be computed with: what a survey measures on it."""
    narrow = min(problem.m, problem.n) <= NARROW
    return [
        Choice(kernel, config)
        for kernel in KERNELS
        if kernel.portfolio
        and kernel.meets(problem.arithmetic.precision)
        and kernel.support.runs_on(capability, problem.dtype)
        if (narrow or not isinstance(kernel.cost, Streaming)) and kernel.why_not(problem) is None
        for config in kernel.candidates(capability)
    ]


Others = Callable[[Problem, Sequence[Pointers], int], Mapping[str, Any]]
"""Function that gives replays of other products to time on a problem, by name, given operands and runs in a replay."""


Code = dict[Choice, list[Future[CompileReport | str]]]
"""Results of compiling the launches of each choice on a problem."""


class Survey:
    """Measures problems one after the other, and compiles ahead of that."""

    def __init__(
        self, engine: Any, memory: SurveyMemory, choices: Callable[[Problem], Sequence[Choice]], timed: int = 0
    ) -> None:
        """Set up a survey.

        Args:
            engine: a GPU.
            memory: of the problems' element type.
            choices: what is measured on a problem.
            timed: how many of the first of these are timed even where they are slow.
        """
        self._timed = timed
        self._engine, self._memory, self._choices = engine, memory, choices
        self._compiled: dict[object, Future[CompileReport | str]] = {}
        self.refused: dict[Choice, str] = {}

    def run(
        self,
        asked: Iterable[Problem],
        seconds: float,
        others: Others = lambda problem, sets, launches: {},
        samples: int = SAMPLES,
    ) -> Iterator[Surveyed]:
        """Times found on problems, until all are measured or time is up."""
        end = time.monotonic() + seconds
        waiting: list[tuple[Problem, Code]] = []
        left = iter(asked)
        with compilers() as threads:
            while True:
                for problem in islice(left, AHEAD - len(waiting)):
                    code = {one: self._compile(threads, one, problem) for one in self._choices(problem)}
                    waiting.append((problem, code))
                if not waiting:
                    return
                ready = self._first_ready(waiting, end)
                if ready is None or time.monotonic() >= end:
                    return
                problem, code = waiting.pop(ready)
                usable = []
                for choice, futures in code.items():
                    refusals = [words for one in futures if isinstance(words := one.result(), str)]
                    if refusals:
                        self.refused[choice] = refusals[0]
                    else:
                        usable.append(choice)
                if usable and (one := self._measure(problem, usable, others, samples)):
                    yield one

    def _first_ready(self, waiting: Sequence[tuple[Problem, Code]], end: float) -> int | None:
        """The first problem whose code is compiled; None where time is up before there is one."""
        while time.monotonic() < end:
            for number, (_, code) in enumerate(waiting):
                if all(one.done() for futures in code.values() for one in futures):
                    return number
            first = [one for futures in waiting[0][1].values() for one in futures if not one.done()]
            wait(first, min(1.0, max(end - time.monotonic(), 0)), FIRST_COMPLETED)
        return None

    def _compile(self, threads: Executor, choice: Choice, problem: Problem) -> list[Future[CompileReport | str]]:
        """Results of compiling the code of a choice on a problem."""
        found = []
        for job in jobs(*choice, problem, Addresses()).jobs:
            key = job.kernel.name, job.config, job.variant
            if key not in self._compiled:
                self._compiled[key] = threads.submit(compiled, self._engine, job)
            found.append(self._compiled[key])
        return found

    def _measure(self, problem: Problem, choices: Sequence[Choice], others: Others, samples: int) -> Surveyed | None:
        engine, sets = self._engine, self._memory.sets(problem, MOST_LAUNCHES * (len(choices) + 2))
        plans: dict[Choice, Plan] = {}
        alone: dict[Choice, float] = {}

        def runs(plan: Plan, first: int = 0) -> Work:
            """Runs of a plan, each on the next operands."""
            return lambda index, stream: engine.start(plan, sets[(first + index) % len(sets)], Scalars(), stream)

        for choice in choices:
            try:
                plan = engine.plan(*choice, problem, Addresses())
                if plan.needs.scratch_bytes > SCRATCH_BYTES:
                    continue
                engine.run_us(runs(plan))  # loads its code
                alone[choice] = min(engine.run_us(runs(plan)) for _ in range(2))
                plans[choice] = plan
            except TilewrightError as error:
                self.refused[choice] = str(error)
        if not plans:
            return None
        least = min(alone.values())
        always = choices[: self._timed]
        fast = [one for one, us in alone.items() if us <= max(SLOW * least, least + SLOW_US) or one in always]
        for choice in fast:
            alone[choice] = min(engine.run_us(runs(plans[choice])), alone[choice])
        least = min(alone.values())
        launches = min(max(math.ceil(REPLAY_US / least), FEWEST_LAUNCHES), MOST_LAUNCHES)
        replays = [engine.record(runs(plans[one], number * launches), launches) for number, one in enumerate(fast)]
        more = others(problem, sets, launches)
        times = engine.time_replays([(one, launches) for one in (*replays, *more.values())], samples)
        medians = [statistics.median(one) for one in times]
        us = dict(zip(fast, medians, strict=False))
        return Surveyed(problem, us, alone, dict(zip(more, medians[len(fast) :], strict=True)))
