"""Compares what float32 products may be computed in: `python -m studies.precisions measure --out FILE`.

PyTorch's, tilewright's, JAX's and Triton's ways take turns in one process; JAX and Triton where they are installed.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from studies.record import Measurement
from studies.runner import run
from tilewright.engines.base import Engine

PARTS = ("speeds", "hostile")


def options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--part", choices=PARTS, action="append", help="default: both")


def measurements(engine: Engine, given: Namespace) -> Iterator[Measurement]:
    """Speeds and errors on normal inputs, and errors on hostile ones."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take three quarters of the memory
    from studies.precisions import measuring  # noqa: PLC0415 - imports PyTorch, which may be missing

    scale, parts = measuring.H200, given.part or PARTS
    if "speeds" in parts:
        ways = measuring.all_ways()
        for shape in scale.shapes:
            yield from measuring.choices(scale, ways, shape)
    if "hostile" in parts:
        for k in scale.depths:
            yield from measuring.hostile_cases(scale, k)


if __name__ == "__main__":
    sys.exit(run("precisions", __doc__, measurements, options=options))
