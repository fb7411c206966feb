"""Options that several commands have: their types, and what they ask for."""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

from tilewright.api.engines import CHOICES
from tilewright.core.dtypes import DTYPES, FLOAT8
from tilewright.core.errors import ProblemError
from tilewright.core.problem import FAST, LAYOUTS, PRECISIONS, SCALINGS, Scalars, precision_of
from tilewright.kernels import KERNELS, examples
from tilewright.tools.bench import suites

Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="MxNxK", help="Sizes of A (M x K) and B (K x N). May be given several times."),
]
Suites = Annotated[
    list[str] | None,
    typer.Option("--suite", metavar="NAME", help=f"Lists of shapes: {', '.join(suites.shapes())}."),
]
Orders = Annotated[
    list[str] | None,
    typer.Option(
        "--layout",
        metavar="|".join(LAYOUTS),
        help="Orders of A and B: N row-major, T column-major. May be given several times. If left out, the suite's, or "
        "NN.",
    ),
]
Order = Annotated[
    str | None,
    typer.Option(
        "--layout",
        metavar="|".join(LAYOUTS),
        help="Orders of A and B: N row-major, T column-major. If left out, a source file's, or NN.",
    ),
]
Batch = Annotated[
    int | None, typer.Option("--batch", min=0, help="Products to compute at a time. If left out, the suite's, or 1.")
]
Factors = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        help=f"Element type of A and B: {', '.join(DTYPES)}. If left out, the first that a kernel takes.",
    ),
]
OutDtype = Annotated[
    str | None,
    typer.Option(
        "--out-dtype",
        metavar="|".join(DTYPES),
        help="Element type of the result and of C. If left out, float32, or where a kernel makes none, what A and B "
        "have.",
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        "--precision",
        metavar="|".join((*PRECISIONS, FAST)),
        help="What products of float32 factors promise: only kernels that keep it are taken. If left out, float32. "
        f"{FAST}: of float8 factors, sums of 13 bits.",
    ),
]
Scales = Annotated[
    str | None,
    typer.Option(
        "--scales",
        metavar="|".join(SCALINGS),
        help="Scales of float8 factors: one of each, of rows of A and columns of B, or of blocks of 128 of k.",
    ),
]
BatchInvariant = Annotated[
    bool,
    typer.Option(
        "--batch-invariant",
        help="Only kernels and configs by which a row has the same bits whatever M is and the other rows hold.",
    ),
]
EngineName = Annotated[str, typer.Option(metavar="|".join(CHOICES), help="Where to run. auto: a GPU if there is one.")]
Overrides = Annotated[
    str,
    typer.Option("--config", metavar="NAME=INTEGER,...", help="Parameters other than the defaults, as in BM=64,BN=64."),
]

Args = Annotated[
    str,
    typer.Option(
        "--args",
        metavar="NAME=VALUE ...|A,B,...",
        help="What a source file's parameters are: of a matrix product in their order, as in A,B,C,M,N,K; else by "
        "name, as in 'x=float32[1024,512] y=out:float32[1024,512] rows=1024'.",
    ),
]
Grid = Annotated[
    str,
    typer.Option("--grid", metavar="X,Y,Z", help="Blocks of a source file's kernel, which may follow from its sizes."),
]
Block = Annotated[str, typer.Option("--block", metavar="X,Y,Z", help="Threads of its blocks.")]
Shared = Annotated[str, typer.Option("--shared", metavar="BYTES", help="Its dynamic shared memory.")]
Define = Annotated[
    list[str] | None,
    typer.Option(
        "--define",
        metavar="NAME=VALUE,...",
        help="Macros of a source file, or arguments of its template, as in BM=64,T=half. May be given several times.",
    ),
]
RefersTo = Annotated[
    str,
    typer.Option(
        "--reference",
        metavar="FILE.py:FUNCTION",
        help="What it should write, in NumPy: called with the parameters that the function names.",
    ),
]


def json_of(what: str) -> Any:
    """--json, which writes this to a path."""
    return typer.Option("--json", metavar="PATH", help=f"Write {what}.")


def kernel_names(incomplete: str) -> list[str]:
    """Names of kernels that a shell may complete a word to."""
    names = (*(kernel.name for kernel in KERNELS), *examples())
    return [name for name in names if name.startswith(incomplete)]


def kernels_of(help_: str, metavar: str = "[KERNEL]...", names: Callable[[str], list[str]] = kernel_names) -> Any:
    """Kernels that a command is given; names: completes a word."""
    return typer.Argument(metavar=metavar, autocompletion=names, help=help_)


def promised(precision: str | None) -> str | None:
    """Precision of `--precision`, as `Arithmetic` has it.

    Raises:
        ProblemError: there is no such precision.
    """
    return FAST if precision == FAST else precision_of(precision)


def factor_type(dtype: str | None, promise: str | None, scales: str | None) -> str | None:
    """The element type of A and B that is asked for, if any: by name, or by a promise or scales that are of one."""
    if dtype is None and (promise or scales):
        return FLOAT8[0] if scales or promise == FAST else "float32"
    return dtype


def finite_scalars(alpha: float, beta: float) -> Scalars:
    """Scalars with which the product of random operands can be judged.

    Raises:
        ProblemError: float32 does not hold one of them.
    """
    float32 = np.finfo(np.float32)
    least, most = float(float32.tiny), float(float32.max)
    for name, value in (("alpha", alpha), ("beta", beta)):
        if value and not least <= abs(value) <= most:
            raise ProblemError(f"--{name} takes 0, or a number of {least:.1e} to {most:.1e} in magnitude, got {value}")
    return Scalars.checked(alpha, beta)
