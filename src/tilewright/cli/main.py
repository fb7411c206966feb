"""The command line's app: its commands, its messages for errors, its exit status."""

import sys
import warnings

import typer

from tilewright.cli.bench import run_bench
from tilewright.cli.check import run_check
from tilewright.cli.explain import run_explain
from tilewright.cli.info import run_info
from tilewright.cli.list import run_list
from tilewright.cli.report import run_report
from tilewright.cli.sass import run_sass
from tilewright.cli.terminal import notes
from tilewright.cli.tune import run_tune
from tilewright.errors import TilewrightError

app = typer.Typer(
    help="Matrix multiplication on GPUs, with kernels you can read, measure, explain and tune.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("list")(run_list)
app.command("info")(run_info)
app.command("bench")(run_bench)
app.command("check")(run_check)
app.command("report")(run_report)
app.command("explain")(run_explain)
app.command("sass")(run_sass)
app.command("tune")(run_tune)


def main() -> None:
    """Run the command line. Exit status: 0 for success, 1 for an error or a wrong result, 2 for wrong usage."""
    warnings.showwarning = lambda message, *_, **__: notes.print(f"[yellow]warning:[/] {message}", soft_wrap=True)
    try:
        app(prog_name="tilewright")
    except TilewrightError as error:
        notes.print("[bold red]error:[/]", end=" ")
        notes.print(str(error), markup=False, soft_wrap=True)
        sys.exit(1)
