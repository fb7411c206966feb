"""Compares tilewright in frameworks with these alone.

Each framework runs in a process of its own, since they do not share a GPU's memory well.
"""

import importlib
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

from studies.record import Measurement, Measurements
from tilewright.core.errors import TilewrightError
from tilewright.engines.base import Engine

RUNS = {
    "torch": ("of_torch", "comparisons"),
    "torch-bfloat16": ("of_torch", "trainings_in_bf16"),
    "jax": ("of_jax", "comparisons"),
    "cupy": ("of_cupy", "comparisons"),
}
"""By what --framework calls them: the module of this package, and its function."""


def options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--framework", choices=RUNS, action="append", help="default: all")


def measurements(engine: Engine, given: Namespace) -> Iterator[Measurement]:
    """The comparisons of a framework; of several, each from a process of its own."""
    names = given.framework or list(RUNS)
    if len(names) == 1:
        module, function = RUNS[names[0]]
        yield from getattr(importlib.import_module(f"studies.frameworks.{module}"), function)()
        return
    for name in names:
        yield from _in_a_process(name)


def _in_a_process(name: str) -> list[Measurement]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "comparisons.json"
        command = [sys.executable, "-m", "studies.frameworks", "measure", "--framework", name, "--out", str(file)]
        settings = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # JAX would take three quarters of the GPU's memory
        # What it prints as it goes is progress: the command prints all of it when the process has ended.
        if subprocess.run(command, env=os.environ | settings, stdout=sys.stderr, check=False).returncode:
            raise TilewrightError(f"the comparison with {name} failed: see above")
        return Measurements.load(file).measurements
