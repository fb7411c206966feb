"""Two files side by side: what both measured, and how much faster the second is."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.tools.report.html.charts import CHANGE_TICKS, Figure, ratio_map, shapes_of
from tilewright.tools.report.html.series import Point, baselines, marked_up
from tilewright.tools.report.html.sources import Source
from tilewright.tools.report.tables import duration, pairs

NOISE = 0.02
"""Changes up to this share count as none: two runs on one GPU differ by as much."""


@dataclass(frozen=True)
class Change:
    """A kernel, or a baseline, on one shape in both files."""

    title: str
    before: Point
    after: Point

    @property
    def ratio(self) -> float:
        """How many times as fast it is after."""
        return self.before.timed.time_us.median / self.after.timed.time_us.median

    @property
    def is_faster(self) -> bool:
        """Whether it is faster after, by more than noise."""
        return self.ratio > 1 + NOISE

    @property
    def is_slower(self) -> bool:
        """Whether it is slower after, by more than noise."""
        return self.ratio < 1 / (1 + NOISE)

    @property
    def config(self) -> str:
        """The config, or both where it is another one; empty for a baseline."""
        before, after = map(_config, (self.before, self.after))
        return before if before == after else f"{before} \N{RIGHTWARDS ARROW} {after}"


@dataclass(frozen=True)
class Comparison:
    """Problems that two files both hold, in the order of the legend and of the work; baselines come last."""

    before: Source
    after: Source
    shapes: Sequence[str]
    changes: Sequence[Change]

    @property
    def emulated(self) -> bool:
        """Whether the times compared are the emulator's."""
        return self.before.emulated

    @property
    def summary(self) -> str:
        """The changes of the kernels in a sentence, and those of the baselines."""
        kernels = [change for change in self.changes if not change.before.of_baseline]
        others = [change.ratio for change in self.changes if change.before.of_baseline]
        mean = statistics.geometric_mean(change.ratio for change in kernels)
        faster = sum(change.is_faster for change in kernels)
        slower = sum(change.is_slower for change in kernels)
        text = (
            f"The kernels run {mean:.3f} times as fast in {self.after.label} as in {self.before.label}, in the "
            f"geometric mean of {len(kernels)} products: {faster} are faster, {slower} slower, "
            f"{len(kernels) - faster - slower} alike within {NOISE:.0%}."
        )
        return f"{text} The baselines run {statistics.geometric_mean(others):.3f} times as fast." if others else text

    @property
    def figure(self) -> Figure:
        """A map of how many times as fast everything is after, by shape."""
        names = list(dict.fromkeys(change.title for change in self.changes))
        ratios = {(change.title, change.before.shape): change.ratio for change in self.changes}
        texts = {(change.title, change.before.shape): self._words(change) for change in self.changes}
        return ratio_map(names, self.shapes, ratios, texts, CHANGE_TICKS)

    def _words(self, change: Change) -> str:
        """Text shown when hovering over a change."""
        lines = [f"{change.title}, {change.before.shape}", f"{change.ratio:.3f} times as fast"]
        for side in (change.before, change.after):
            speed = "emulator time" if self.emulated else f"{side.timed.gflops:,.0f} GFLOP/s"
            lines += [f"{side.source.label}: {speed}, {duration(side.timed.time_us.median)}"]
            lines += filter(None, [_config(side)])
        return marked_up(lines)


def compare(before: Source, after: Source, some: Sequence[Point]) -> Comparison | None:
    """Comparison of the problems that two files both measured; None where there is none, or where one is of a GPU and
    the other is not.

    Args:
        before: the file that the other one is compared with.
        after: the other one.
        some: the points of both; those of other files do not matter.
    """
    if before.emulated != after.emulated:
        return None
    ours, theirs = ([point for point in some if point.source is source] for source in (before, after))
    sides, others = _sides(ours), _sides(theirs)
    changes = [Change(key[0], side, others[key]) for key, side in sides.items() if key in others]
    if all(change.before.of_baseline for change in changes):
        return None
    shared = {change.before.shape for change in changes}
    return Comparison(before, after, [shape for shape in shapes_of(ours) if shape in shared], changes)


def _sides(some: Sequence[Point]) -> dict[tuple[str, str, bool], Point]:
    """A file's points of kernels, and then of baselines, by title and shape, and whether it is a baseline."""
    named = [(point.series.title, point) for point in some]
    named += [(name, point) for name, chosen in baselines(some).items() for point in chosen]
    return {(name, point.shape, point.of_baseline): point for name, point in named}


def _config(point: Point) -> str:
    """A kernel's config; empty for a baseline."""
    return "" if point.of_baseline else pairs(point.record.config)
