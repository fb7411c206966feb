"""The command line: `tilewright new`."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from tilewright.core.errors import ConfigError, KernelNotFoundError, PathError
from tilewright.core.files import write_whole
from tilewright.kernels import resolve
from tilewright.kernels.config import parse_overrides
from tilewright.kernels.kernel import RUNG_ARGUMENTS, Kernel
from tilewright.kernels.source.lines import SUFFIX
from tilewright.kernels.source.products import START
from tilewright.tools.cli import options
from tilewright.tools.cli.streams import out


def run_new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the kernel; NAME.cu is written in this folder.")],
    rung: Annotated[
        str,
        typer.Option("--from", metavar="RUNG", help="A copy of this rung of the course, 1 to 14 or 19, to be changed."),
    ] = "",
    config: options.Overrides = "",
) -> None:
    """Write a kernel to begin with: one that is right, and that check, explain, bench, tune and sass take as it is.

    A start, and what is wrong with it, if anything:  [bold]tilewright new my_gemm; tilewright check my_gemm.cu[/]

    For the exercises of the course:  [bold]tilewright new mine --from naive[/]

    A copy with another config:       [bold]tilewright new mine --from thread_tiled_1d --config TM=1,TN=4,BK=16[/]
    """
    name = name.removesuffix(SUFFIX)
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise KernelNotFoundError(f"a kernel's name must be letters, digits and _, as in my_gemm; got {name!r}")
    path = Path(name + SUFFIX)
    if path.exists():
        raise PathError(f"{path} is there already")
    values = parse_overrides(config)
    if values and not rung:
        raise ConfigError("--config is for a copy of a rung: it takes --from too")
    text = _copy_of(*resolve(rung), values) if rung else re.sub(r"\bstart\b", name, START.read_text(encoding="utf-8"))
    write_whole(path, text.encode())
    out.print(f"wrote {path}: next, tilewright check {path}", soft_wrap=True)


def _copy_of(kernel: Kernel, preset: Mapping[str, int], overrides: Mapping[str, int]) -> str:
    """A rung's source behind lines that say how it is launched, with one config.

    Raises:
        KernelNotFoundError: lines cannot say that.
        ConfigError: the rung has no such config.
    """
    if kernel.arguments != RUNG_ARGUMENTS or kernel.schedule:
        raise KernelNotFoundError(
            f"--from takes a rung without tensor maps, 1 to 14 or 19, as in --from naive, got {kernel.name}"
        )
    config = kernel.config({**preset, **overrides})
    tile, macros = kernel.tile(config), {**config, **kernel.constants(config)}
    words = [f"block=({','.join(map(str, kernel.block(config)))})", f"grid=ceil(M/{tile.m})*ceil(N/{tile.n})"]
    words += [f"tile=({tile.m},{tile.n},{max(tile.k, 8)})"]
    if shared := kernel.shared_bytes(config, "NN"):
        words.append(f"shared={shared}")
    lines = [f"// tilewright: {' '.join(words)} edges=EDGES aligned=ALIGNED"]
    lines += [f"#define {name} {value}" for name, value in macros.items()]
    return "\n".join([*lines, kernel.source.read_text(encoding="utf-8")])
