"""The command of a study: `python -m studies.<study> measure --out FILE`, and `... write` where it has a page."""

import argparse
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec

from studies.record import Measurement, Measurements
from tilewright.api.engines import CHOICES, resolve_engine
from tilewright.core.errors import LaunchError, TilewrightError
from tilewright.core.files import Output, check_outputs
from tilewright.tools.bench.environment import environment
from tilewright.tools.bench.records import Record, Run

Measure = Callable[..., Iterable[Measurement | Record]]
"""Measures everything, on an engine and with the options of the command by their names."""


Arguments = ParamSpec("Arguments")
_STDERR = 2
"""Its file descriptor, where processes of their own print."""


def reporting(command: Callable[Arguments, int]) -> Callable[Arguments, int]:
    """A command that prints what errors say, and returns their exit status."""

    @functools.wraps(command)
    def reported(*arguments: Arguments.args, **named: Arguments.kwargs) -> int:
        try:
            return command(*arguments, **named)
        except (TilewrightError, ImportError, OSError) as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            return error.status if isinstance(error, TilewrightError) else 1

    return reported


@reporting
def run(
    study: str,
    about: str | None,
    measure: Measure | None = None,
    write: Callable[[], None] | None = None,
    options: Callable[[argparse.ArgumentParser], object] = lambda parser: None,
    arguments: Sequence[str] | None = None,
    kind: type[Measurements] | type[Run] = Measurements,
    fill: Callable[..., bool] | None = None,
) -> int:
    """Run the command of a study; returns the exit status: 1 where a result was wrong.

    Args:
        study: its package in the folder of studies.
        about: what it measures, for --help.
        measure: yields what was measured, each at once; the file is written anew after each.
        write: redraws the page, from the root of a checkout.
        options: adds options of the study.
        arguments: of the command; of this process if left out.
        kind: of the file: measurements, or records of `tilewright bench`.
        fill: in place of `measure`, measures several files into a folder, on an engine; whether all results were right.
    """
    parser = argparse.ArgumentParser(prog=f"python -m studies.{study}", description=about)
    verbs = parser.add_subparsers(dest="verb", required=True)
    if measure or fill:
        measuring = verbs.add_parser("measure", help="measure everything on this GPU")
        metavar = "FOLDER" if fill else "FILE"
        measuring.add_argument(
            "--out", type=Path, required=True, metavar=metavar, help="where measurements are written"
        )
        measuring.add_argument("--engine", choices=CHOICES, default="cuda", help="another one, to see that it works")
        options(measuring)
    if write:
        verbs.add_parser("write", help="redraw the page from the committed records")
    given = vars(parser.parse_args(arguments))
    if given.pop("verb") == "measure":
        if fill:
            return 0 if fill(resolve_engine(given.pop("engine")), given.pop("out"), **given) else 1
        assert measure
        return _measured(measure, kind, **given)
    if write:
        write()
    return 0


def _measured(measure: Measure, kind: type[Measurements] | type[Run], out: Path, engine: str, **options: Any) -> int:
    check_outputs([Output("--out", out, kind.kind())])
    ready = resolve_engine(engine)
    found: list[Measurement | Record] = []
    for one in measure(ready, **options):
        found.append(one)
        print(one if isinstance(one, Measurement) else _line(one), flush=True)
        name = "measurements" if kind is Measurements else "records"
        kind.model_validate({"environment": environment(ready), name: found}).save(out)
    return 0 if all(one.right if isinstance(one, Measurement) else one.verified for one in found) else 1


def _line(record: Record) -> str:
    beside = f", {record.baseline.name} {record.baseline.gflops:,.0f}" if record.baseline else ""
    wrong = "" if record.verified else "  WRONG"
    return f"{record.shape} {record.case}  {record.kernel}: {record.gflops:,.0f} GFLOP/s{beside}{wrong}"


def each(names: Iterable[str], measured: Callable[[str], Iterable[Measurement]]) -> Iterator[Measurement]:
    """Measurements of cases, one after the other. One that fails stops no other.

    Raises:
        LaunchError: cases failed; it names them.
    """
    failed = []
    for name in names:
        try:
            yield from measured(name)
        except TilewrightError as error:
            failed.append(f"{name}: {error}")
    if failed:
        raise LaunchError("; ".join(failed))


def in_a_process(study: str, options: Sequence[str], timeout: float | None = None) -> list[Measurement]:
    """Measurements of a command of a study in a subprocess, which prints to this one's standard error.

    Args:
        study: as of `run`.
        options: of its command `measure`.
        timeout: seconds that it may take.

    Raises:
        LaunchError: it failed, or did not end in time.
    """
    command = [f"studies.{study}", "measure", *options, "--out"]
    settings = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # JAX would take three quarters of the GPU's memory
    return in_processes(command, [settings], timeout)


def in_processes(
    command: Sequence[str], settings: Sequence[Mapping[str, str]], timeout: float | None
) -> list[Measurement]:
    """Measurements of the first of several processes.

    Args:
        command: a module and its arguments but for the last, a file for measurements. The files of all processes lie in
            a folder of their own.
        settings: further environment variables of each process.
        timeout: seconds that they may take.

    Raises:
        LaunchError: one failed, or did not end in time. None is left running.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{number}.json") for number in range(len(settings))]
        processes = [
            subprocess.Popen([sys.executable, "-m", *command, str(file)], env=os.environ | more, stdout=_STDERR)
            for file, more in zip(files, settings, strict=True)
        ]
        try:
            if any(process.wait(timeout) for process in processes):
                raise LaunchError("failed: see above")
        except subprocess.TimeoutExpired:
            raise LaunchError(f"did not end within {timeout:g} s") from None
        finally:
            for process in processes:
                process.kill()
                process.wait()
        return Measurements.load(files[0]).measurements
