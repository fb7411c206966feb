"""Where the worklog's numbers come from, by the names under which its words ask for them."""

from collections.abc import Mapping, Sequence

from tilewright.analysis.roofline import ARITHMETIC, L2, MEMORY, SHARED
from tilewright.bench.records import Record
from tilewright.errors import RecordsError, nearest
from tilewright.kernels import LADDER, find
from tilewright.kernels.spec import Config, Kernel
from tilewright.problem import Problem
from tilewright.report import performance
from tilewright.report.figures.kernel_figure import Roofline
from tilewright.report.figures.roofline import Point
from tilewright.report.worklog.counted import GPU, Counted
from tilewright.report.worklog.metrics import METRICS

RECORDS = (performance.RECORDS, *performance.LATER_RUNGS, performance.BEST)
"""Of rungs, and at last of what `matmul` picks: those tell of a rung that has none of its own."""
SHAPE = "4096x4096x4096"
"""At which rungs are counted, drawn and compared."""
SHAPES_OF: Mapping[str, str] = {"skinny": "1x4096x4096"}
"""The same for rungs that are not for large squares."""
_LIMITS = {
    ARITHMETIC: "arithmetic",
    SHARED: "wavefronts of shared memory",
    L2: "what requests touch, from L2",
    MEMORY: "each element once, from DRAM",
}
MEASURED_SHAPES = ("256x256x256", "1024x1024x1024", "4092x4092x4092", SHAPE, "8192x8192x8192")


class Facts:
    """All numbers of the worklog.

    Args:
        records: of rungs, and of what `matmul` picks.
        counts: by kernel; those of a rung are needed when the words ask for them.
    """

    def __init__(self, records: Sequence[Record], counts: Mapping[str, Counted]) -> None:
        self.records, self.counts = records, counts

    @staticmethod
    def load_records() -> list[Record]:
        """The committed records.

        Raises:
            RecordsError: a file is missing or is none of records.
        """
        return performance.load(RECORDS)

    def find_record(self, kernel: str, shape: str) -> Record | None:
        """A rung's record at some sizes, its own before one where it was picked."""
        at_shape = [record for record in self.records if record.shape == shape]
        own = [record for record in at_shape if record.kernel == kernel]
        picked = [record for record in at_shape if record.picked == kernel]
        return next(iter((*own, *picked)), None)

    def record(self, kernel: str, shape: str = "") -> Record:
        """The same; it must be there.

        Raises:
            RecordsError: it is not.
        """
        shape = shape or shape_of(kernel)
        found = self.find_record(kernel, shape)
        if found is None:
            raise RecordsError(f"the worklog needs a record of {kernel} at {shape}")
        return found

    def config(self, kernel: Kernel) -> Config:
        """The config that a rung was measured with, else its own for the GPU."""
        found = self.find_record(kernel.name, shape_of(kernel.name))
        return kernel.config(found.config if found else None, capability=GPU.capability)

    # What the words ask for.

    def gflops(self, kernel: str, shape: str = "") -> str:
        """How fast a rung was."""
        return f"{self.record(kernel, shape).gflops:,.0f}"

    def share(self, kernel: str, shape: str = "") -> str:
        """Its share of cuBLAS's speed in the same run."""
        ratio = self.record(kernel, shape).ratio
        if ratio is None:
            raise RecordsError(f"the record of {kernel} has no baseline")
        return f"{100 * ratio:.0f}%"

    def times(self, slower: str, faster: str, shape: str = "") -> str:
        """How many times faster one rung was than another."""
        return _times(self.record(faster, shape).gflops / self.record(slower, shape).gflops)

    def times_at(self, kernel: str, slower: str, faster: str) -> str:
        """How many times faster a rung was at one shape than at another."""
        return _times(self.record(kernel, faster).gflops / self.record(kernel, slower).gflops)

    def error(self, kernel: str, shape: str = "") -> str:
        """Its relative error."""
        return f"{self.record(kernel, shape).error.relative_frobenius:.1e}"

    def metric(self, kernel: str, name: str) -> str:
        """One of METRICS.

        Raises:
            RecordsError: it was not counted, or there is none of this name.
        """
        if name not in METRICS:
            raise RecordsError(f"there is no metric {name!r}{nearest(name, METRICS)}")
        value = METRICS[name].value(self.count(kernel))
        return "" if value is None else METRICS[name].text(value)

    def counters(self, kernel: str, before: str, *names: str) -> str:
        """A table of metrics, a rung's beside those of the one that it builds on; '-' for none."""
        kernels = [kernel] if before == "-" else [before, kernel]
        rows = [
            (METRICS[name].label, *(self.metric(one, name) for one in kernels)) for name in names if name in METRICS
        ]
        if len(rows) < len(names):
            raise RecordsError(f"there is no metric {next(name for name in names if name not in METRICS)!r}")
        heads = [f"{find(one).rung} {one}" for one in kernels]
        return performance.table(("", *heads), rows, "l" + "r" * len(heads))

    def measured(self, kernel: str, before: str) -> str:
        """A table of GFLOP/s by size, beside the rung that it builds on; '-' for none."""
        own = any(record.kernel == kernel for record in self.records)
        picked = dict.fromkeys(record.shape for record in self.records if record.picked == kernel)
        rows = []
        for shape in MEASURED_SHAPES if own else picked:
            record = self.find_record(kernel, shape)
            if record is None:
                continue
            base = self.find_record(before, shape) if before != "-" else None
            gained = f"{record.gflops / base.gflops:.2f}" if base else ""
            share = f"{100 * record.ratio:.1f}%" if record.ratio else ""
            rows.append((shape, f"{base.gflops:,.0f}" if base else "", f"{record.gflops:,.0f}", gained, share))
        if not rows:
            return (
                f"No run of this rung is among the records; `tilewright bench {kernel}` makes one where there is a GPU."
            )
        rung = find(kernel).rung
        heads = ["m x n x k", f"{rung} {kernel}, GFLOP/s", "of cuBLAS"]
        if before == "-":
            return performance.table(heads, [(row[0], row[2], row[4]) for row in rows], "lrr")
        heads[1:1] = [f"{find(before).rung} {before}"]
        heads[3:3] = ["times"]
        return performance.table(heads, rows, "lrrrr")

    def limits(self, kernel: str) -> str:
        """A table of the least times of a launch, the longest of them bold, beside what was measured."""
        one = self.count(kernel)
        longest = max(one.times_us.values())
        texts = [_time(us) for us in one.times_us.values()]
        texts = [
            f"**{text}**" if us == longest else text for us, text in zip(one.times_us.values(), texts, strict=True)
        ]
        names = [_LIMITS[name] for name in one.times_us]
        record = self.find_record(kernel, one.shape)
        if record:
            names, texts = [*names, "measured"], [*texts, _time(record.time_us.median)]
        return performance.table((f"at {one.shape}", *names), [("time", *texts)], "l" + "r" * len(names))

    def least(self, kernel: str) -> str:
        """Bytes of A, B and C."""
        return f"{self.count(kernel).least_bytes / 1e9:.3g} GB"

    def best_intensity(self, kernel: str) -> str:
        """Operations for each byte of A, B and C."""
        return f"{self._best_intensity(kernel):.3g}"

    def roofline(self) -> Roofline:
        """Every rung in float32 that was measured and counted at SHAPE."""
        points = [
            Point(kernel.rung, kernel.name, self.counts[kernel.name].intensity, record.gflops)
            for kernel in LADDER
            if (record := self.find_record(kernel.name, SHAPE))
            and record.arithmetic == "float32"
            and kernel.name in self.counts
        ]
        return Roofline(points, GPU, self._best_intensity(points[0].name) if points else 1.0)

    def count(self, kernel: str) -> Counted:
        """What was counted of a rung.

        Raises:
            RecordsError: nothing was.
        """
        if kernel not in self.counts:
            raise RecordsError(f"nothing was counted of {kernel!r}{nearest(kernel, self.counts)}")
        return self.counts[kernel]

    def _best_intensity(self, kernel: str) -> float:
        one = self.count(kernel)
        return Problem.parse(one.shape).flops / one.least_bytes


def _time(microseconds: float) -> str:
    if not microseconds:
        return ""
    return f"{microseconds / 1e3:.3g} ms" if microseconds >= 1e3 else f"{microseconds:.3g} us"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 2 else f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"


def shape_of(kernel: str) -> str:
    """The sizes at which a rung is looked at."""
    return SHAPES_OF.get(kernel, SHAPE)


def problem_of(kernel: Kernel) -> Problem:
    """The problem at which a rung is looked at."""
    return Problem.parse(shape_of(kernel.name), dtype=kernel.dtypes[0])
