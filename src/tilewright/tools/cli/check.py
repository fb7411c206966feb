"""The command line: `tilewright check`."""

import itertools
import time
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from threadpoolctl import threadpool_limits

from tilewright.core.errors import DtypeError, NotSampledError, ProblemError
from tilewright.core.files import check_outputs, json_kind
from tilewright.core.problem import Scalars
from tilewright.emulator.check import Checked, telling_shapes
from tilewright.emulator.program import load_runtime, worker_count
from tilewright.kernels import GROUPED, KERNELS, examples
from tilewright.kernels.config import parse_overrides
from tilewright.kernels.kernel import Kernel
from tilewright.runtime.device_errors import check_kernel_for_gpu
from tilewright.tools.bench import suites
from tilewright.tools.bench.case import CheckCase, in_words, supported_problem
from tilewright.tools.bench.check_cases import huge_cases, stages
from tilewright.tools.bench.check_runs import CheckJob, run_jobs
from tilewright.tools.bench.checking import NOTHING, Outcome, outcomes
from tilewright.tools.bench.verify import READS_C, check_memory
from tilewright.tools.cli import launches, options
from tilewright.tools.cli.progress import Steps
from tilewright.tools.cli.terminal import json_output, results, say, write_json
from tilewright.tools.report.fitted import Column, FittedTable

KIND = json_kind("findings of a check", "checked")

DEFAULT_ALPHA = 1.5
DEFAULT_BETAS = (0.0, 0.5)


def run_check(
    kernels: Annotated[
        list[str] | None,
        options.kernels_of(
            "Names, rung numbers, NAME:PRESET, or a source file, as in my_gemm.cu or my_gemm.cu:entry; "
            "missing_barrier is an example with a race in it. All kernels where none is given."
        ),
    ] = None,
    shape: options.Shapes = None,
    suite: options.Suites = None,
    config: options.Overrides = "",
    dtype: options.Factors = None,
    layout: options.Orders = None,
    batch_invariant: options.BatchInvariant = False,
    huge: Annotated[
        bool,
        typer.Option(
            "--huge",
            help="Matrices of more than 2^32 elements instead, whose indices no int holds, in little memory: small "
            "ones whose rows are far apart; with --shape, and where a kernel takes no leading dimensions, some blocks "
            "of large ones.",
        ),
    ] = False,
    alpha: Annotated[
        float | None, typer.Option(help="C = alpha * A @ B + beta * C. If left out, 1.5, or 1 where a kernel has none.")
    ] = None,
    beta: Annotated[
        float | None,
        typer.Option(
            help="If left out, both 0, which must not read C, and 0.5; of a source file 0.5, or 0 where it has none."
        ),
    ] = None,
    deadline: Annotated[
        float, typer.Option(min=1e-3, help="Seconds that a source file's kernel may take for one problem.")
    ] = 60.0,
    args: options.Args = "",
    grid: options.Grid = "",
    block: options.Block = "",
    shared: options.Shared = "",
    define: options.Define = None,
    reference: options.RefersTo = "",
    tolerance: Annotated[
        float | None,
        typer.Option(min=0, help="Relative error against --reference up to which floats are right: 1e-5 of float32."),
    ] = None,
    json_path: Annotated[Path | None, options.json_of("what was found here; - prints it")] = None,
) -> None:
    """Find races, accesses out of bounds and other faults of kernels, however right their results may be.

    All kernels, each on shapes of its own, k = 0 among them, and in several configs:  [bold]tilewright check[/]

    One of them where it matters:  [bold]tilewright check split_k:large --shape 200x300x1000[/]

    A kernel of your own:  [bold]tilewright check my_gemm.cu[/]. Its parameters say by their names what they are, and a
    line above it how it is launched: // tilewright: block=(32,32) grid=(ceil(N/32),ceil(M/32))

    The same where a matrix has more elements than an int counts:  [bold]tilewright check --huge my_gemm.cu[/]

    One that is no matrix product:  [bold]tilewright check scale.cu --args "x=float32\\[1000] y=out:float32\\[1000]
    n=1000" --grid "ceil(n/256)" --block 256[/]

    Needs no GPU: the emulator looks at every access of memory. Checked are races in shared and global memory, in the
    order that barriers give and not the one that threads happened to run in; asynchronous copies that nobody waited
    for; tiles that change while a warpgroup's products read them; stores that the copy engine or the tensor cores may
    not see yet; accesses outside of arrays or off their alignment; reads of uninitialised memory; barriers that part of
    a block skips; shuffles that read lanes that take no part; source files that NVRTC refuses; and that C is right, and
    the same whatever order threads run in. With --batch-invariant also that rows have the same bits when they are
    multiplied alone, and when the other rows hold NaN or large elements; where no kernel is named, of those that
    promise it.

    The exit status is 0 only if no fault was found. Stores of one value by several threads, with nothing that orders
    them, are a note and no fault.
    """
    check_outputs([json_output(json_path, KIND)])
    words = launches.Words(args, grid, block, shared, reference, config, define or ())
    of_products = {"--shape": shape, "--suite": suite, "--dtype": dtype, "--layout": layout, "--alpha": alpha}
    of_products |= {"--beta": beta, "--batch-invariant": batch_invariant, "--huge": huge}
    others = launches.launches(kernels or [], words, of_products)
    kernels = [name for name in kernels or [] if name.strip() not in others]
    named_some = bool(kernels or others)
    overrides = {} if others and not kernels else parse_overrides(config)
    named = [words.resolve(name) for name in kernels]
    if not named_some:
        named = [(one, {}) for one in (*KERNELS, *GROUPED) if dtype is None or dtype in one.support.factors]
    chosen = [(kernel, kernel.config({**preset, **overrides})) for kernel, preset in named]
    if batch_invariant and not named_some:
        chosen = [(kernel, setting) for kernel, setting in chosen if kernel.sums(setting).order is not None]
    for kernel, _ in chosen:
        if dtype is not None and dtype not in kernel.support.factors:
            raise DtypeError(f"{kernel.name} takes {', '.join(kernel.support.factors)}, got {dtype}")
    scalars = {kernel: _scalars(kernel, alpha, beta) for kernel, _ in chosen}
    named_problems = suites.problems(
        shape or [], suite or [], layouts=launches.own_orders(layout, [kernel for kernel, _ in chosen if kernels])
    )
    if huge and batch_invariant:
        raise ProblemError("--huge does not look at rows one by one: leave --batch-invariant out")
    for problem in () if huge else named_problems:
        check_memory(problem)
    jobs = []
    for kernel, setting in chosen:
        support, of = kernel.support, scalars[kernel]
        usual = "NN" if "NN" in support.layouts else support.layouts[0]
        own = [f"{m}x{n}x{k}" for m, n, k in telling_shapes(kernel, setting)]
        problems = named_problems or suites.problems(own, [], layouts=layout or [usual])
        typed = [supported_problem(kernel, problem, dtype or "") for problem in problems]
        if kernels:
            for problem in typed:
                kernel.check(problem)
        if named_problems:
            taken = [problem for problem in typed if kernel.why_not(problem) is None]
            cases = [[CheckCase(problem, one, setting, sampled=huge) for one in of for problem in taken]]
        elif huge:
            cases = [huge_cases(kernel, setting, of[-1:], dtype or "", layout or [usual])]
        else:
            cases = stages(kernel, setting, of, dtype or "", layout or (), setting == kernel.config())
            if batch_invariant:
                cases = cases[:2]  # the others are of configs that may promise nothing
        jobs.append(CheckJob(kernel, setting, cases, batch_invariant))
    jobs = [job for job in jobs if job.cases]
    started, shown = time.monotonic(), results(json_path)
    faulty, facts = 0, []
    load_runtime()  # compiled before several want it
    for launch in others.values():
        outcome = launches.check_in_subprocess(launch, deadline, tolerance)
        launches.show(outcome, shown)
        faulty += not outcome.clean
        facts.append(launches.facts(outcome))
    for job, found in _run(jobs, deadline):
        if isinstance(found, NotSampledError):
            if named_some:
                raise found
            _say_of(job.kernel, shown, f"left out: {found}")
            continue
        faulty += not _show(job, found, shown)
        facts.append(_facts(job, found))
    say(*_summary(len(facts), faulty, time.monotonic() - started), to=shown)
    for path in (examples()[job.kernel.name] for job in jobs if job.kernel.name in examples()):
        shown.print(f"The source is {path}: copy it, mend it, check the copy.", highlight=False, soft_wrap=True)
    write_json(json_path, {"checked": facts}, "what was found")
    raise typer.Exit(1 if faulty else 0)


def _scalars(kernel: Kernel, alpha: float | None, beta: float | None) -> list[Scalars]:
    """The scalars that a kernel is checked with. Where beta is 0, what is not ours may read C."""
    a = alpha if alpha is not None else DEFAULT_ALPHA if "alpha" in kernel.scalars else 1.0
    usual = DEFAULT_BETAS[kernel.is_user_kernel :] if "beta" in kernel.scalars else (0.0,)
    found = [options.finite_scalars(a, b) for b in (usual if beta is None else (beta,))]
    for one in found:
        kernel.check_scalars(one)
    return found


_one_thread = partial(threadpool_limits, 1, user_api="blas")
"""Has one thread compute NumPy's products: behind one, OpenBLAS's others look for more work for a while, so that a
small reference takes ten times the CPU time."""


def _run(jobs: list[CheckJob], deadline: float) -> Iterator[tuple[CheckJob, list[Outcome] | NotSampledError]]:
    """Check kernels side by side, and give their outcomes in their order, or why there are none."""
    total, done = sum(len(job.cases) for job in jobs), itertools.count(1)

    def run(job: CheckJob, cases: Sequence[CheckCase]) -> Iterator[Outcome]:
        if job.kernel.is_user_kernel:
            return _in_subprocess(job, cases, deadline)
        return outcomes(job.kernel, cases, job.rows)

    with _one_thread(), Steps() as steps:
        steps.begin("checking", total=total)

        def ended(job: CheckJob) -> None:
            steps.update(f"checked {job.kernel.name}", next(done), total)

        for job, found, error in run_jobs(jobs, run, worker_count(), ended):
            if error is not None and not isinstance(error, NotSampledError):
                raise error
            with steps.aside():
                yield job, error or found


def _in_subprocess(job: CheckJob, cases: Sequence[CheckCase], deadline: float) -> Iterator[Outcome]:
    """Outcomes of cases that run in a subprocess, since a user kernel may end the process, or never end itself: then no
    other problem is run, which would most likely do the same."""
    found = launches.answers(_answer, job.kernel, cases, job.rows, count=len(cases), deadline=deadline)
    for case, answer in zip(cases, found, strict=False):
        yield answer if isinstance(answer, Outcome) else Outcome(case, Checked(answer, NOTHING), 0.0, True)


def _answer(connection: Connection, kernel: Kernel, cases: Sequence[CheckCase], rows: bool) -> None:
    """Check a kernel in another process, once a GPU's compiler has read the source."""

    def compile_all() -> None:
        for config in dict.fromkeys(kernel.config(case.config) for case in cases):
            check_kernel_for_gpu(kernel, config)

    with _one_thread():
        launches.send_answers(connection, compile_all, outcomes(kernel, cases, rows))


def _say_of(kernel: Kernel, shown: Console, *words: str | tuple[str, str]) -> None:
    """A line that begins with a kernel's rung and name."""
    say(f"{kernel.rung or '':>3}  ", (f"{kernel.name:<16}", "bold"), "  ", *words, indent=5, to=shown)


def _show(job: CheckJob, results: list[Outcome], shown: Console) -> bool:
    """Print what came of one kernel; says whether all is well."""
    kernel, config = job.kernel, job.config
    clean = all(outcome.clean for outcome in results)
    _say_of(kernel, shown, launches.verdict(clean), "  ", (f"{config}", "dim"))
    notes = {note.key: note for outcome in reversed(results) for note in outcome.checked.notes}
    launches.show_notes(reversed(notes.values()), shown)
    if not clean:
        table = FittedTable(*(Column(heading, wraps=" ") for heading in ("fault", "on", "first seen")))
        for fault, what, seen in _faults(results):
            others = f"\nand {len(seen) - 1} more" if len(seen) > 1 else ""
            table.add_row(fault, f"{in_words(seen[0].case, kernel, config)}{others}", what)
        shown.print(table)
        if left := _left_out(job, results):
            say(f"cases that run once these faults are mended: {left}", indent=5, to=shown)
    return clean


def _left_out(job: CheckJob, results: list[Outcome]) -> int:
    """Cases of stages that did not begin, since one before them has found a fault."""
    return len(job.cases) - len(results) if len(job.stages) > 1 else 0


def _facts(job: CheckJob, results: list[Outcome]) -> dict[str, Any]:
    """Entry of a kernel in the JSON file: of each problem its error, faults and notes."""
    return {
        "kernel": job.kernel.name,
        "config": dict(job.config),
        "left_out": _left_out(job, results),
        "problems": [
            {
                "shape": one.case.problem.shape,
                "case": one.case.problem.case,
                "alpha": one.case.scalars.alpha,
                "beta": one.case.scalars.beta,
                "config": dict(one.case.config),
                "aligned_rows": one.case.problem.d.ld != one.case.problem.n,
                "leading_dimensions": [getattr(one.case.problem, name).ld for name in "abd"],
                "some_blocks": one.case.sampled,
                "multiprocessors": one.case.multiprocessors,
                "unfit": one.case.unfit,
                "values": one.case.values,
                "relative_error": one.error,
                "right": one.right,
                "findings": launches.finding_facts(one.checked.findings),
                "notes": launches.finding_facts(one.checked.notes),
            }
            for one in results
        ],
    }


def _faults(results: list[Outcome]) -> list[tuple[str, str, list[Outcome]]]:
    """Each fault once: its kind, what it is, and the results that it is in."""
    faults: dict[Any, tuple[str, str, list[Outcome]]] = {}
    for outcome in results:
        for one in outcome.checked.findings:
            faults.setdefault(one.key, (one.kind, launches.in_words(one), []))[2].append(outcome)
        if not outcome.right:
            why = f": {READS_C}" if outcome.reads_c else f": {outcome.wrong}" if outcome.wrong else ""
            error = f"the relative error against float64 is {outcome.error:.1e}{why}"
            faults.setdefault("result", ("wrong result", error, []))[2].append(outcome)
    return list(faults.values())


def _summary(kernels: int, faulty: int, seconds: float) -> tuple[str, tuple[str, str]]:
    subject = "1 kernel" if kernels == 1 else f"{kernels} kernels"
    outcome = (f"{faulty} faulty", "bold red") if faulty else ("nothing found", "bold green")
    return f"{subject} checked in {seconds:.1f} s: ", outcome
