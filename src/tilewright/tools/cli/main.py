"""The command line's app: its commands, its messages for errors, its exit status."""

import gc
import io
import os
import signal
import sys
import threading
import traceback
import warnings
from importlib import import_module
from types import ModuleType, TracebackType
from typing import Annotated, Any, NoReturn

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from tilewright import version
from tilewright.core.errors import TilewrightError
from tilewright.core.old_words import today
from tilewright.tools.cli.streams import notes, out, remark
from tilewright.tools.report.visible import visible

COMMANDS = ("list", "info", "bench", "check", "report", "explain", "sass", "tune", "warm", "new", "fault")
"""In the order of the help. `run_NAME` of the module NAME is the command."""


class _Command(TyperCommand):
    """A command whose options may have their old names."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {name for one in self.params for name in one.opts}
        return super().parse_args(ctx, [today(one, known) for one in args])


class _Commands(TyperGroup):
    """Imports a command when it is named: the others' modules take longer to import than small checks."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        if cmd_name not in COMMANDS:
            return None
        alone = typer.Typer(rich_markup_mode="rich", add_completion=False)
        alone.command(cmd_name, cls=_Command)(getattr(_imported(cmd_name), f"run_{cmd_name}"))
        command = get_command(alone)
        assert isinstance(command, TyperCommand)
        return command


def _imported(command: str) -> ModuleType:
    """A command's module. Nothing that imports leave is garbage, which would be looked for again and again."""
    if command == "check":  # one thread computes its references: others would wait for work, which takes time
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    collects = gc.isenabled()
    gc.disable()
    try:
        return import_module(f"tilewright.tools.cli.{command}")
    finally:
        if collects:
            gc.freeze()
            gc.enable()


app = typer.Typer(
    cls=_Commands,
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


def main() -> None:
    """Run the command line.

    Exit status: 0 for success, 1 for a failure, a wrong result or an output that its reader has closed, 2 for wrong
    usage, and as in a shell 130 after an interrupt and 143 after SIGTERM.
    """
    _open_streams()
    warnings.filterwarnings("default", ".* until 0.3", DeprecationWarning)
    warnings.showwarning = lambda message, *_, **__: remark("warning", "yellow", f"{message}")
    sys.excepthook = _show_traceback
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _end)
    try:
        try:
            app(prog_name="tilewright")
        finally:
            sys.stdout.flush()
    except TilewrightError as error:
        _fail(str(error), error.status)
    except BrokenPipeError:
        _drop_output()
        sys.exit(1)
    except OSError as error:
        _drop_output()
        _fail(": ".join(filter(None, (error.filename, error.strerror or str(error)))), 1)
    except ImportError as error:
        if "cannot allocate memory" not in str(error).lower() and "failed to map segment" not in str(error):
            raise
        _fail(f"memory is full: {error.name or 'a library'} cannot be loaded", 1)
    except MemoryError as error:
        _fail(f"memory is full: {error}" if str(error) else "memory is full", 1)


def _fail(message: str, status: int) -> NoReturn:
    remark("error", "bold red", message)
    sys.exit(status)


def _show_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A traceback, which may have other people's text in it, as the streams show all such."""
    text = visible("".join(traceback.format_exception(kind, error, trace)).rstrip())
    notes.print(Text(text), soft_wrap=True)


def _end(*_: object) -> NoReturn:
    """At SIGTERM: end as at an interrupt, so that nothing stays behind."""
    sys.exit(128 + signal.SIGTERM)


def _open_streams() -> None:
    """Have something behind all three standard streams, so that no file that is opened takes a closed one's place, and
    have them take any character."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123 for as long as the process lives
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Have what standard output still holds go nowhere, where it cannot be written: Python would try once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
