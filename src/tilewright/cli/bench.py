"""The command line: `tilewright bench`."""

import itertools
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tilewright.bench import suites
from tilewright.bench.environment import environment
from tilewright.bench.measure import BaselineLibrary, Choice
from tilewright.bench.records import Record, Run
from tilewright.bench.run import BEST, baseline_library, bench
from tilewright.cli.terminal import EngineName, Shapes, Suites, notes, out
from tilewright.engines.base import Engine
from tilewright.engines.registry import CHOICES, resolve_engine
from tilewright.errors import ConfigError, EngineUnavailableError
from tilewright.kernels import LADDER, resolve
from tilewright.kernels.spec import parse_overrides
from tilewright.problem import DTYPES, Arithmetic, Problem, Scalars
from tilewright.report.tables import baseline_kernels_table, bench_table

GPU_SHAPE, EMULATOR_SHAPE = "4096x4096x4096", "1024x1024x1024"
GPU_SAMPLES, EMULATOR_SAMPLES = 10, 1

_Task = tuple[list[Choice | str], list[Problem]]
"""What to run, and on which problems."""


def run_bench(
    kernels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KERNEL]...",
            help="Names, rung numbers, or NAME:PRESET; 'best' is what matmul takes. All rungs where none is given.",
        ),
    ] = None,
    shape: Shapes = None,
    suite: Suites = None,
    dtype: Annotated[
        str | None,
        typer.Option(help=f"Element type of A and B: {', '.join(DTYPES)}. If left out, the first that a rung takes."),
    ] = None,
    alpha: Annotated[float, typer.Option(help="C = alpha * A @ B + beta * C.")] = 1.0,
    beta: Annotated[float, typer.Option(help="With 0, C is written and never read.")] = 0.0,
    engine: EngineName = CHOICES[0],
    config: Annotated[
        str, typer.Option(metavar="NAME=INTEGER,...", help="Parameters other than the defaults, as in BM=64,BN=64.")
    ] = "",
    samples: Annotated[
        int | None,
        typer.Option(min=1, help=f"Timed samples of each kernel: {GPU_SAMPLES} on a GPU, {EMULATOR_SAMPLES} emulated."),
    ] = None,
    show_baseline_kernel: Annotated[
        bool, typer.Option("--show-baseline-kernel", help="Name the kernels that cuBLAS runs on each problem.")
    ] = False,
    json_path: Annotated[Path | None, typer.Option("--json", metavar="PATH", help="Write the records here.")] = None,
) -> None:
    """Verify kernels, and time them beside cuBLAS (on a GPU) or NumPy (on the emulator).

    Every version and cuBLAS on one problem:  [bold]tilewright bench --shape 1000x2000x3000[/]

    Two rungs over a suite, kept as JSON:     [bold]tilewright bench 5 warptiled --suite squares --json run.json[/]

    One rung with another config:             [bold]tilewright bench vectorized --config BM=64,BN=64,BK=16,TM=4,TN=4[/]

    The exit status is 0 only if every result was right.
    """
    takers = [kernel for kernel in LADDER if dtype is None or dtype in kernel.takes.factors]
    named = [name if name == BEST else resolve(name) for name in kernels] if kernels else [(k, {}) for k in takers]
    overrides = parse_overrides(config)
    if overrides and BEST in named:
        raise ConfigError(f"--config needs kernels whose parameters it sets, got {config} for {BEST}")
    for kernel, preset in (one for one in named if not isinstance(one, str)):
        kernel.config({**preset, **overrides})  # refused here, before an engine is started
    scalars = Scalars.checked(alpha, beta)
    problems = suites.problems(shape or [], suite or [], dtype or DTYPES[0])
    where = resolve_engine(engine)
    emulated = where.capability is None
    choices: list[Choice | str] = []
    for one in named:
        if isinstance(one, str):
            choices.append(one)
        else:
            kernel, preset = one
            capability = where.capability
            if not kernels and capability and not kernel.runs_on(capability, dtype or kernel.takes.factors[0]):
                continue  # where none is named, it is all rungs that the GPU can run
            choices.append(Choice(kernel, kernel.config({**preset, **overrides}, capability=where.capability)))
    if not problems:
        problems = suites.problems([EMULATOR_SHAPE if emulated else GPU_SHAPE], [], dtype or DTYPES[0])
    samples = samples or (EMULATOR_SAMPLES if emulated else GPU_SAMPLES)
    out.print(_headline(where), highlight=False)
    if show_baseline_kernel and emulated:
        notes.print(
            "[yellow]no baseline kernel:[/] without a GPU the baseline is NumPy, which runs none", soft_wrap=True
        )
    tasks = _by_dtype(choices, problems, dtype)
    records = _measure(where, tasks, samples, scalars, show_baseline_kernel, json_path)
    wrong = [record for record in records if not record.verified]
    for record in wrong:
        notes.print(f"[bold red]wrong result:[/] {record.kernel} on {record.shape}")
    raise typer.Exit(1 if wrong else 0)


def _by_dtype(choices: list[Choice | str], problems: list[Problem], dtype: str | None) -> list[_Task]:
    """What to run on problems of one element type each: the given one, or the first that a kernel takes."""
    tasks: dict[str, list[Choice | str]] = {}
    for choice in choices:
        taken = DTYPES if isinstance(choice, str) else choice.kernel.takes.factors
        first = next(known for known in DTYPES if known in taken)
        tasks.setdefault(dtype or first, []).append(choice)
    return [
        (chosen, [replace(problem, arithmetic=Arithmetic(kind)) for problem in problems])
        for kind, chosen in tasks.items()
    ]


def _measure(
    engine: Engine, tasks: list[_Task], samples: int, scalars: Scalars, name_kernels: bool, json_path: Path | None
) -> list[Record]:
    """Run the bench with a progress bar; tables and records come out problem by problem."""
    records: list[Record] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=notes, transient=True) as progress:
        task = progress.add_task("compiling", total=None)

        def on_step(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)

        run_one = partial(
            bench,
            engine,
            samples=samples,
            library=_library(engine),
            scalars=scalars,
            name_kernels=name_kernels,
            on_step=on_step,
        )
        runs = [run_one(*one) for one in tasks]
        for measured in itertools.chain.from_iterable(runs):
            records += measured
            out.print(bench_table(measured))
            if launched := baseline_kernels_table(measured):
                out.print(launched)
            if json_path:
                Run(environment=environment(engine), records=records).save(json_path)
    return records


def _library(engine: Engine) -> BaselineLibrary | None:
    """The baseline; where it is not installed the bench goes on without."""
    try:
        return baseline_library(engine)
    except EngineUnavailableError as error:
        notes.print(f"[yellow]no baseline:[/] {error}", soft_wrap=True)
        return None


def _headline(engine: Engine) -> str:
    if engine.capability is None:
        return (
            f"No GPU is used: the emulator runs the kernels on {engine.device_name}.\n"
            "It shows that they are right. Its times are not GPU times."
        )
    return f"{engine.device_name}, compute capability {engine.capability[0]}.{engine.capability[1]}"
