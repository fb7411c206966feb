"""The command line: `tilewright bench`."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tilewright.bench import suites
from tilewright.bench.end_to_end import TorchCalls
from tilewright.bench.measure import BaselineLibrary, reads_c
from tilewright.bench.records import Record, Run
from tilewright.bench.run import baseline_library, bench
from tilewright.bench.verify import READS_C, Operands, check_memory
from tilewright.cli.launches import Args, Block, Define, Grid, Shared, Words, own_orders
from tilewright.cli.progress import Steps
from tilewright.cli.recording import Recording
from tilewright.cli.streams import remark
from tilewright.cli.terminal import (
    Batch,
    BatchInvariant,
    EngineName,
    Factors,
    Orders,
    OutDtype,
    Precision,
    Scales,
    Shapes,
    Suites,
    factor_type,
    finite_scalars,
    json_output,
    kernel_names,
    promised,
    results,
)
from tilewright.engines.base import Engine
from tilewright.engines.registry import CHOICES, resolve_engine
from tilewright.errors import ConfigError, EngineUnavailableError, ProblemError
from tilewright.files import check_outputs
from tilewright.kernels import BEST, KERNELS
from tilewright.kernels.spec import Choice, parse_overrides
from tilewright.kernels.takes import Takes
from tilewright.problem import ACTIVATIONS, DTYPES, Arithmetic, Epilogue, Problem, Scalars
from tilewright.report.calls import calls_table
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
            autocompletion=kernel_names,
            help="Names, rung numbers, NAME:PRESET, or a source file; 'best' is what matmul takes. All rungs where "
            "none is given.",
        ),
    ] = None,
    shape: Shapes = None,
    suite: Suites = None,
    dtype: Factors = None,
    out_dtype: OutDtype = None,
    precision: Precision = None,
    batch_invariant: BatchInvariant = False,
    scales: Scales = None,
    layout: Orders = None,
    batch: Batch = None,
    alpha: Annotated[float, typer.Option(help="D = activation(alpha * A @ B + beta * C + bias).")] = 1.0,
    beta: Annotated[float, typer.Option(help="With 0, C is not read.")] = 0.0,
    bias: Annotated[bool, typer.Option("--bias", help="Add a row of N elements to each row.")] = False,
    activation: Annotated[
        str | None, typer.Option(metavar="|".join(ACTIVATIONS), help="Apply it to each element, last.")
    ] = None,
    prepared: Annotated[
        bool, typer.Option("--prepared", help="Measure each kernel with B prepared too, as tilewright.prepare does.")
    ] = False,
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
    end_to_end: Annotated[
        bool,
        typer.Option(
            "--end-to-end", help="Time calls of matmul too, host included, next to PyTorch's own: needs it, and a GPU."
        ),
    ] = False,
    args: Args = "",
    grid: Grid = "",
    block: Block = "",
    shared: Shared = "",
    define: Define = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="PATH", help="Write the records here; - prints them.")
    ] = None,
) -> None:
    """Verify kernels, and time them next to cuBLAS (on a GPU) or NumPy (on the emulator).

    Both compute the same product in the same layouts and types; bias and activation are the kernel's alone.

    Every version and cuBLAS on one problem:  [bold]tilewright bench --shape 1000x2000x3000[/]

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
    promise = promised(precision)
    dtype = factor_type(dtype, promise, scales)
    takers = [kernel for kernel in KERNELS if dtype is None or dtype in kernel.takes.factors]
    if promise:
        takers = [kernel for kernel in takers if kernel.keeps(promise)]
    words = Words(args, grid, block, shared, define=define or ())
    words.check(kernels or [])
    named = (
        [name if name == BEST else words.resolve(name) for name in kernels] if kernels else [(k, {}) for k in takers]
    )
    overrides = parse_overrides(config)
    if overrides and BEST in named:
        raise ConfigError(f"--config needs kernels whose parameters it sets, got {config} for {BEST}")
    for kernel, preset in (one for one in named if not isinstance(one, str)):
        kernel.config({**preset, **overrides})  # refused here, before an engine is started
    scalars = finite_scalars(alpha, beta)
    asked = partial(
        suites.problems,
        arithmetic=Arithmetic(dtype or DTYPES[0], out_dtype or DTYPES[0], promise),
        layouts=own_orders(layout, [one[0] for one in named if not isinstance(one, str)] if BEST not in named else ()),
        batch=batch,
        epilogue=Epilogue("row" if bias else None, activation),
        scales=scales,
    )
    problems = asked(shape or [], suite or [])
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
        problems = asked([EMULATOR_SHAPE if emulated else GPU_SHAPE], [])
    if end_to_end and emulated:
        raise EngineUnavailableError("--end-to-end needs a GPU: the emulator's times say nothing of one")
    framework = TorchCalls.on_gpu() if end_to_end else None
    tasks = _by_arithmetic(choices, problems, dtype, out_dtype)
    if not kernels:
        tasks = _taken(tasks, batch_invariant)
    for problem in (one for _, some in tasks for one in some):
        check_memory(problem)
    samples = samples or (EMULATOR_SAMPLES if emulated else GPU_SAMPLES)
    shown = results(json_path)
    shown.print(_headline(where), highlight=False)
    if show_baseline_kernel and emulated:
        remark("no baseline kernel", "yellow", "without a GPU the baseline is NumPy, which runs none")
    run_one = partial(
        bench,
        where,
        samples=samples,
        library=_library(where),
        scalars=scalars,
        prepared=prepared,
        batch_invariant=batch_invariant,
        name_kernels=show_baseline_kernel,
        framework=framework,
    )
    with Recording(json_path, where) as kept:
        _measure(tasks, run_one, kept, shown)
    wrong = [record for record in kept.records if not record.verified]
    for record in wrong:
        why = _why(where, choices, record)
        remark("wrong result", "bold red", f"{record.kernel} on {record.shape}{why}")
    raise typer.Exit(1 if wrong else 0)


def _why(engine: Engine, choices: Sequence[Choice | str], record: Record) -> str:
    """What is wrong with a result, where that is known."""
    scalars = Scalars(record.alpha, record.beta)
    named = ((one.kernel.name, dict(one.config), one) for one in choices if not isinstance(one, str))
    choice = next((one for *what, one in named if what == [record.kernel, record.config]), None)
    read = choice and reads_c(engine, *choice, Operands.draw(record.problem, scalars))
    return f": {READS_C}" if read else ""


def _by_arithmetic(
    choices: list[Choice | str],
    problems: list[Problem],
    dtype: str | None,
    out_dtype: str | None,
) -> list[_Task]:
    """What to run on problems of the same arithmetic each: of the given types, or the first that a kernel takes."""
    tasks: dict[tuple[Arithmetic, Takes], list[Choice | str]] = {}
    promised = problems[0].arithmetic
    for choice in choices:
        takes = Takes() if isinstance(choice, str) else choice.kernel.takes
        arithmetic = takes.arithmetic(dtype or "")
        typed = replace(promised, factors=arithmetic.factors, result=out_dtype or arithmetic.result)
        scaled = takes if takes.block_scales else Takes()
        tasks.setdefault((typed, scaled), []).append(choice)
    return [
        (chosen, [scaled.scaled(replace(one, arithmetic=arithmetic)) for one in problems])
        for (arithmetic, scaled), chosen in tasks.items()
    ]


def _taken(tasks: list[_Task], batch_invariant: bool) -> list[_Task]:
    """The same without kernels that do not take a problem, or are not batch-invariant where that is asked for.

    Raises:
        ProblemError: no kernel takes one of the problems.
    """
    found: list[_Task] = []
    for choices, problems in tasks:
        for problem in problems:
            takers = [one for one in choices if isinstance(one, str) or _takes(one, problem, batch_invariant)]
            if takers:
                found.append((takers, [problem]))
    for problem in tasks[0][1] if tasks else []:
        if not any(problem.shape == one.shape and problem.layout == one.layout for _, (one,) in found):
            raise ProblemError(f"no rung takes {problem.shape} {problem.case}; 'best' names what matmul would take")
    return found


def _takes(choice: Choice, problem: Problem, batch_invariant: bool) -> bool:
    kernel, config = choice
    return kernel.refusal(problem) is None and not (batch_invariant and kernel.sum_order(config) is None)


def _measure(
    tasks: list[_Task], run_one: Callable[..., Iterator[list[Record]]], kept: Recording, shown: Console
) -> None:
    """Run the bench and show how far it is; tables and records come out problem by problem."""
    count = sum(len(problems) for _, problems in tasks)
    with Steps() as steps:

        def on_step(what: str, done: int, total: int) -> None:
            steps.update(f"{number} of {count}: {what}", done, total)

        measured_in_turn = itertools.chain.from_iterable([run_one(*one, on_step=on_step) for one in tasks])
        for number in range(1, count + 1):
            steps.begin(f"{number} of {count}: compiling")
            measured = next(measured_in_turn)
            kept.add(measured)
            with steps.aside():
                shown.print(bench_table(measured))
                if launched := baseline_kernels_table(measured):
                    shown.print(launched)
                if timed := calls_table(measured):
                    shown.print(timed)


def _library(engine: Engine) -> BaselineLibrary | None:
    """The baseline; where it is not installed the bench goes on without."""
    try:
        return baseline_library(engine)
    except EngineUnavailableError as error:
        remark("no baseline", "yellow", f"{error}")
        return None


def _headline(engine: Engine) -> str:
    if engine.capability is None:
        return (
            f"No GPU is used: the emulator runs the kernels on {engine.device_name}.\n"
            "It shows that they are right. Its times are not GPU times."
        )
    return f"{engine.device_name}, compute capability {engine.capability[0]}.{engine.capability[1]}"
