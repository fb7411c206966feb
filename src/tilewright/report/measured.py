"""What was measured of a launch: from the tables that ship, and in a checkout from the records in results/."""

import itertools
from collections.abc import Iterator
from pathlib import Path

from tilewright import version
from tilewright.analysis.explanation import Measured
from tilewright.bench.records import Run
from tilewright.errors import RecordsError
from tilewright.gpus import Gpu, find_gpu
from tilewright.kernels.old_configs import upgraded
from tilewright.kernels.spec import Config, Kernel
from tilewright.problem import Problem
from tilewright.tables import store
from tilewright.tables.cases import timed_case

RESULTS = Path(version.__file__).parents[2] / "results"
"""Of a checkout; an installed package has none."""


def find_measured(
    kernel: Kernel, config: Config, problem: Problem, gpu: Gpu, results: Path = RESULTS
) -> Measured | None:
    """The speed of a launch on a GPU of this product; None where it was not measured.

    Alpha, beta and what the problem promises are not compared: they make no difference that shows next to a product.
    """
    return next(
        itertools.chain(_of_records(kernel, config, problem, gpu, results), _of_tables(kernel, config, problem, gpu)),
        None,
    )


def _of_records(kernel: Kernel, config: Config, problem: Problem, gpu: Gpu, results: Path) -> Iterator[Measured]:
    for path in sorted(results.glob("*/*.json")):
        try:
            run = Run.load(path)
        except RecordsError:
            continue  # a file of another kind
        facts = run.environment.get("gpu")
        if not facts or not _is(gpu, str(facts.get("name")), str(facts.get("compute_capability"))):
            continue
        for record in run.records:
            same = (record.shape, timed_case(record.problem)) == (problem.shape, timed_case(problem))
            named = (record.picked or record.kernel) == kernel.name
            if same and named and record.verified and upgraded(kernel.name, record.config) == config:
                yield Measured(record.gflops, f"{path.parent.name}/{path.name}")


def _of_tables(kernel: Kernel, config: Config, problem: Problem, gpu: Gpu) -> Iterator[Measured]:
    for table in store.shipped():
        if not _is(gpu, table.gpu, "{}.{}".format(*table.capability)):
            continue
        for entry in table.entries:
            same = entry.problem == (problem.m, problem.n, problem.k, problem.batch, timed_case(problem))
            if same and entry.kernel == kernel.name and entry.config == dict(config):
                yield Measured(entry.gflops, f"the tuned table of an {table.gpu}")


def _is(gpu: Gpu, device_name: str, capability: str) -> bool:
    """Whether a driver's name is one of this product's."""
    major, _, minor = capability.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        return False
    return find_gpu(device_name, (int(major), int(minor))).name == gpu.name
