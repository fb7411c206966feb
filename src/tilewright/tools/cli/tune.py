"""The command line: `tilewright tune`."""

import itertools
import math
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from tilewright.api.engines import CHOICES, resolve_engine
from tilewright.core.errors import ConfigError, DtypeError, EngineUnavailableError, ProblemError
from tilewright.core.files import Output, check_outputs
from tilewright.core.problem import Arithmetic, Problem, Scalars
from tilewright.kernels import KERNELS
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Support
from tilewright.runtime.base import Engine
from tilewright.select import orders
from tilewright.select.tables import store
from tilewright.select.tables.cases import types_of
from tilewright.tools.bench import suites
from tilewright.tools.bench.environment import environment
from tilewright.tools.bench.records import Run
from tilewright.tools.bench.verify import READS_C, check_memory
from tilewright.tools.cli import options
from tilewright.tools.cli.launches import Words, own_orders
from tilewright.tools.cli.progress import Steps
from tilewright.tools.cli.recording import Recording
from tilewright.tools.cli.streams import notes, remark
from tilewright.tools.cli.terminal import json_output, results, say
from tilewright.tools.report.tables import bench_table
from tilewright.tools.tune import search, space
from tilewright.tools.tune.entries import of_records
from tilewright.tools.tune.journal import KIND, Journal, Trial, default_path
from tilewright.tools.tune.portfolios import SURVEYED, TYPES, survey
from tilewright.tools.tune.search import Search, Settings
from tilewright.tools.tune.worker import Worker

GPU_SHAPE, EMULATOR_SHAPE = "4096x4096x4096", "128x128x128"


def run_tune(
    kernels: Annotated[
        list[str] | None,
        options.kernels_of(
            "Names, rung numbers, NAME:PRESET, which keeps what the preset sets, or a source file. All that take "
            "the problem where none is given."
        ),
    ] = None,
    shape: options.Shapes = None,
    suite: options.Suites = None,
    dtype: options.Factors = None,
    out_dtype: options.OutDtype = None,
    precision: options.Precision = None,
    batch_invariant: options.BatchInvariant = False,
    scales: options.Scales = None,
    layout: options.Orders = None,
    batch: options.Batch = None,
    alpha: Annotated[float, typer.Option(help="D = alpha * A @ B + beta * C.")] = 1.0,
    beta: Annotated[float, typer.Option(help="With 0, C is not read.")] = 0.0,
    budget: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Search no longer than this, over all problems. No end otherwise."),
    ] = None,
    engine: options.EngineName = CHOICES[0],
    samples: Annotated[int, typer.Option(min=1, help="Timed samples of each config.")] = 5,
    deadline: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="A config that takes longer is taken for one that hangs.")
    ] = 60.0,
    known: Annotated[
        bool, typer.Option("--known", help="Only configs that the tables name for any problem of this element type.")
    ] = False,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="In the order of enumeration, none dropped: to judge the search by.")
    ] = False,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help=f"Where trials are kept, to go on from: {default_path()} if left out."),
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Add what was found to your own table, which matmul uses.")
    ] = False,
    surveys: Annotated[
        bool,
        typer.Option(
            "--survey", help="Measure all kernels' portfolios on problems of all kinds, so that matmul picks well here."
        ),
    ] = False,
    minutes: Annotated[
        float, typer.Option(min=0.1, metavar="MINUTES", help="How long --survey takes, compiling included.")
    ] = 5.0,
    args: options.Args = "",
    grid: options.Grid = "",
    block: options.Block = "",
    shared: options.Shared = "",
    define: options.Define = None,
    json_path: Annotated[Path | None, options.json_of("the final records here; - prints them")] = None,
) -> None:
    """Search the configs of kernels for the fastest on a problem.

    All kernels on one problem:         [bold]tilewright tune --shape 4096[/]

    Two of them on a suite, ten minutes, to be used from now on:

    [bold]tilewright tune warptiled vectorized --suite squares --budget 600 --save[/]

    All that a GPU needs for good picks on problems of all kinds, in float32 and 16 bits:

    [bold]tilewright tune --survey[/]

    The same in 8-bit integers:         [bold]tilewright tune --survey --dtype int8[/]

    Configs come in the order of what a cost model expects of them. Every one is verified before it is timed. Ctrl-C
    ends the search and shows the best so far; the same command goes on from there.
    """
    if surveys:
        _survey(engine, minutes, dtype)
        return
    path = journal or default_path()
    check_outputs([json_output(json_path, Run.kind()), Output("--journal", path, KIND)])
    words = Words(args, grid, block, shared, define=define or ())
    words.check(kernels or [])
    named = [words.resolve(name) for name in kernels or ()]
    if save and any(kernel.is_user_kernel for kernel, _ in named):
        raise ConfigError("--save is for kernels that matmul picks from, which a source file's are not")
    scalars = options.finite_scalars(alpha, beta)
    if save and scalars != Scalars():
        raise ConfigError(f"--save is for products with alpha 1 and beta 0, got alpha {alpha:g} and beta {beta:g}")
    for kernel, _ in named:
        kernel.check_scalars(scalars)
    where = resolve_engine(engine)
    if save and where.capability is None:
        raise EngineUnavailableError("--save needs a GPU: the times of the emulator say nothing of one")
    if not (shape or suite):
        shape = [EMULATOR_SHAPE if where.capability is None else GPU_SHAPE]
    support = named[0][0].support if named else Support()
    typed = support.arithmetic(options.factor_type(dtype, options.promised(precision), scales) or "")
    arithmetic = Arithmetic(typed.factors, out_dtype or typed.result, precision, batch_invariant)
    problems = suites.problems(
        shape or [],
        suite or [],
        arithmetic,
        layouts=own_orders(layout, [kernel for kernel, _ in named]),
        batch=batch,
        scales=scales,
    )
    problems = _with_products(problems)
    spaces = {problem: _spaces(named, problem, where, known) for problem in problems}
    settings = Settings(samples=samples, scalars=scalars, exhaustive=exhaustive)
    log = Journal(path)
    started, shown = time.monotonic(), results(json_path)
    with Recording(json_path, where) as kept, Worker(where.name, deadline) as worker, Steps() as steps:
        for index, problem in enumerate(problems):
            left = math.inf if budget is None else max(budget - (time.monotonic() - started), 0)
            one = Search(where, worker, log, problem, spaces[problem], settings)
            try:
                _run(one, steps, f"{index + 1} of {len(problems)}: {problem.shape}", left / (len(problems) - index))
                found = one.final()
            except KeyboardInterrupt:
                with steps.aside():
                    say(_interrupted(one, problem), to=shown)
                raise typer.Exit(130) from None
            if not found:
                remark(problem.shape, "bold red", _nothing(one, log))
                continue
            kept.add(found)
            with steps.aside():
                shown.print(bench_table(found))
                say(_counts(one), to=shown)
            if save and where.capability:
                entries = of_records(found, environment(where).get("revision"))
                notes.print(f"saved to {store.save(where.device_name, where.capability, entries)}", soft_wrap=True)
    log.close()
    tuned = {record.problem for record in kept.records if record.verified}
    raise typer.Exit(0 if len(tuned) == len(problems) else 1)


def _survey(named: str, minutes: float, dtype: str | None) -> None:
    """Survey a GPU, with factors of a type if one is given, and say what came of it."""
    if dtype not in (None, *SURVEYED):
        raise DtypeError(f"--survey measures factors of {', '.join(SURVEYED)}, got {dtype}")
    engine, types = resolve_engine(named), (dtype,) if dtype else TYPES
    if engine.capability is None:
        raise EngineUnavailableError("--survey needs a GPU: the times of the emulator say nothing of one")
    known = [kernel.support for kernel in KERNELS if kernel.portfolio]
    if dtype and not any(dtype in one.factors and one.runs_on(engine.capability, dtype) for one in known):
        raise DtypeError(f"no kernel has a portfolio of {dtype} to survey on {engine.device_name}")
    with Steps() as steps:
        steps.begin("surveying", 0, 100)

        def report(what: str, share: float) -> None:
            steps.update(what, round(100 * share), 100)

        try:
            counts, path = survey(engine, minutes, report, types)
        except KeyboardInterrupt:
            notes.print("interrupted: what was measured counts, and the same command goes on from there")
            raise typer.Exit(130) from None
    measured = ", ".join(f"{count} problems of {dtype}" for dtype, count in counts.items())
    saved = f"saved to {path}" if path else "too few for models: the same command goes on from here"
    notes.print(f"measured {measured}; {saved}", soft_wrap=True)


def _with_products(problems: Iterable[Problem]) -> list[Problem]:
    """Problems, each once, that have anything to compute; a note names the others.

    Raises:
        ProblemError: there are none.
    """
    found = list(dict.fromkeys(problems))
    empty = ", ".join(problem.shape for problem in found if not problem.flops)
    found = [problem for problem in found if problem.flops]
    if not found:
        raise ProblemError(f"tune takes problems with something to compute, got {empty}")
    if empty:
        notes.print(f"left out, since there is nothing to compute: {empty}", soft_wrap=True)
    for problem in found:
        check_memory(problem)
    return found


def _spaces(
    named: list[tuple[Kernel, Mapping[str, int]]], problem: Problem, engine: Engine, known: bool
) -> dict[Kernel, list[Config]]:
    """The configs of each kernel to be searched: those that have what its preset sets."""
    capability = engine.capability
    for kernel, _ in named:
        kernel.check(problem, capability)
    chosen = list(dict.fromkeys(kernel for kernel, _ in named)) or search.searchable(KERNELS, problem, capability)
    if not chosen:
        raise DtypeError(f"no kernel takes {problem.shape} of {problem.dtype} on {engine.device_name}")
    tables = [*store.load(engine.device_name), *store.shipped()] if known else []
    entries = [entry for table in tables for entry in table.entries if types_of(entry.case)[0] == problem.dtype]
    names, order = ", ".join(kernel.name for kernel in chosen), orders.order_of(problem.arithmetic, capability)
    if known and not any(kernel.name == entry.kernel for kernel, entry in itertools.product(chosen, entries)):
        raise ConfigError(f"--known needs tables that name configs of {names}")
    found: dict[Kernel, list[Config]] = {}
    for kernel in chosen:
        configs = (
            [kernel.config(entry.config) for entry in entries if entry.kernel == kernel.name]
            if known
            else space.configs(kernel, capability)
        )
        presets = [preset for one, preset in named if one is kernel]
        kept = [one for one in configs if not named or any(preset.items() <= one.items() for preset in presets)]
        if configs and not kept:
            raise ConfigError(f"--known needs tables that name configs of {kernel.name} with its preset's parameters")
        if in_order := [one for one in kept if not order or kernel.sums(one).order == order]:
            found[kernel] = space.distinct(kernel, in_order, problem.layout)
    if order and not found:
        raise ConfigError(f"no config of {names} adds up in the order of batch-invariant products, {order}")
    return found


def _run(one: Search, steps: Steps, name: str, budget_s: float) -> None:
    """Run a search, and show the best so far."""
    steps.begin("compiling", one.progress.done, one.progress.total, name)

    def update(state: search.SearchProgress, trial: Trial) -> None:
        best = f"best {_sum_up(state.best)}" if state.best else "compiling"
        steps.update(best, state.done, state.total, budget_s)

    one.run(budget_s, update)


def _sum_up(trial: Trial) -> str:
    """A trial in a few words."""
    pairs = ",".join(f"{name}={value}" for name, value in trial.config.items())
    return f"{trial.gflops:,.0f} GFLOP/s {trial.kernel} {pairs}"


def _counts(one: Search) -> str:
    """Sentence with the number of configs that have each outcome."""
    state = one.progress
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(state.outcomes.items()))
    resumed = f", {state.resumed} of them in earlier runs" if state.resumed else ""
    return f"{state.done} of {state.total} configs tried{resumed}: {outcomes}"


def _nothing(one: Search, log: Journal) -> str:
    """Why a search ends without a config."""
    if not one.progress.done:
        return "the budget ended before any config was tried"
    why = next((f"{trial.note}. " for trial in one.trials if trial.note.endswith(READS_C)), "")
    return f"no config gave a right result: {why}See {log.path}. {_counts(one)}"


def _interrupted(one: Search, problem: Problem) -> str:
    best = one.progress.best
    found = f"best so far {_sum_up(best)}" if best else "nothing timed yet"
    return f"{problem.shape}: {found}. {_counts(one)}. The same command goes on from here."
