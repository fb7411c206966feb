"""The command line's app: its commands, its messages for errors, its exit status."""

import os
import sys
import warnings
from typing import Annotated, NoReturn

import typer

from tilewright import version
from tilewright.cli.bench import run_bench
from tilewright.cli.check import run_check
from tilewright.cli.explain import run_explain
from tilewright.cli.info import run_info
from tilewright.cli.list import run_list
from tilewright.cli.new import run_new
from tilewright.cli.report import run_report
from tilewright.cli.sass import run_sass
from tilewright.cli.terminal import notes, out
from tilewright.cli.tune import run_tune
from tilewright.errors import TilewrightError

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(f"tilewright {version.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def run_app(
    shown: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Matrix multiplication on GPUs, with kernels you can read, measure, explain and tune."""


app.command("list")(run_list)
app.command("info")(run_info)
app.command("bench")(run_bench)
app.command("check")(run_check)
app.command("report")(run_report)
app.command("explain")(run_explain)
app.command("sass")(run_sass)
app.command("tune")(run_tune)
app.command("new")(run_new)


def main() -> None:
    """Run the command line. Exit status: 0 for success, 1 for a failure or a wrong result, 2 for wrong usage."""
    warnings.showwarning = lambda message, *_, **__: notes.print(f"[yellow]warning:[/] {message}", soft_wrap=True)
    try:
        try:
            app(prog_name="tilewright")
        finally:
            sys.stdout.flush()
    except TilewrightError as error:
        _fail(str(error), error.status)
    except OSError as error:
        _drop_output()
        _fail(": ".join(filter(None, (error.filename, error.strerror or str(error)))), 1)
    except MemoryError as error:
        _fail(f"memory is full: {error}" if str(error) else "memory is full", 1)


def _fail(message: str, status: int) -> NoReturn:
    notes.print("[bold red]error:[/]", end=" ")
    notes.print(message, markup=False, soft_wrap=True)
    sys.exit(status)


def _drop_output() -> None:
    """Have what standard output still holds go nowhere, where it cannot be written: Python would try once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
