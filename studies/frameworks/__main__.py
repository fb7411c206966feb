"""Compares tilewright in frameworks with these alone: `python -m studies.frameworks measure --out FILE`, or `write`.

Each framework runs in a process of its own, since they do not share a GPU's memory well.
"""

import importlib
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence

from studies.record import Measurement
from studies.runner import in_a_process, run
from tilewright.runtime.base import Engine

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


def measurements(engine: Engine, framework: Sequence[str] | None) -> Iterator[Measurement]:
    """The comparisons of a framework; of several, each from a process of its own."""
    names = framework or list(RUNS)
    if len(names) == 1:
        module, function = RUNS[names[0]]
        yield from getattr(importlib.import_module(f"studies.frameworks.{module}"), function)()
        return
    for name in names:
        yield from in_a_process("frameworks", ["--framework", name])


def write() -> None:
    """Redraw the page."""
    from studies.frameworks import page  # noqa: PLC0415 - templates, which a measurement does not need

    page.write()


if __name__ == "__main__":
    raise SystemExit(run("frameworks", __doc__, measurements, write, options))
