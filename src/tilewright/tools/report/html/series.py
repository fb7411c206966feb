"""Series that the charts are drawn of: one a kernel and arithmetic, its fastest record of each shape, its words."""

import html
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tilewright.core.problem import Scalars
from tilewright.kernels.kernel import numbered
from tilewright.tools.bench.records import Baseline, Record, Result
from tilewright.tools.explain.roofline import least_bytes
from tilewright.tools.report.html.sources import Source, problem_of
from tilewright.tools.report.tables import duration, pairs

_LINE = 64
"""Characters after which a line of the words on a point is broken."""


class Series(NamedTuple):
    """Records that one line of a chart shows; sorted in the order of the legend."""

    picked: bool
    """Whether the selector picked the kernel of each shape."""
    rung: int
    """0 for what the selector picked, which has a rung of its own for every shape."""
    kernel: str
    kind: str
    """Difference of its products from the usual ones, as in 'tf32' or 'NT float32 bias+gelu'; 'float32' for the
    usual."""
    alpha: float
    beta: float

    @property
    def title(self) -> str:
        """Its name in legends and tables."""
        name = self.kernel if self.picked else numbered(self.rung, self.kernel)
        kind = [self.kind] * (self.kind != "float32")
        return ", ".join([name, *kind, *scalars(self.alpha, self.beta)])


def scalars(alpha: float, beta: float) -> list[str]:
    """The scalars that are not the usual ones, in words."""
    return [f"alpha={alpha:g}"] * (alpha != 1) + [f"beta={beta:g}"] * (beta != 0)


def series_of(record: Record) -> Series:
    """The series that a record is of."""
    picked = record.picked is not None
    rung = 0 if picked else record.rung
    return Series(picked, rung, record.kernel, kind_of(record), record.alpha, record.beta)


def kind_of(record: Record) -> str:
    """Its case, without 'NN'. Where no precision was asked for, that of a kernel is in place of the factors' type."""
    case = record.case.removeprefix("NN ")
    own = record.precision if record.promise is None and record.picked is None else None
    return case.replace(record.dtype, own, 1) if own else case


@dataclass(frozen=True)
class Point:
    """The fastest right record of a series and shape in one file, or the baseline of one."""

    source: Source
    series: Series
    record: Record
    of_baseline: bool = False
    """Whether it is the baseline's point, and not the kernel's."""

    @property
    def timed(self) -> Record | Baseline:
        """Record or baseline that has the point's speed and times."""
        if not self.of_baseline:
            return self.record
        assert self.record.baseline is not None, "points of a baseline have one"
        return self.record.baseline

    @property
    def shape(self) -> str:
        """The sizes as text: 'MxNxK'."""
        return self.record.shape

    @property
    def size(self) -> float:
        """m = n = k, and of other shapes the cube root of m * n * k, times the batch."""
        return self.record.m if self.square else round(work(self.record)[0] ** (1 / 3), 1)

    @property
    def square(self) -> bool:
        """Whether m = n = k, of one product."""
        return self.record.m == self.record.n == self.record.k and self.record.batch == 1

    @property
    def intensity(self) -> float:
        """Operations a byte, where A, B and C each move once (C twice where beta is not 0)."""
        problem = problem_of(self.record)
        return problem.flops / sum(least_bytes(problem, Scalars(self.record.alpha, self.record.beta)))


def points(sources: Iterable[Source]) -> list[Point]:
    """A point for every file, series and shape; of wrong results, of products without work, and of those with b
    prepared, which leave a part out, there is none.

    They come in the order of files, then of the legend, then of the work.
    """
    found: list[Point] = []
    for source in sources:
        fastest: dict[tuple[Series, str], Point] = {}
        for record in source.run.records:
            point = Point(source, series_of(record), record)
            before = fastest.get((point.series, point.shape))
            timed = record.verified and record.gflops > 0 and record.time_us.median > 0
            if record.prepared or not (timed and work(record)[0]):
                continue
            if before is None or record.time_us.median < before.record.time_us.median:
                fastest[point.series, point.shape] = point
        found += sorted(fastest.values(), key=lambda point: (point.series, work(point.record)))
    return found


def work(record: Result) -> tuple[int, int, int, int]:
    """Key by which shapes are ordered: their work, then their sizes."""
    return record.batch * record.m * record.n * record.k, record.m, record.n, record.k


def family(baseline: Baseline) -> str:
    """A baseline's name in legends: cuBLAS for all of cuBLAS's interfaces."""
    return "cuBLAS" if baseline.name.startswith("cuBLAS") else baseline.name


def baselines(some: Sequence[Point]) -> dict[str, list[Point]]:
    """For every baseline, named by family and arithmetic, one point a shape: the run in which it was fastest."""
    fastest: dict[tuple[str, str], Point] = {}
    for point in some:
        baseline = point.record.baseline
        if baseline is None or baseline.gflops <= 0:
            continue
        kind = kind_of(point.record)
        name = family(baseline) if kind == "float32" else f"{family(baseline)}, {kind}"
        known = fastest.get((name, point.shape))
        if known is None or baseline.gflops > known.timed.gflops:
            fastest[name, point.shape] = replace(point, of_baseline=True)
    named: dict[str, list[Point]] = {}
    for (name, _), point in sorted(fastest.items(), key=lambda one: (one[0][0], work(one[1].record))):
        named.setdefault(name, []).append(point)
    return named


def words(point: Point) -> str:
    """Text shown when hovering over a point; free of markup other than its own."""
    record, timed = point.record, point.timed
    emulated = record.engine == "emulator"
    times = f"median {duration(timed.time_us.median)}, fastest {duration(timed.time_us.min)}"
    speed = f"{timed.gflops:,.0f} GFLOP/s, {times}"
    if isinstance(timed, Baseline):
        lines = [_named(timed), f"{point.shape}, {record.arithmetic}"]
        lines += [f"time of this CPU: {times}" if emulated else speed]
        lines += [] if timed.error is None else [f"error {timed.error:.1e}"]
        for kernel in timed.kernels or ():
            lines += textwrap.wrap(f"ran {kernel.name}", _LINE)
            lines += [f"grid {' x '.join(map(str, kernel.grid))}, block {' x '.join(map(str, kernel.block))}"]
    else:
        lines = [f"{point.series.title}: {record.picked}" if record.picked else point.series.title]
        lines += [f"{record.shape}, {record.case.removeprefix('NN ')}"]
        lines += [f"emulator time, not a GPU time: {times}" if emulated else speed]
        if not emulated and record.ratio is not None and record.baseline:
            lines += [f"{100 * record.ratio:.1f}% of {_named(record.baseline)}"]
        lines += textwrap.wrap(pairs(record.config), _LINE) or ["no parameters"]
        its_error = (
            f", of the baseline {record.baseline.error:.1e}" if record.baseline and record.baseline.error else ""
        )
        lines += [f"error {record.error}, right up to {record.error.limit:.1e}{its_error}"]
    clocks = [point.source.clocks] if point.source.clocks else []
    return marked_up([*lines, f"{point.source.label}: {point.source.device}", *clocks])


def _named(baseline: Baseline) -> str:
    return f"{baseline.name} {baseline.version}"


def marked_up(lines: Sequence[str]) -> str:
    """Lines as plotly shows them, the first in bold; free of other markup."""
    first, *others = (html.escape(line, quote=False) for line in lines)
    return "<br>".join([f"<b>{first}</b>", *others])
