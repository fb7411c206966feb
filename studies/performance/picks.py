"""What `matmul` picks, next to cuBLAS: of each run and case one line, and the problems that say most."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from studies.markdown import table
from tilewright.bench.records import Record, Run
from tilewright.bench.suites import Shape, shapes
from tilewright.report.ratios import baseline_speed, ratio, speed

SLOWEST = 3
"""Problems of a case that are listed because cuBLAS does best there."""
ALWAYS = "4096x4096x4096"
"""A problem that is listed wherever it was measured."""


class Case(NamedTuple):
    """The records of a run that differ in their sizes alone."""

    name: str
    records: Sequence[Record]
    gpu: str
    path: Path

    @property
    def link(self) -> str:
        """To the file, from a page in docs/."""
        return f"[{self.path.stem}](../{self.path.as_posix()})"

    def compared(self) -> list[tuple[float, Record]]:
        """The records that have a baseline, by their ratio to it, the lowest first."""
        found = [(value, record) for record in self.records if (value := ratio(record)) is not None]
        return sorted(found, key=lambda pair: pair[0])


def cases(runs: Mapping[Path, Run]) -> Iterator[Case]:
    """The cases of runs, by the files that hold them."""
    for path, run in runs.items():
        for name in dict.fromkeys(record.case for record in run.records):
            yield Case(name, [record for record in run.records if record.case == name], run.gpu.name, path)


def glance(runs: Mapping[Path, Run]) -> str:
    """A line for each case: how many times as fast as cuBLAS in the same run is what `matmul` picks.

    Raises:
        RecordsError: a ratio is of another run.
    """
    rows = []
    for case in cases(runs):
        cells = ("no product in cuBLAS", "", "", "", "")
        if compared := case.compared():
            (least, slowest), (most, fastest) = compared[0], compared[-1]
            middle = statistics.median(value for value, _ in compared)
            cells = (f"{least:.2f}", slowest.shape, f"{middle:.2f}", f"{most:.2f}", fastest.shape)
        rows.append((case.name, case.gpu, len(case.records), *cells, case.link))
    heads = ("case", "GPU", "problems", "least", "on", "median", "most", "on", "record")
    return table(heads, rows, "llrrlrrll")


def chosen(runs: Mapping[Path, Run]) -> str:
    """A table for each run: of each of its cases the problems that say most, by `telling`.

    Raises:
        RecordsError: a ratio is of another run.
    """
    by_path: dict[Path, list[Case]] = {}
    for case in cases(runs):
        by_path.setdefault(case.path, []).append(case)
    texts = []
    for of_path in by_path.values():
        rows = [((case.name,), record) for case in of_path for record in telling(case)]
        count = sum(len(case.records) for case in of_path)
        heading = f"{of_path[0].link}, {len(rows)} of {count} problems, on an {of_path[0].gpu}:"
        texts.append(f"{heading}\n\n{_table(('case',), rows)}")
    return "\n\n".join(texts)


def telling(case: Case) -> list[Record]:
    """The SLOWEST problems of a case next to cuBLAS, the fastest one, and ALWAYS; in the order of the suites."""
    compared = [record for _, record in case.compared()]
    kept = [*compared[:SLOWEST], *compared[-1:], *(record for record in case.records if record.shape == ALWAYS)]
    return [record for record in in_order(case.records) if any(record is one for one in kept)]


def every(records: Sequence[Record]) -> str:
    """A table of all problems, in the order of the suites.

    Raises:
        RecordsError: a ratio is of another run.
    """
    return _table((), [((), record) for record in in_order(records)])


def in_order(records: Sequence[Record]) -> list[Record]:
    """Records in the order of the suites; those that no suite has come last."""
    places = {shape: place for place, shape in enumerate(chain.from_iterable(shapes().values()))}

    def place(one: Record) -> int:
        return places.get(Shape(one.m, one.n, one.k, one.batch, one.layout), len(places))

    return sorted(records, key=place)


def _table(heads: Sequence[str], rows: Sequence[tuple[Sequence[str], Record]]) -> str:
    """Records, each behind some cells of its own; where it was measured, with times of runs that follow other work."""
    apart = any(record.apart_ratio for _, record in rows)
    after = ["after other work, us: cuBLAS's / ours"] * apart
    named = (*heads, "m x n x k", "kernel", "in", "GFLOP/s", "cuBLAS", "ratio", *after, "error over cuBLAS's")
    texts = len(heads) + 3
    cells = ((*own, *_cells(record, apart)) for own, record in rows)
    return table(named, cells, "l" * texts + "r" * (len(named) - texts))


def _cells(record: Record, apart: bool) -> Iterator[str]:
    value = ratio(record)
    yield from (record.shape, f"`{record.picked}`", record.arithmetic, speed(record.gflops), baseline_speed(record))
    yield "" if value is None else f"{value:.2f}"
    if apart:
        yield _apart(record)
    yield f"{record.error_ratio:.2f}" if record.error_ratio else ""


def _apart(record: Record) -> str:
    """Microseconds of runs that follow other work, the baseline's over ours: how many times as fast ours are."""
    times = [one.apart_us for one in (record.baseline, record) if one and one.apart_us]
    if len(times) < 2:
        return ""
    theirs, ours = (round(one.median, 3 - math.floor(math.log10(one.median))) for one in times)  # to four digits
    return f"{theirs:g} / {ours:g} = {theirs / ours:.2f}"
