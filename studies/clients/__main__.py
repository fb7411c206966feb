"""Runs programs with each way to multiply: `python -m studies.clients measure EXAMPLES --out FILE`.

EXAMPLES is the folder examples/ of a checkout, which has the solvers.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

from studies.record import Measurement
from studies.runner import run
from tilewright.engines.base import Engine


def options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("examples", type=Path, metavar="EXAMPLES", help="the folder with torch_cholesky.py")


def measurements(engine: Engine, given: Namespace) -> Iterator[Measurement]:
    """Every program with every way."""
    from studies.clients import measuring  # noqa: PLC0415 - imports PyTorch, which may be missing

    yield from measuring.outcomes(given.examples)


if __name__ == "__main__":
    sys.exit(run("clients", __doc__, measurements, options=options))
