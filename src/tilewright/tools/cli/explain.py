"""The command line: `tilewright explain`."""

import math
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console

from tilewright.api.engines import present_gpu
from tilewright.core.dtypes import DTYPES, default_result
from tilewright.core.errors import ConfigError, ProblemError
from tilewright.core.files import Output, check_outputs, json_kind
from tilewright.core.gpus import GPUS, Gpu, find_gpu, gpu_named
from tilewright.core.problem import Arithmetic
from tilewright.kernels import BEST
from tilewright.kernels.config import parse_overrides
from tilewright.kernels.source.lines import Extents
from tilewright.select.selector import select
from tilewright.select.tables.store import device_of
from tilewright.tools.bench import ncu, suites
from tilewright.tools.bench.profile import of_launch
from tilewright.tools.cli import launches, options
from tilewright.tools.cli.streams import notes, remark
from tilewright.tools.cli.terminal import json_output, results, say, write_json
from tilewright.tools.explain.cost.occupancy import held
from tilewright.tools.explain.cost.prediction import predict
from tilewright.tools.explain.explanation import Explanation, explain, to_json, verdict
from tilewright.tools.explain.launch_explanation import explain_launch, launch_json, launch_verdict
from tilewright.tools.explain.scaling import DEVICES, Links, scaling
from tilewright.tools.explain.user_code import is_code, read_code
from tilewright.tools.report import explain_tables as tables
from tilewright.tools.report.figures import explained as figure
from tilewright.tools.report.measured import find_measured
from tilewright.tools.report.sass_tables import summary

KIND = json_kind("an explanation", "kernel", "shape", "gpu", "occupancy")
SCALING_KIND = json_kind("a prediction of several GPUs", "kernel", "shape", "gpu", "scaling")
LAUNCH_KIND = json_kind("an explanation of a launch", "kernel", "arguments", "gpu", "occupancy")
CODE_KIND = json_kind("an explanation of machine code", "kernel", "arch", "gpu", "occupancy")
T = TypeVar("T")
SHAPE = "4096x4096x4096"
GPU = "H200"
"""GPU that is explained for where this machine has none."""


def run_explain(
    kernel: Annotated[
        str,
        options.kernels_of(
            f"Name, rung number, NAME:PRESET, a source file, as in softmax.cu, or '{BEST}': what matmul takes.",
            "KERNEL",
        ),
    ],
    shape: Annotated[
        str, typer.Option(metavar="MxNxK", help=f"Sizes of A (M x K) and B (K x N). If left out, {SHAPE}.")
    ] = "",
    config: options.Overrides = "",
    alpha: Annotated[float, typer.Option(help="C = alpha * A @ B + beta * C.")] = 1.0,
    beta: Annotated[float, typer.Option(help="With 0, C is written and never read.")] = 0.0,
    dtype: options.Factors = None,
    precision: options.Precision = None,
    layout: options.Order = None,
    gpu: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"One of {', '.join(g.name for g in GPUS)}. This machine's, else {GPU}."),
    ] = None,
    devices: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="What the product takes N GPUs, and 1 to 64, instead: compute, memory and links of each."
        ),
    ] = None,
    link: Annotated[float, typer.Option(metavar="GB/S", help="With --devices: of a GPU's link in its host.")] = 450.0,
    network: Annotated[float, typer.Option(metavar="GB/S", help="The same of its share of the network.")] = 50.0,
    per_host: Annotated[int, typer.Option(metavar="N", help="With --devices: GPUs of a host.")] = 8,
    with_ncu: Annotated[
        bool, typer.Option("--ncu", help="Run it here under Nsight Compute too, and print both columns.")
    ] = False,
    json_path: Annotated[Path | None, options.json_of("all of it here; - prints it")] = None,
    deadline: Annotated[
        float, typer.Option(min=1e-3, help="Seconds that a source file's kernel may be run for.")
    ] = 60.0,
    args: options.Args = "",
    grid: options.Grid = "",
    block: options.Block = "",
    shared: options.Shared = "",
    define: options.Define = None,
    figure_path: Annotated[
        Path | None,
        typer.Option("--figure", metavar="PATH.svg", help="Draw here which lane touches what, in all memories."),
    ] = None,
) -> None:
    """Explain what a kernel does to a GPU: memory requests, bank conflicts, occupancy, roofline. Needs no GPU.

    Why the naive kernel is slow:          [bold]tilewright explain naive[/]

    A config on another GPU, at its size:  [bold]tilewright explain 6 --config BM=64,BN=64 --gpu L40S --shape 1024[/]

    What its lanes do, as a picture:       [bold]tilewright explain warptiled --figure warptiled.svg[/]

    What matmul would run on a GPU:        [bold]tilewright explain best --gpu H100 --shape 512x4096x4096[/]

    What any kernel of yours does:         [bold]tilewright explain softmax.cu --args "rows=4096"[/]

    What 8 GPUs make of it, and 1 to 64:   [bold]tilewright explain gemm_sm90 --devices 8 --link 450[/]

    The counters are those of NVIDIA's profiler, counted on the emulator from every access that the kernel makes.
    """
    of_products: dict[str, object] = {"--shape": shape, "--dtype": dtype, "--layout": layout, "--alpha": alpha != 1}
    of_products |= {"--beta": beta, "--devices": devices, "--ncu": with_ncu, "--figure": figure_path}
    of_products |= {"--precision": precision}
    if is_code(kernel):
        of_sources = {**of_products, "--args": args, "--grid": grid, "--define": define}
        if given := next((name for name, value in of_sources.items() if value), None):
            raise ConfigError(f"{given} is for sources: of {kernel}, which is compiled, only occupancy is explained")
        _explain_code(kernel, _gpu(gpu), block, shared or "0", json_path)
        return
    words = launches.Words(args, grid, block, shared, macros=config, define=define or ())
    others = launches.launches([kernel], words, of_products)
    if others:
        check_outputs([json_output(json_path, LAUNCH_KIND)])
        (launch,) = others.values()
        one = launches.explain_in_subprocess(explain_launch, launch, _gpu(gpu), deadline=deadline)
        _show(one, launch_verdict(one), results(json_path), "\n", (launches.arguments(launch), "dim"))
        write_json(json_path, launches.launch_facts(launch) | launch_json(one), "the explanation")
        return
    kind = KIND if devices is None else SCALING_KIND
    check_outputs([json_output(json_path, kind), Output("--figure", figure_path, figure.KIND)])
    where = _gpu(gpu)
    scalars = options.finite_scalars(alpha, beta)
    if kernel == BEST:
        if config:
            raise ConfigError(f"--config needs a kernel whose parameters it sets, got {config} for {BEST}")
        factors, promise = dtype or DTYPES[0], options.promised(precision)
        arithmetic = Arithmetic(factors, default_result(factors), promise)
        (problem,) = suites.problems([shape or SHAPE], [], arithmetic, layouts=[layout])
        chosen, values = select(problem, where.capability, device_of(where), adds_c=scalars.beta != 0)
    else:
        if precision:
            raise ProblemError(f"--precision is for '{BEST}': {kernel} keeps its own, got {precision}")
        chosen, preset = words.resolve(kernel)
        problem = launches.problem_for(chosen, shape or SHAPE, layout, dtype)
        chosen.check(problem)
        values = chosen.config({**preset, **parse_overrides(config)}, capability=where.capability)
    if devices is not None:
        if with_ncu or figure_path:
            raise ProblemError("--devices takes neither --ncu nor --figure: it predicts products of several GPUs")
        counts = tuple(sorted({*DEVICES, devices}))
        expected = partial(predict, chosen, values, gpu=where)
        shares = scaling(expected, problem, Links(link, network, per_host), counts)
        shown = results(json_path)
        say((chosen.name, "bold"), f" {values}\n{problem.shape} {problem.case}, on {where.name}s", to=shown)
        shown.print(tables.scaling_table(shares))
        facts = {"kernel": chosen.name, "shape": problem.shape, "gpu": where.name, "link_gb_s": link}
        facts |= {"network_gb_s": network, "per_host": per_host, "scaling": [asdict(one) for one in shares]}
        write_json(json_path, facts, "the prediction")
        return
    if with_ncu:
        ncu.check_available()
    if figure_path:
        figure.check(figure_path, problem)
    run = partial(launches.explain_in_subprocess, deadline=deadline) if chosen.is_user_kernel else _here
    explained = run(explain, chosen, values, problem, where, find_measured(chosen, values, problem, where), scalars)
    facts = to_json(explained)
    shown = results(json_path)
    _show(explained, verdict(explained), shown)
    if with_ncu:
        profiled = ncu.ProfiledLaunch.of(chosen, values, problem, scalars)
        (counted,) = ncu.profile([profiled])
        shown.print(tables.comparison_table(ncu.compare(facts, counted)))
        shown.print(tables.profile_table(of_launch(chosen, profiled, counted)))
        facts["ncu"] = counted
    write_json(json_path, facts, "the explanation")
    if figure_path:
        run(figure.write, explained, figure_path)
        notes.print(f"wrote {figure_path}", soft_wrap=True)


def _here(function: Callable[..., T], *arguments: Any) -> T:
    return function(*arguments)


def _show(one: tables.Explained, sentence: str, out: Console, *words: str | tuple[str, str]) -> None:
    """Print what is known of a launch; words: behind its heading."""
    say(tables.heading(one), *words, to=out)
    out.print()
    say((sentence, "bold green"), to=out)
    if not one.waves.blocks:
        return
    out.print()
    for table in (tables.traffic_table, tables.lines_table, tables.roofline_table):
        out.print(table(one))
    say(tables.roofline_words(one), to=out)
    out.print()
    out.print(tables.occupancy_table(one))
    say(tables.occupancy_words(one), to=out)
    if isinstance(one, Explanation) and one.traffic.extrapolated:
        exactly = "The pattern repeats, so they are exact." if one.traffic.exact else "They are an estimate."
        say(f"\nThe counts are extrapolated from {one.traffic.blocks_run} runs of a block. {exactly}", to=out)
    for note in one.notes:
        remark("note", "dim", note)


def _explain_code(place: str, gpu: Gpu, block: str, shared: str, json_path: Path | None) -> None:
    """Explain a kernel from its machine code alone, without its source."""
    check_outputs([json_output(json_path, CODE_KIND)])
    found, shown = read_code(place), results(json_path)
    extents = Extents("block", block, {})({}) if block else found.block
    if extents is None:
        raise ConfigError(f"{place} does not say how many threads a block has: give --block")
    (dynamic,) = Extents("shared", shared, {})({})[:1]
    one = held(found.code.report, gpu, math.prod(extents), dynamic)
    say((found.name, "bold"), f" for {found.arch}, on one {gpu.name}: blocks of {one.threads} threads", to=shown)
    say(summary(found.code, dynamic), to=shown)
    shown.print()
    shown.print(tables.occupancy_table(one))
    say(tables.warps_words(one.occupancy), to=shown)
    if not found.arch.startswith("sm_{}{}".format(*gpu.capability)):
        has = "{}.{}".format(*gpu.capability)
        remark("note", "dim", f"the code is for {found.arch}, and {gpu.name} has compute capability {has}")
    remark("note", "dim", "what it asks of memory is counted where there is a source")
    facts = {"kernel": found.name, "arch": found.arch, "gpu": gpu.name, "threads": one.threads}
    facts |= {"registers": one.report.registers, "spill_bytes": one.report.spill_bytes}
    facts |= {"shared_memory": one.shared_bytes, "occupancy": asdict(one.occupancy)}
    write_json(json_path, facts, "the explanation")


def _gpu(name: str | None) -> Gpu:
    """The GPU of this name, this machine's, or else the usual one."""
    if name is not None:
        return gpu_named(name)
    found = present_gpu()
    return find_gpu(*found) if found else gpu_named(GPU)
