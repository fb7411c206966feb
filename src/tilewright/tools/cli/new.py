"""The command line: `tilewright new`."""

import re
from pathlib import Path
from typing import Annotated

import typer

from tilewright.core.errors import KernelNotFoundError, PathError
from tilewright.core.files import write_whole
from tilewright.kernels.source.lines import SUFFIX
from tilewright.kernels.source.products import START
from tilewright.tools.cli.streams import out


def run_new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the kernel; NAME.cu is written in this folder.")],
) -> None:
    """Write a kernel to begin with: one that is right, and that check, explain, bench, tune and sass take as it is.

    A start, and what is wrong with it, if anything:  [bold]tilewright new my_gemm; tilewright check my_gemm.cu[/]
    """
    name = name.removesuffix(SUFFIX)
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise KernelNotFoundError(f"a kernel's name must be letters, digits and _, as in my_gemm; got {name!r}")
    path = Path(name + SUFFIX)
    if path.exists():
        raise PathError(f"{path} is there already")
    write_whole(path, re.sub(r"\bstart\b", name, START.read_text(encoding="utf-8")).encode())
    out.print(f"wrote {path}: next, tilewright check {path}", soft_wrap=True)
