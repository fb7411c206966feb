"""The command line: `tilewright bench`."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from tilewright.api.engines import CHOICES, resolve_engine
from tilewright.core.dtypes import DTYPES
from tilewright.core.errors import ConfigError, EngineUnavailableError, ProblemError
from tilewright.core.files import check_outputs
from tilewright.core.problem import ACTIVATIONS, Arithmetic, Epilogue, Problem, Scalars
from tilewright.kernels import BEST, KERNELS
from tilewright.kernels.config import parse_overrides
from tilewright.kernels.kernel import Choice, Kernel
from tilewright.kernels.support import Support
from tilewright.runtime.base import Engine
from tilewright.tools.bench import suites
from tilewright.tools.bench.end_to_end import TorchCalls
from tilewright.tools.bench.environment import gpu_facts
from tilewright.tools.bench.measure import BaselineLibrary, reads_c
from tilewright.tools.bench.records import Record, Result, Run
from tilewright.tools.bench.run import baseline_library, bench, verify
from tilewright.tools.bench.verify import READS_C, Operands, check_memory
from tilewright.tools.cli import options
from tilewright.tools.cli.launches import Words, own_orders
from tilewright.tools.cli.progress import Steps
from tilewright.tools.cli.recording import Recording
from tilewright.tools.cli.streams import invoked, remark
from tilewright.tools.cli.terminal import json_output, results
from tilewright.tools.report import course
from tilewright.tools.report.calls import calls_table
from tilewright.tools.report.tables import baseline_kernels_table, bench_table
from tilewright.tools.report.verified import count, course_table, fastest, results_table

GPU_SHAPE, EMULATOR_SHAPE = "4096x4096x4096", "256x256x256"
GPU_SAMPLES = 10

COURSE, LIBRARY = "course", "library"
"""Stand for the rungs, which are benched where no kernel is named, and for all other kernels."""

Task = tuple[list[Choice | str], Problem]
"""Kernels to run, and the problem to run them on."""

Rounds = list[list[tuple[Choice | str, Problem]]]
"""Kernels and problems that are verified together and shown in one table."""

_NEXT = (
    ("check missing_barrier", "Find a data race: both threads, both lines, the element"),
    ("explain coalesced", "Count what a kernel does to a GPU, and see what binds"),
    ("new my_gemm", "Begin a kernel of your own, for the same tools"),
)
"""Commands that a newcomer may type after the course, and what each shows."""


def _completed(incomplete: str) -> list[str]:
    """Completions of a word that a shell may offer."""
    words = (word for word in (BEST, COURSE, LIBRARY) if word.startswith(incomplete))
    return [*options.kernel_names(incomplete), *words]


def run_bench(
    kernels: Annotated[
        list[str] | None,
        options.kernels_of(
            "Names, rung numbers, NAME:PRESET, or a source file; 'best' is what matmul takes, 'library' all kernels "
            "that are no rungs. The course, all of its rungs, where none is given.",
            names=_completed,
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="The rungs of the course and the kernels of the library.")
    ] = False,
    shape: options.Shapes = None,
    suite: options.Suites = None,
    dtype: options.Factors = None,
    out_dtype: options.OutDtype = None,
    precision: options.Precision = None,
    batch_invariant: options.BatchInvariant = False,
    scales: options.Scales = None,
    layout: options.Orders = None,
    batch: options.Batch = None,
    alpha: Annotated[float, typer.Option(help="D = activation(alpha * A @ B + beta * C + bias).")] = 1.0,
    beta: Annotated[float, typer.Option(help="With 0, C is not read.")] = 0.0,
    bias: Annotated[bool, typer.Option("--bias", help="Add a row of N elements to each row.")] = False,
    activation: Annotated[
        str | None, typer.Option(metavar="|".join(ACTIVATIONS), help="Apply it to each element, last.")
    ] = None,
    prepared: Annotated[
        bool, typer.Option("--prepared", help="Measure each kernel with B prepared too, as tilewright.prepare does.")
    ] = False,
    engine: options.EngineName = CHOICES[0],
    config: options.Overrides = "",
    samples: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Timed samples of each kernel; on a GPU {GPU_SAMPLES} if left out. Without a GPU nothing is timed if "
            "it is left out: times of the emulator say nothing of one.",
        ),
    ] = None,
    show_baseline_kernel: Annotated[
        bool, typer.Option("--show-baseline-kernel", help="Name the kernels that cuBLAS runs on each problem.")
    ] = False,
    end_to_end: Annotated[
        bool,
        typer.Option(
            "--end-to-end", help="Time calls of matmul too, host included, next to PyTorch's own: needs it, and a GPU."
        ),
    ] = False,
    args: options.Args = "",
    grid: options.Grid = "",
    block: options.Block = "",
    shared: options.Shared = "",
    define: options.Define = None,
    json_path: Annotated[Path | None, options.json_of("the records here; - prints them")] = None,
) -> None:
    """Verify kernels, and on a GPU time them next to cuBLAS.

    Without a GPU an emulator runs each kernel once, for its result. With one, cuBLAS computes the same product in the
    same layouts and types; bias and activation are the kernel's alone.

    The course, and cuBLAS, on one problem:   [bold]tilewright bench --shape 1000x2000x3000[/]

    The kernels of the library, or both:      [bold]tilewright bench library[/], [bold]tilewright bench --all[/]

    Two rungs over a suite, kept as JSON:     [bold]tilewright bench 5 warptiled --suite squares --json run.json[/]

    One rung with another config:             [bold]tilewright bench vectorized --config BM=64,BN=64,BK=16,TM=4,TN=4[/]

    Transposed weights:                       [bold]tilewright bench best --suite llm --layout NT[/]

    float8 as cuBLASLt takes it:              [bold]tilewright bench best --dtype float8_e4m3fn --layout NT[/]

    Less than float32's exactness, faster:    [bold]tilewright bench best --suite squares --precision fp16x3[/]

    The same bits for every M, next to all:   [bold]tilewright bench best --suite decode --batch-invariant[/]

    What a caller sees:                       [bold]tilewright bench best --suite squares --end-to-end[/]

    The exit status is 0 only if every result was right.
    """
    check_outputs([json_output(json_path, Run.kind())])
    promise = options.promised(precision)
    dtype = options.factor_type(dtype, promise, scales)
    words = Words(args, grid, block, shared, define=define or ())
    words.check(kernels or [])
    able = [one for one in KERNELS if dtype is None or dtype in one.support.factors]
    able = [one for one in able if not promise or one.meets(promise)]
    named, free = named_kernels(kernels or [], every, words, able)
    overrides = parse_overrides(config)
    if overrides and BEST in (kernel for kernel, _ in named):
        raise ConfigError(f"--config needs kernels whose parameters it sets, got {config} for {BEST}")
    ours = [(kernel, preset) for kernel, preset in named if not isinstance(kernel, str)]
    for kernel, preset in ours:
        kernel.config({**preset, **overrides})  # refused here, before an engine is started
    scalars = options.finite_scalars(alpha, beta)
    asked = partial(
        suites.problems,
        arithmetic=Arithmetic(dtype or DTYPES[0], out_dtype or DTYPES[0], promise),
        layouts=own_orders(layout, [kernel for kernel, _ in ours] if len(ours) == len(named) else ()),
        batch=batch,
        epilogue=Epilogue("row" if bias else None, activation),
        scales=scales,
    )
    problems = asked(shape or [], suite or [])
    where = resolve_engine(engine)
    emulated = where.capability is None
    problems = problems or asked([EMULATOR_SHAPE if emulated else GPU_SHAPE], [])
    if end_to_end and emulated:
        raise EngineUnavailableError("--end-to-end needs a GPU: the emulator's times say nothing of one")
    framework = TorchCalls.on_gpu() if end_to_end else None
    # Without a GPU, configs are those found best on the one whose speeds are shown.
    capability = where.capability or course.measured().capability
    choices: list[Choice | str] = []
    for one, preset in named:
        if isinstance(one, str):
            choices.append(one)
        elif emulated or one not in free or one.support.runs_on(capability, dtype or one.support.factors[0]):
            choices.append(Choice(one, one.config({**preset, **overrides}, capability=capability)))
    tasks = tasks_of(choices, problems, dtype, out_dtype, free, batch_invariant)
    for _, problem in tasks:
        check_memory(problem)
    shown = results(json_path)
    asked_for: dict[str, Any] = {"scalars": scalars, "prepared": prepared, "batch_invariant": batch_invariant}
    timed = samples is not None or not emulated
    library = _library(where) if timed else None
    shown.print(_headline(where, library, timed), highlight=False)
    if show_baseline_kernel and emulated:
        remark("no baseline kernel", "yellow", "without a GPU the baseline is NumPy, which runs none")
    with Recording(json_path, where) as kept:
        if timed:
            run_all = partial(
                bench,
                where,
                samples=samples or GPU_SAMPLES,
                library=library,
                name_kernels=show_baseline_kernel,
                framework=framework,
                **asked_for,
            )
            _measure(tasks, run_all, kept, shown)
        else:
            _verify(rounds_of(tasks, choices, bool(free)), partial(verify, where, **asked_for), kept, shown, bool(free))
    if not emulated:
        for line in fastest(kept.records):
            shown.print(line, highlight=False)
    shown.print(Text(f"\n{count(kept.results)}", "bold"), highlight=False)
    wrong = [one for one in kept.results if not one.verified]
    for record in wrong:
        why = _why(where, choices, record)
        remark("wrong result", "bold red", f"{record.kernel} on {record.shape}{why}")
    if emulated and not kernels and not every:
        shown.print(_next(), soft_wrap=True)
    raise typer.Exit(1 if wrong else 0)


def named_kernels(
    names: Sequence[str], every: bool, words: Words, supporting: Sequence[Kernel]
) -> tuple[list[tuple[Kernel | str, Mapping[str, int]]], frozenset[Kernel]]:
    """The kernels that are asked for, or `BEST`, with overrides of their presets; and which of them are not named
    themselves: those are left out where they do not take a problem.

    Args:
        names, every: as the command is given them.
        words: options for source files.
        takers: kernels that the course and the library are taken from.
    """
    if every and names:
        raise ConfigError(f"--all takes no names of kernels, got {' '.join(names)}")
    found: list[tuple[Kernel | str, Mapping[str, int]]] = []
    free: set[Kernel] = set()
    for name in map(str.strip, names or ([COURSE, LIBRARY] if every else [COURSE])):
        if name == BEST:
            found.append((name, {}))
        elif name in (COURSE, LIBRARY):
            group = [kernel for kernel in supporting if bool(kernel.rung) == (name == COURSE)]
            found += [(kernel, {}) for kernel in group]
            free |= {*group}
        else:
            kernel, preset = words.resolve(name)
            found.append((kernel, preset))
    return found, frozenset(free)


def tasks_of(
    choices: Sequence[Choice | str],
    problems: Sequence[Problem],
    dtype: str | None,
    out_dtype: str | None,
    free: frozenset[Kernel],
    batch_invariant: bool,
) -> list[Task]:
    """Kernels to run on each problem, in the given element types, or the first that a kernel supports. Free kernels
    that do not support a problem, or are not batch-invariant where that is asked for, are left out.

    Raises:
        ProblemError: no kernel takes one of the problems.
    """
    found: dict[Problem, list[Choice | str]] = {}
    for choice, problem in itertools.product(choices, problems):
        support = Support() if isinstance(choice, str) else choice.kernel.support
        own = support.arithmetic(dtype or "")
        typed = replace(problem.arithmetic, factors=own.factors, result=out_dtype or own.result)
        asked = support.scaled(replace(problem, arithmetic=typed))
        chosen = found.setdefault(asked, [])
        if isinstance(choice, str) or choice.kernel not in free or _supports(choice, asked, batch_invariant):
            chosen.append(choice)
    tasks = [(chosen, problem) for problem, chosen in found.items() if chosen]
    for problem in problems:
        if not any((problem.shape, problem.layout) == (one.shape, one.layout) for _, one in tasks):
            raise ProblemError(
                f"none of these kernels takes {problem.shape} {problem.case}; '{LIBRARY}' names those of the library, "
                f"'{BEST}' what matmul would take"
            )
    return tasks


def _supports(choice: Choice, problem: Problem, batch_invariant: bool) -> bool:
    kernel, config = choice
    return kernel.why_not(problem) is None and not (batch_invariant and kernel.sums(config).order is None)


def rounds_of(tasks: Sequence[Task], choices: Sequence[Choice | str], together: bool) -> Rounds:
    """Runs to verify, a list for each table: on one problem, or together on one shape, in the order of choices."""
    rounds: dict[object, list[tuple[Choice | str, Problem]]] = {}
    for chosen, problem in tasks:
        table = (problem.shape, problem.layout) if together else problem
        rounds.setdefault(table, []).extend((one, problem) for one in chosen)
    return [sorted(some, key=lambda one: choices.index(one[0])) for some in rounds.values()]


def _why(engine: Engine, choices: Sequence[Choice | str], record: Result) -> str:
    """Reason for a wrong result, where it is known."""
    scalars = Scalars(record.alpha, record.beta)
    named = ((one.kernel.name, dict(one.config), one) for one in choices if not isinstance(one, str))
    choice = next((one for *what, one in named if what == [record.kernel, record.config]), None)
    read = choice and reads_c(engine, *choice, Operands.draw(record.problem, scalars))
    return f": {READS_C}" if read else ""


def _measure(
    tasks: Sequence[Task], run_all: Callable[..., Iterator[list[Record]]], kept: Recording, shown: Console
) -> None:
    """Run the bench and show how far it is; tables and records come out problem by problem."""
    with Steps() as steps:
        in_turn = run_all(tasks, on_step=steps.update)
        for number in range(1, len(tasks) + 1):
            steps.begin("compiling", part=f"{number} of {len(tasks)}")
            measured = next(in_turn)
            kept.add(measured)
            with steps.aside():
                shown.print(bench_table(measured))
                if launched := baseline_kernels_table(measured):
                    shown.print(launched)
                if timed := calls_table(measured):
                    shown.print(timed)


def _verify(
    rounds: Rounds, run_one: Callable[..., list[Result]], kept: Recording, shown: Console, together: bool
) -> None:
    """Run kernels once each and show how far they are; a table comes out after each round."""
    with Steps() as steps:
        for number, tasks in enumerate(rounds, start=1):
            steps.begin("compiling", total=len(tasks), part=f"{number} of {len(rounds)}")
            found = run_one(tasks, on_step=steps.update)
            kept.add(found)
            with steps.aside():
                shown.print(course_table(found, course.measured()) if together else results_table(found))


def _library(engine: Engine) -> BaselineLibrary | None:
    """The baseline; where it is not installed the bench goes on without."""
    try:
        return baseline_library(engine)
    except EngineUnavailableError as error:
        remark("no baseline", "yellow", f"{error}")
        return None


def _headline(engine: Engine, library: BaselineLibrary | None, timed: bool) -> str:
    if engine.capability is None:
        runs = f"No GPU is used: the emulator runs the kernels on {engine.device_name}"
        if timed:
            return f"{runs}.\nIt shows that they are right. Its times are not GPU times."
        return f"{runs}, once each, to see that they are right."
    words = [engine.device_name, "compute capability {}.{}".format(*engine.capability)]
    driver = gpu_facts(engine).get("driver")
    words += [f"driver {driver}"] if driver else []
    words += [f"cuBLAS {library.version}"] if library else []
    return ", ".join(words)


def _next() -> Text:
    """Commands to go on with, each on a line of its own that can be pasted."""
    lines = (part for words, what in _NEXT for part in ((f"\n{what}:\n", ""), (f"  {invoked()} {words}\n", "bold")))
    return Text.assemble(*lines, end="")
