"""The command of a study: `python -m studies.<study> measure --out FILE`, and `... write` where it has a page."""

import argparse
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ParamSpec

from studies.record import Measurement, Measurements
from tilewright.bench.environment import environment
from tilewright.core.errors import LaunchError, TilewrightError
from tilewright.core.files import Output, check_outputs
from tilewright.engines.base import Engine
from tilewright.engines.registry import resolve_engine

Measure = Callable[[Engine, argparse.Namespace], Iterable[Measurement]]
"""Measures everything, on an engine and with the options of the command."""


Arguments = ParamSpec("Arguments")


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
) -> int:
    """Run the command of a study; returns the exit status: 1 where a result was wrong.

    Args:
        study: its package in the folder of studies.
        about: what it measures, for --help.
        measure: yields what was measured, each at once; the file is written anew after each.
        write: redraws the page, from the root of a checkout.
        options: adds options of the study.
        arguments: of the command; of this process if left out.
    """
    parser = argparse.ArgumentParser(prog=f"python -m studies.{study}", description=about)
    verbs = parser.add_subparsers(dest="verb", required=True)
    if measure:
        on_gpu = verbs.add_parser("measure", help="measure everything on this GPU")
        on_gpu.add_argument("--out", type=Path, required=True, metavar="FILE", help="where measurements are written")
        options(on_gpu)
    if write:
        verbs.add_parser("write", help="redraw the page from the committed records")
    given = parser.parse_args(arguments)
    if given.verb == "measure" and measure:
        return _measured(measure, given)
    if write:
        write()
    return 0


def _measured(measure: Measure, given: argparse.Namespace) -> int:
    check_outputs([Output("--out", given.out, Measurements.kind())])
    engine = resolve_engine("cuda")
    found: list[Measurement] = []
    for one in measure(engine, given):
        found.append(one)
        print(one, flush=True)
        Measurements(environment=environment(engine), measurements=found).save(given.out)
    return 0 if all(one.right for one in found) else 1


def in_a_process(study: str, options: Sequence[str], timeout: float | None = None) -> list[Measurement]:
    """What a command of a study measures in a process of its own, which prints to this one's standard error.

    Args:
        study: as of `run`.
        options: of its command `measure`.
        timeout: seconds that it may take.

    Raises:
        LaunchError: it failed, or did not end in time.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "measurements.json"
        command = [sys.executable, "-m", f"studies.{study}", "measure", "--out", str(file), *options]
        settings = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # JAX would take three quarters of the GPU's memory
        try:
            ran = subprocess.run(command, env=os.environ | settings, stdout=sys.stderr, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise LaunchError(f"did not end within {timeout:g} s") from None
        if ran.returncode:
            raise LaunchError("failed: see above")
        return Measurements.load(file).measurements
