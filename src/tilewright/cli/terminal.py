"""What the commands share: two streams to print to, one for results, one for notes and progress; and options."""

from typing import Annotated

import typer
from rich.console import Console

from tilewright.bench import suites
from tilewright.engines.registry import CHOICES

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
EngineName = Annotated[str, typer.Option(metavar="|".join(CHOICES), help="Where to run. auto: a GPU if there is one.")]
