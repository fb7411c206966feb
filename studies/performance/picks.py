"""Kernels that `matmul` picks, next to cuBLAS: of each run and case one line, and the problems that say most."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from studies.templates import block
from tilewright.core.dtypes import FLOAT8
from tilewright.tools.bench.records import Record, Run
from tilewright.tools.bench.suites import SuiteSize, shapes
from tilewright.tools.report.ratios import ratio

SLOWEST = 3
"""Problems of a case that are listed because cuBLAS does best there."""
KINDS = ("float32", "parts of 16 bits", "TF32", "16 bits", "float8")
"""Sections of docs/results.md: parts of 16 bits and TF32 are float32 products with a weaker precision."""
ALWAYS = "4096x4096x4096"
"""A problem that is listed wherever it was measured."""


class Case(NamedTuple):
    """The records of a run that differ in their sizes alone."""

    name: str
    records: Sequence[Record]
    run: Run
    path: Path

    def compared(self) -> list[tuple[float, Record]]:
        """The records that have a baseline, by their ratio to it, the lowest first."""
        found = [(value, record) for record in self.records if (value := ratio(record)) is not None]
        return sorted(found, key=lambda pair: pair[0])


def cases(runs: Mapping[Path, Run]) -> Iterator[Case]:
    """The cases of runs, by the files that hold them."""
    for path, run in runs.items():
        for name in dict.fromkeys(record.case for record in run.records):
            yield Case(name, [record for record in run.records if record.case == name], run, path)


def kind_of(record: Record) -> str:
    """Which section of the page a record belongs to, by element type and precision: one of KINDS."""
    if record.dtype in FLOAT8:
        return "float8"
    if record.dtype != "float32":
        return "16 bits"
    return {None: "float32", "float32": "float32", "tf32": "TF32"}.get(record.promise, "parts of 16 bits")


def summary(runs: Mapping[Path, Run]) -> str:
    """A line for each kind and GPU: speedups over cuBLAS in the same run of what `matmul` picks.

    Raises:
        RecordsError: a ratio is of another run.
    """
    found: dict[tuple[str, str], list[Case]] = {}
    for case in cases(runs):
        found.setdefault((kind_of(case.records[0]), case.run.gpu.name), []).append(case)
    return _made("summary", groups=sorted(found.items(), key=lambda one: KINDS.index(one[0][0])))


def glance(runs: Mapping[Path, Run], kind: str) -> str:
    """A line for each case of a kind: speedups over cuBLAS in the same run of what `matmul` picks.

    Raises:
        RecordsError: a ratio is of another run.
    """
    return _made("glance", cases=[case for case in cases(runs) if kind_of(case.records[0]) == kind])


def chosen(runs: Mapping[Path, Run]) -> str:
    """A table for each run: of each of its cases the problems that say most, by `telling`.

    Raises:
        RecordsError: a ratio is of another run.
    """
    by_path: dict[Path, list[Case]] = {}
    for case in cases(runs):
        by_path.setdefault(case.path, []).append(case)
    return "\n\n".join(
        _made("picks", run=runs[path], path=path, rows=[(case.name, one) for case in of for one in telling(case)])
        for path, of in by_path.items()
    )


def telling(case: Case) -> list[Record]:
    """The SLOWEST problems of a case next to cuBLAS, the fastest one, and ALWAYS; in the order of the suites."""
    compared = [record for _, record in case.compared()]
    kept = [*compared[:SLOWEST], *compared[-1:], *(record for record in case.records if record.shape == ALWAYS)]
    return [record for record in in_order(case.records) if any(record is one for one in kept)]


def every(run: Run) -> str:
    """A table of all problems of a run, in the order of the suites.

    Raises:
        RecordsError: a ratio is of another run.
    """
    return _made("picks", run=run, path=None, rows=[("", record) for record in in_order(run.records)])


def in_order(records: Sequence[Record]) -> list[Record]:
    """Records in the order of the suites; those that no suite has come last."""
    places = {shape: place for place, shape in enumerate(chain.from_iterable(shapes().values()))}
    return sorted(records, key=lambda one: places.get(shape_of(one), len(places)))


def shape_of(record: Record) -> SuiteSize:
    """The shape of a record, as suites name it."""
    return SuiteSize(record.m, record.n, record.k, record.batch, record.layout)


def _made(name: str, **given: Any) -> str:
    return block("performance/picks.md.j2", name, median=statistics.median, after_other_work=_after_other_work, **given)


def _after_other_work(record: Record) -> str:
    """Microseconds of runs that follow other work, the baseline's over ours: how many times as fast ours are."""
    times = [one.after_other_work_us for one in (record.baseline, record) if one and one.after_other_work_us]
    if len(times) < 2:
        return ""
    theirs, ours = (round(one.median, 3 - math.floor(math.log10(one.median))) for one in times)  # to four digits
    return f"{theirs:g} / {ours:g} = {theirs / ours:.2f}"
