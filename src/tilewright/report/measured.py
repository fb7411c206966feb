"""What was measured of a launch: from the tables that ship, and in a checkout from the records in results/."""

import itertools
from collections.abc import Iterator
from functools import lru_cache
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

_Launch = tuple[str, str, str]
"""Shape, case and kernel."""
_Verified = dict[_Launch, list[tuple[dict[str, int], float]]]


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
    launch = problem.shape, timed_case(problem), kernel.name
    for path in sorted(results.glob("*/*.json")):
        device, records = _verified(path, path.stat().st_mtime_ns)
        if device and _is(gpu, *device):
            for of, gflops in records.get(launch, ()):
                if upgraded(kernel.name, of) == config:
                    yield Measured(gflops, f"{path.parent.name}/{path.name}")


@lru_cache(maxsize=1024)
def _verified(path: Path, _changed: int) -> tuple[tuple[str, str] | None, _Verified]:
    """Of a file of records, name and compute capability of the GPU, and the configs and speeds of each launch that was
    verified; None for a file of another kind."""
    try:
        run = Run.load(path)
    except RecordsError:
        return None, {}
    facts = run.environment.get("gpu")
    if not facts:
        return None, {}
    found: _Verified = {}
    for one in run.records:
        if one.verified:
            launch = one.shape, timed_case(one.problem), one.picked or one.kernel
            found.setdefault(launch, []).append((one.config, one.gflops))
    return (str(facts.get("name")), str(facts.get("compute_capability"))), found


def _of_tables(kernel: Kernel, config: Config, problem: Problem, gpu: Gpu) -> Iterator[Measured]:
    posed = problem.m, problem.n, problem.k, problem.batch, timed_case(problem)
    for table in store.shipped():
        if not _is(gpu, table.gpu, "{}.{}".format(*table.capability)):
            continue
        for entry in table.entries:
            if entry.kernel == kernel.name and entry.problem == posed and entry.config == dict(config):
                yield Measured(entry.gflops, f"the tuned table of an {table.gpu}")


def _is(gpu: Gpu, device_name: str, capability: str) -> bool:
    """Whether a driver's name is one of this product's."""
    major, _, minor = capability.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        return False
    return find_gpu(device_name, (int(major), int(minor))).name == gpu.name
