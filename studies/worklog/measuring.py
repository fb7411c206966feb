"""Measures what the worklog's pages quote, on one GPU: all rungs, configs that pages compare, and the GPU itself.

    python -m studies.worklog measure --out FOLDER

Files of the folder: ladder.json, variations.json, casts.json, machine.json. A command that was stopped goes on where it
stopped, if sources and GPU are still the same. With --cublas it measures nothing but what cuBLAS runs for squares up to
4096, to cublas.json; with --rung a rung in a run of its own (alone.py).
"""

import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from studies.profiles.measuring import problem_of
from studies.record import Measurements
from studies.worklog import alone, casts, cublas_kernels, varying
from studies.worklog.facts import shape_of
from studies.worklog.varying import Task
from tilewright.core.errors import ProblemError, RecordsError, TilewrightError
from tilewright.core.problem import Problem
from tilewright.emulator.host import cores
from tilewright.kernels import LADDER, find
from tilewright.kernels.kernel import Choice, Kernel
from tilewright.runtime.base import Engine
from tilewright.runtime.side_by_side import Workers
from tilewright.tools.bench.environment import environment
from tilewright.tools.bench.measure import BaselineLibrary
from tilewright.tools.bench.records import Record, Run
from tilewright.tools.bench.run import baseline_library, bench
from tilewright.tools.machine import probes

SQUARES = tuple(f"{size}x{size}x{size}" for size in (64, 128, 256, 512, 1024, 2048, 4092, 4096, 8192))
"""Where rungs are measured; those in float32 at `varying.SWEPT_SHAPES` too, and those for few rows at `FEW_ROWS`."""
FEW_ROWS = {"1x4096x4096": "row", "16x4096x4096": "rows"}
"""Where a rung for few rows is measured, and with which of its presets."""
SAMPLES, FEW_SAMPLES = 10, 3
"""Timed samples of a kernel; and on problems with more than `_MOST_FLOPS`, on which rung 1 takes seconds."""
_MOST_FLOPS = 2e11
_SAME = "revision", "gpu"
"""Facts of an environment that are the same throughout a file. Clocks are not among those of a GPU."""


def ladder_tasks(engine: Engine) -> list[Task]:
    """All rungs that the engine's GPU runs, at the shapes that pages show, in each of their types.
    Those of one arithmetic take turns."""
    found: dict[Problem, list[Choice]] = {}
    for kernel in LADDER:
        for dtype in kernel.support.factors if kernel.source.parent.name == "ladder" else ("",):
            factors = kernel.support.arithmetic(dtype).factors
            if engine.capability and not kernel.support.runs_on(engine.capability, factors):
                continue
            more = varying.SWEPT_SHAPES if factors == "float32" else ()
            shapes = (*SQUARES, *more) if _is_square(kernel) else FEW_ROWS
            for problem in (problem_of(kernel, shape, dtype) for shape in shapes):
                if choice := _choice(engine, kernel, problem):
                    found.setdefault(problem, []).append(choice)
    return [Task(problem, choices) for problem, choices in found.items()]


def _choice(engine: Engine, kernel: Kernel, problem: Problem) -> Choice | None:
    """A rung's config for the GPU, of a rung for few rows its preset for them; None of what it does not support."""
    if not _is_square(kernel):
        return Choice(kernel, kernel.config(kernel.presets[FEW_ROWS[problem.shape]]))
    try:
        kernel.check(problem)
    except ProblemError:
        return None
    return Choice(kernel, kernel.config(capability=engine.capability))


def _is_square(kernel: Kernel) -> bool:
    """Whether the problem of a rung's page is a square one."""
    return shape_of(kernel.name) in SQUARES


def compiling(engine: Engine, tasks: Iterable[Task]) -> list[Task]:
    """The tasks without kernels that do not compile or that the GPU refuses, of which it says so. All are compiled side
    by side."""
    found = []
    with Workers(cores()) as threads:
        started = [
            (problem, [(one, threads.submit(_compiled, engine, one, problem)) for one in choices])
            for problem, choices in tasks
        ]
        for problem, choices in started:
            if ready := [choice for choice, one in choices if one.result()]:
                found.append(Task(problem, ready))
    return found


def _compiled(engine: Engine, choice: Choice | str, problem: Problem) -> bool:
    try:
        if not isinstance(choice, str):
            engine.plan(*choice, problem)
    except TilewrightError as error:
        print(f"left out: {error}", file=sys.stderr)
        return False
    return True


def records(
    engine: Engine, library: BaselineLibrary | None, tasks: Sequence[Task], have: Sequence[Record], samples: int
) -> Iterator[list[Record]]:
    """Records of one task after the other, without those whose problem is among the records that there are."""
    measured = {(one.problem, one.kernel) for one in have}
    rest = [task for task in tasks if (task.problem, _name(task.choices[0])) not in measured]
    for problem, choices in compiling(engine, rest):
        few = min(samples, FEW_SAMPLES) if problem.flops > _MOST_FLOPS else samples
        yield from bench(engine, [(choices, problem)], samples=few, library=library, name_kernels=True)


def _name(choice: Choice | str) -> str:
    return choice if isinstance(choice, str) else choice.kernel.name


def options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--samples", type=int, default=SAMPLES, help="timed samples of each kernel")
    parser.add_argument("--cublas", action="store_true", help="name cuBLAS's kernels for squares, and nothing else")
    parser.add_argument("--rung", choices=list(alone.OTHERS), help="measure this rung, and nothing else")


def measure(engine: Engine, folder: Path, samples: int, cublas: bool, rung: str | None = None) -> bool:
    """Measure everything, or cuBLAS's kernels or a rung alone; whether all results were right.

    Raises:
        RecordsError: a file of the folder is of other sources or another GPU, or is none of records.
        EngineUnavailableError: cuBLAS is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    library = baseline_library(engine)
    if cublas:
        measured = list(cublas_kernels.sweep(engine, library, samples))
        Measurements(environment=environment(engine), measurements=measured).save(folder / "cublas.json")
        return True
    if rung:
        right = _measure(engine, library, alone.tasks(find(rung)), folder / f"{rung}.json", samples)
        states = list(alone.measurements(engine, library, find(rung))) if engine.capability else []
        Measurements(environment=environment(engine), measurements=states).save(folder / f"{rung}_in_a_row.json")
        return right
    right = True
    for name, tasks in (("ladder", ladder_tasks(engine)), ("variations", varying.tasks(engine))):
        right = _measure(engine, library, tasks, folder / f"{name}.json", samples) and right
    compared = list(casts.measurements(engine, samples))
    Measurements(environment=environment(engine), measurements=compared).save(folder / "casts.json")
    if engine.capability:
        probes.measure(engine).save(folder / "machine.json")
    return right and all(one.right for one in compared)


def _measure(engine: Engine, library: BaselineLibrary | None, tasks: Sequence[Task], file: Path, samples: int) -> bool:
    """Measure tasks to a file, which may have some of them; whether all results were right."""
    found = _kept(file, environment(engine))
    for more in records(engine, library, tasks, found, samples):
        found += more
        Run(environment=environment(engine), records=found).save(file)
        for one in more:
            baseline = f", {one.baseline.name} {one.baseline.gflops:,.0f}" if one.baseline else ""
            print(f"{one.shape} {one.case}  {one.title}: {one.gflops:,.0f} GFLOP/s{baseline}", flush=True)
    return all(one.verified for one in found)


def _kept(file: Path, facts: Mapping[str, object]) -> list[Record]:
    """Records of a file that an earlier command left; none where there is no file.

    Raises:
        RecordsError: they are of other sources or another GPU.
    """
    if not file.exists():
        return []
    run = Run.load(file)
    for name in _SAME:
        theirs, ours = (_named(of.get(name)) for of in (run.environment, facts))
        if theirs != ours:
            raise RecordsError(f"{file} has records of {name} {theirs}, this is {ours}: give another folder")
    return list(run.records)


def _named(fact: object) -> object:
    return fact.get("name") if isinstance(fact, Mapping) else fact
