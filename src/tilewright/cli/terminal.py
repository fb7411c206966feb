"""What the commands share: two streams to print to, one for results, one for notes and progress; and options."""

from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from tilewright.bench import suites
from tilewright.engines.registry import CHOICES
from tilewright.problem import DTYPES, LAYOUTS
from tilewright.report.fitted import wrapped

out = Console()
notes = Console(stderr=True, highlight=False)

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
Batch = Annotated[
    int | None, typer.Option("--batch", min=0, help="Products to compute at a time. If left out, the suite's, or 1.")
]
OutDtype = Annotated[
    str, typer.Option("--out-dtype", metavar="|".join(DTYPES), help="Element type of the result and of C.")
]
EngineName = Annotated[str, typer.Option(metavar="|".join(CHOICES), help="Where to run. auto: a GPU if there is one.")]


def say(text: str, markup: bool = True, indent: int = 0) -> None:
    """Print lines of results, wrapped between words and between the parameters of a config, then indented."""
    for line in wrapped(Text.from_markup(text) if markup else Text(text), out.width, indent):
        out.print(line, highlight=False, soft_wrap=True)
