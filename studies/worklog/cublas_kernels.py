"""Kernels that cuBLAS runs for square products of float32, their grids, and how long a call takes: of the ladder's
records, and of a sweep of sizes."""

import re
from collections.abc import Iterator

from studies import published
from studies.record import Measurement, Measurements
from studies.results import path
from studies.templates import block
from tilewright.core.problem import Problem
from tilewright.runtime.base import Engine
from tilewright.tools.bench.measure import BaselineLibrary, operand_sets
from tilewright.tools.bench.records import Baseline, Run, Times
from tilewright.tools.bench.verify import Operands

SIZES = tuple(range(64, 4097, 64))
"""m = n = k of the sweep."""
_TEMPLATE = "worklog/sources.md.j2"


def sweep(engine: Engine, library: BaselineLibrary, samples: int) -> Iterator[Measurement]:
    """Each of a library's ways to compute each square of SIZES: microseconds of a call, and the kernels it launches."""
    for size in SIZES:
        problem = Problem.parse(f"{size}")
        sets = operand_sets(engine, Operands.draw(problem))
        works = library.works(problem, sets)
        times = engine.time(list(works.values()), samples, rotation=len(sets))
        for (way, work), sampled in zip(works.items(), times, strict=True):
            facts = {"kernels": [one.model_dump() for one in library.kernels(work)]}
            yield Measurement(what={"size": size}, way=way, us=Times.of(sampled).median, facts=facts)


def table(run: Run) -> str:
    """A table of the kernels that cuBLAS ran next to the rungs in float32, with their grids and the time of a call, and
    of the tiles that it had on an A6000."""
    ours: dict[int, Baseline] = {}
    for one in run.records:
        if one.m == one.n == one.k and one.baseline and one.baseline.kernels and one.baseline_arithmetic == "float32":
            ours.setdefault(one.m, one.baseline)
    sizes = [(size, published.CUBLAS_ON_A6000.get(size, ""), ours[size]) for size in sorted(ours)]
    small = [one for size, one in ours.items() if size <= SIZES[-1]]
    names = {kernel.name for one in small for kernel in one.kernels or ()}
    given = {"run": run, "sizes": sizes, "short": _short, "names": len(names), "of": len(small), "most": SIZES[-1]}
    return block(_TEMPLATE, "cublas", **given)


def swept() -> str:
    """Sentences on the sweep: how many different kernels each way ran. A command where it has not been measured."""
    file = path("cublas")
    run = Measurements.load(file) if file.exists() else None
    names: dict[str, set[str]] = {}
    for one in run.measurements if run else ():
        names.setdefault(one.way, set()).update(kernel["name"] for kernel in one.facts["kernels"])
    given = {"run": run, "names": names, "sizes": SIZES, "folder": file.parent.as_posix()}
    return block(_TEMPLATE, "swept", theirs=published.CUBLAS_KERNELS_ON_A6000, **given)


def _short(name: str) -> str:
    """The part of a C++ name that distinguishes kernels: what a CUTLASS kernel is made from, else all but template
    arguments."""
    inner = re.search(r"<(\w*gemm\w*)>", name)
    return inner[1] if inner else name.partition("<")[0]
