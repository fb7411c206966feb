"""The command line: `tilewright sass`."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from tilewright.api.engines import present_gpu
from tilewright.core.errors import ConfigError
from tilewright.core.files import check_outputs, json_kind
from tilewright.core.gpus import limits
from tilewright.kernels.config import parse_overrides
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Variant
from tilewright.runtime.relayouts import as_read
from tilewright.tools.cli import launches, options
from tilewright.tools.cli.terminal import json_output, results, say, write_json
from tilewright.tools.explain.instruction_mix import access_widths, access_widths_by_line, count, warpgroup_products
from tilewright.tools.explain.machine_code import MachineCode, code_of
from tilewright.tools.explain.register_banks import bank_reads
from tilewright.tools.explain.user_code import is_code, read_code
from tilewright.tools.report.sass_tables import listing, mix_table, multiply_share, summary, widths_table

KIND = json_kind("counts of machine code", "kernel", "arch", "main_loop", "listing")
SHAPE = "4096x4096x4096"
ARCH = "sm_90a"
"""Architecture that code is made for where this machine has no GPU."""


def run_sass(
    kernel: Annotated[
        str,
        options.kernels_of("Name, rung number, NAME:PRESET, or a .cu, .ptx or .cubin.", "KERNEL"),
    ],
    config: options.Overrides = "",
    arch: Annotated[
        str | None,
        typer.Option(metavar="sm_NN", help=f"What to compile for: this machine's GPU if left out, else {ARCH}."),
    ] = None,
    shape: Annotated[
        str,
        typer.Option(metavar="MxNxK", help="Decides which guards the code has: for edges, for unaligned rows."),
    ] = SHAPE,
    dtype: options.Factors = None,
    layout: options.Order = None,
    args: options.Args = "",
    grid: options.Grid = "",
    block: options.Block = "",
    shared: options.Shared = "",
    define: options.Define = None,
    show_listing: Annotated[bool, typer.Option("--listing", help="Print the machine code too.")] = False,
    show_ptx: Annotated[bool, typer.Option("--ptx", help="Print the PTX instead, the compiler's step before.")] = False,
    json_path: Annotated[Path | None, options.json_of("counts, widths and the listing here; - prints them")] = None,
) -> None:
    """Show the machine code that a kernel becomes: instruction mix, widest loads and stores, main loop.

    What the compiler made of a rung:           [bold]tilewright sass vectorized[/]

    With guards for edges, for an RTX 4090:     [bold]tilewright sass 10 --shape 1000x1001x1002 --arch sm_89[/]

    What Triton made, or another compiler:      [bold]tilewright sass kernel.cubin[/]

    The code itself, its main loop marked:      [bold]tilewright sass warptiled --listing[/]

    Needs no GPU, but NVIDIA's disassembler: [bold]pip install 'nvidia-cuda-nvdisasm==13.*'[/]. --ptx without --json
    does without.
    """
    check_outputs([json_output(json_path, KIND)])
    out = results(json_path)
    if is_code(kernel):
        if config or dtype or layout or show_ptx or define:
            raise ConfigError(f"{kernel} is compiled: it takes --arch, --listing and --json")
        found = read_code(kernel, arch)
        facts: dict[str, Any] = {"kernel": found.name, "arch": found.arch, "block": found.block}
        _show(found.name, f"for {found.arch}", found.code, 0, out, show_listing)
        write_json(json_path, facts | _code_facts(found.code, 0), "the counts")
        return
    from tilewright.runtime import nvrtc  # noqa: PLC0415 loading it takes a fifth of a second

    of_products: dict[str, object] = {"--shape": shape != SHAPE, "--dtype": dtype, "--layout": layout}
    words = launches.Words(args, grid, block, shared, macros=config, define=define or ())
    present = present_gpu()
    target = arch or (limits(present[1]).arch if present else ARCH)
    if launch := words.code(kernel, of_products):
        _check_arch(target, nvrtc.architectures())
        source = launch.file, launch.entry, launch.defines, target
        name, what, shared_bytes = launch.name, f"for {target}", launch.shared_bytes if launch.has_geometry else 0
        facts = {"kernel": name, "config": launch.macros, "arch": target}
        compiled, ptx = partial(nvrtc.compile_user_source, *source), partial(nvrtc.user_source_ptx, *source)
    else:
        chosen, preset = words.resolve(kernel)
        capability = _capability(target)
        problem = launches.problem_for(chosen, shape, layout, dtype)
        chosen.check(problem, capability)
        _check_arch(target, nvrtc.architectures(), chosen)
        values = chosen.config({**preset, **parse_overrides(config)}, capability=capability)
        variant = chosen.variant(as_read(chosen, values, problem), values)
        shared_bytes = chosen.shared_bytes(values, variant.layout)
        name, what = chosen.name, f"{values} for {target}: {_guards(chosen, variant)}"
        facts = {"kernel": name, "config": dict(values), "arch": target, "dtype": variant.factors}
        facts |= {"edges": variant.edges, "aligned": variant.aligned}
        made_for = chosen, values, variant, target
        compiled, ptx = partial(nvrtc.compile, *made_for), partial(nvrtc.ptx, *made_for)
    if json_path or not show_ptx:
        code = code_of(compiled())
        write_json(json_path, facts | _code_facts(code, shared_bytes), "the counts")
    if show_ptx:
        out.print(ptx(), highlight=False, soft_wrap=True)
    else:
        _show(name, what, code, shared_bytes, out, show_listing)


def _show(name: str, what: str, code: MachineCode, shared: int, out: Console, show_listing: bool) -> None:
    say((name, "bold"), f" {what}", to=out)
    say(summary(code, shared), to=out)
    out.print(mix_table(code))
    out.print(widths_table(code))
    if show_listing:
        for line in listing(code):
            out.print(line, highlight=False, soft_wrap=True)


def _capability(arch: str) -> tuple[int, int]:
    """The compute capability of an architecture: 'sm_90a' is that of (9, 0)."""
    match = re.fullmatch(r"sm_(\d+)(\d)[af]?", arch)
    if not match:
        raise ConfigError(f"arch must read sm_NN, as in sm_80 or {ARCH}, got {arch!r}")
    return int(match[1]), int(match[2])


def _check_arch(arch: str, known: Sequence[str], kernel: Kernel | None = None) -> None:
    """Raise ConfigError unless an architecture is one of those that the compiler knows, and has a kernel's
    instructions."""
    if arch.rstrip("af") not in known:
        raise ConfigError(f"arch must be one that the compiler knows, {', '.join(known)}, got {arch}")
    own = kernel.support.architectures if kernel else ()
    if kernel and own and arch not in own:
        needed = ", ".join(own)
        raise ConfigError(f"arch must be {needed} for {kernel.name}, whose instructions others lack, got {arch}")


def _guards(kernel: Kernel, variant: Variant) -> str:
    if not kernel.has_variants:  # it says itself what it guards
        return variant.factors
    edges = "with guards for edges" if variant.edges else "without guards, since tiles divide the matrices"
    rows = "rows are aligned" if variant.aligned else "rows need not be aligned"
    return f"{variant.factors}, {edges}; {rows}"


def _code_facts(code: MachineCode, dynamic_shared_bytes: int) -> dict[str, Any]:
    """Entry of machine code in the JSON file. Counts are by purpose and opcode, widths by kind and bytes."""

    def parts(instructions: tuple[Any, ...]) -> dict[str, Any]:
        mix, widths = count(instructions), access_widths(instructions)
        return {"instructions": len(instructions), "mix": mix, "access_widths": widths}

    loop: dict[str, Any] | None = None
    if code.main_loop:
        opcodes, share = multiply_share(code.main_loop)
        addresses = {"first": code.main_loop[0].address, "last": code.main_loop[-1].address}
        loop = addresses | parts(code.main_loop) | {"multiplies_with": opcodes, "multiply_share": share}
        loop["register_banks"] = bank_reads(code.main_loop)._asdict()
        loop["warpgroup_products"] = warpgroup_products(code.main_loop)._asdict()
    return {
        "registers": code.report.registers,
        "spill_bytes": code.report.spill_bytes,
        "shared_bytes": (code.report.shared_bytes or 0) + dynamic_shared_bytes,
        "remarks": list(code.remarks),
        "whole": parts(code.instructions),
        "access_widths_by_line": [
            {"file": line.file, "line": line.line, "access_widths": widths}
            for line, widths in access_widths_by_line(code.instructions).items()
        ],
        "main_loop": loop,
        "listing": [
            {
                **{name: getattr(one, name) for name in ("address", "predicate", "opcode", "operands")},
                "source": one.source._asdict() if one.source else None,
            }
            for one in code.instructions
        ],
    }
