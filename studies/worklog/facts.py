"""Where the worklog's numbers come from, by the names under which its words ask for them."""

from collections.abc import Mapping, Sequence

from studies import published
from studies.markdown import table
from studies.profiles.measuring import SHAPE, SHAPES_OF
from studies.results import runs
from studies.worklog.counted import GPU, Counted
from studies.worklog.metrics import METRICS
from tilewright.analysis.roofline import ARITHMETIC, L1, L2, MEMORY, SHARED
from tilewright.analysis.traffic import WAVEFRONT_BYTES
from tilewright.bench.ncu import CUBLAS
from tilewright.bench.profile import Profile
from tilewright.bench.records import Record, Run
from tilewright.core.errors import RecordsError, nearest
from tilewright.core.problem import Problem
from tilewright.kernels import LADDER, find, recorded
from tilewright.kernels.spec import Config, Kernel
from tilewright.report.figures import roofline
from tilewright.report.figures.kernel_figure import Roofline
from tilewright.report.figures.roofline import Point
from tilewright.report.ratios import baseline_speed, quotient, share, speed

_LIMITS = {
    ARITHMETIC: "arithmetic",
    SHARED: "wavefronts of shared memory",
    L2: "what L1 does not have, from L2",
    L1: "passes of L1 over its banks",
    MEMORY: "each element once, from DRAM",
}
MEASURED_SHAPES = ("256x256x256", "1024x1024x1024", "4092x4092x4092", SHAPE, "8192x8192x8192")

_BESIDE = ("cuBLAS, same run", "of cuBLAS")
_Measured = tuple[Run, Record]
"""A record, and the run that it is of."""


class Facts:
    """All numbers of the worklog.

    Args:
        runs: of rungs, and of what `matmul` picks.
        counts: by kernel; those of a rung are needed when the words ask for them.
        profiles: of rungs and of cuBLAS, as far as there are any.
    """

    def __init__(self, runs: Sequence[Run], counts: Mapping[str, Counted], profiles: Sequence[Profile] = ()) -> None:
        self.runs, self.counts = runs, counts
        self.profiles = {(one.kernel, one.shape, one.dtype): one for one in profiles}

    @staticmethod
    def load_runs() -> list[Run]:
        """The committed runs of rungs, and at last of what `matmul` picks, which stand for rungs without records.

        Raises:
            RecordsError: a file is missing or is none of records.
        """
        return runs("ladder", "later rungs", "picks", "orders")

    def find_record(self, kernel: str, shape: str) -> Record | None:
        """A rung's record at some sizes, its own before one where it was picked."""
        found = self._find(kernel, shape)
        return found[1] if found else None

    def _find(self, kernel: str, shape: str, preferred: Run | None = None) -> _Measured | None:
        """The same with the run that it is of: the first that has the rung, or `preferred` where that has it too."""
        having = [run for run in self.runs if any(record.kernel == kernel for record in run.records)]
        chosen = preferred if any(run is preferred for run in having) else next(iter(having), None)
        at_shape = [
            (run, record)
            for run in self.runs
            for record in run.records
            if record.shape == shape
            and kernel in (record.kernel, record.picked)
            and record.case == f"NN {find(kernel).takes.arithmetic(record.dtype)}"
        ]
        own = [found for found in at_shape if found[1].kernel == kernel and found[0] is chosen]
        picked = [found for found in at_shape if found[1].picked == kernel]
        return next(iter((*own, *picked)), None)

    def picked(self, shape: str, layout: str) -> Record | None:
        """What `matmul` picked for a float32 product, A and B in these orders."""
        case = f"{layout} float32"
        records = (record for run in self.runs for record in run.records)
        return next((one for one in records if one.picked and (one.shape, one.case) == (shape, case)), None)

    def record(self, kernel: str, shape: str = "") -> Record:
        """The same; it must be there.

        Raises:
            RecordsError: it is not.
        """
        return self.measurement(kernel, shape)[1]

    def measurement(self, kernel: str, shape: str = "") -> _Measured:
        """A rung's record at some sizes, by default those at which it is looked at, with the run that it is of.

        Raises:
            RecordsError: there is none.
        """
        shape = shape or shape_of(kernel)
        found = self._find(kernel, shape)
        if found is None:
            raise RecordsError(f"the worklog needs a record of {kernel} at {shape}")
        return found

    def config(self, kernel: Kernel) -> Config:
        """The config that a rung was measured with, if it still has that, else its own for the GPU."""
        found = self.find_record(kernel.name, shape_of(kernel.name))
        measured = recorded(kernel.name, found.config) if found else None
        return measured or kernel.config(capability=GPU.capability)

    # What the words ask for.

    def gflops(self, kernel: str, shape: str = "") -> str:
        """How fast a rung was."""
        return speed(self.record(kernel, shape).gflops)

    def share(self, kernel: str, shape: str = "") -> str:
        """Its share of cuBLAS's speed in the same run."""
        text = share(self.record(kernel, shape), decimals=0)
        if not text:
            raise RecordsError(f"the record of {kernel} has no baseline")
        return text

    def times(self, slower: str, faster: str, shape: str = "") -> str:
        """How many times as fast one rung was as another."""
        return _times(_ratio(self.measurement(slower, shape), self.measurement(faster, shape)))

    def times_at(self, kernel: str, slower: str, faster: str) -> str:
        """How many times as fast a rung was at one shape as at another."""
        return _times(_ratio(self.measurement(kernel, slower), self.measurement(kernel, faster)))

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
        """A table of metrics, a rung's next to those of the one that it builds on; '-' for none."""
        kernels = [kernel] if before == "-" else [before, kernel]
        rows = [
            (METRICS[name].label, *(self.metric(one, name) for one in kernels)) for name in names if name in METRICS
        ]
        if len(rows) < len(names):
            raise RecordsError(f"there is no metric {next(name for name in names if name not in METRICS)!r}")
        heads = [f"{find(one).rung} {one}" for one in kernels]
        return table(("", *heads), rows, "l" + "r" * len(heads))

    def measured(self, kernel: str, before: str) -> str:
        """A table of GFLOP/s by size, next to cuBLAS and to the rung that it builds on; '-' for none.

        Where both rungs are of one run it says how many times as fast this one is. Speeds of different runs are not
        divided: there the other rung has its own cuBLAS next to it. Of one that was not measured there is nothing.
        """
        own = any(record.kernel == kernel for run in self.runs for record in run.records)
        picked = dict.fromkeys(record.shape for run in self.runs for record in run.records if record.picked == kernel)
        shapes = MEASURED_SHAPES if own else picked
        found = [
            (ours, self._find(before, shape, ours[0]) if before != "-" else None)
            for shape in shapes
            if (ours := self._find(kernel, shape))
        ]
        if not found:
            return (
                f"No run of this rung is among the records; `tilewright bench {kernel}` makes one where there is a GPU."
            )
        heads = ["m x n x k", f"{find(kernel).rung} {kernel}, GFLOP/s", *_BESIDE]
        rows = [[ours[1].shape, *_beside_cublas(ours)] for ours, _ in found]
        if any(base for _, base in found):
            base_head = f"{find(before).rung} {before}, GFLOP/s"
            if all(base is None or base[0] is ours[0] for ours, base in found):
                heads.insert(1, base_head)
                heads.insert(3, "times")
                for row, (ours, base) in zip(rows, found, strict=True):
                    row.insert(1, speed(base[1].gflops) if base else "")
                    row.insert(3, f"{_ratio(base, ours):.2f}" if base else "")
            else:
                heads[1:1] = [base_head, *_BESIDE]
                for row, (_, base) in zip(rows, found, strict=True):
                    row[1:1] = _beside_cublas(base) if base else ("", "", "")
        return table(heads, rows, "l" + "r" * (len(heads) - 1))

    def caches(self, kernel: str, before: str) -> str:
        """A table of what L2 and DRAM moved for a rung and for the one that it builds on, if both were profiled."""
        counts = [self.count(one) for one in (before, kernel)]
        found = [self.profiles.get((one.kernel, one.shape, one.dtype)) for one in counts]
        profiled = [one for one in found if one]
        if len(profiled) < len(found):
            return (
                "No profile of this rung is among the records; `python -m studies.profiles measure --out PATH` makes "
                "one where there is Nsight Compute."
            )
        rows = [
            ("reads that the L2 cache served", *(f"{one.l2_hits:.1%}" if one.l2_hits else "" for one in profiled)),
            ("read from and written to L2", *(_gigabytes(one.l2_bytes) for one in profiled)),
            ("read from and written to DRAM", *(_gigabytes(one.dram_bytes) for one in profiled)),
        ]
        if all(one.dram_gbs for one in profiled):
            rows.append(("the same, a second", *(f"{one.dram_gbs:,.0f} GB" for one in profiled)))
            of_source = [published.A6000_GBS.get(find(one.kernel).rung) for one in profiled]
            if all(of_source):
                rows.append(("of the first worklog, on an A6000", *(f"{one:,.0f} GB" for one in of_source)))
        heads = [f"{find(one.kernel).rung} {one.kernel}" for one in profiled]
        return table((f"at {counts[-1].shape}", *heads), rows, "lrr")

    def limits(self, kernel: str) -> str:
        """A table of the least times of a launch, the longest of them bold, next to what was measured."""
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
        return table((f"at {one.shape}", *names), [("time", *texts)], "l" + "r" * len(names))

    def least(self, kernel: str) -> str:
        """Bytes of A, B and C."""
        return f"{self.count(kernel).least_bytes / 1e9:.3g} GB"

    def best_intensity(self, kernel: str) -> str:
        """Operations for each byte of A, B and C."""
        return f"{self._best_intensity(kernel):.3g}"

    def roofline(self) -> Roofline:
        """Every rung in float32 that was measured and counted at SHAPE."""
        records = [
            record
            for kernel in LADDER
            if (record := self.find_record(kernel.name, SHAPE))
            and record.arithmetic == "float32"
            and kernel.name in self.counts
        ]
        points = [
            Point(record.rung, one.kernel, one.intensity, record.gflops, levels=self._levels(one))
            for record in records
            for one in [self.counts[record.picked or record.kernel]]
        ]
        cublas = next((record.baseline.gflops for record in records if record.baseline), 0.0)
        profile = self.profiles.get((CUBLAS, SHAPE, "float32"))
        if cublas and profile and (asked := profile.asked_bytes):
            flops = profile.problem.flops
            points.append(Point(0, CUBLAS, flops / asked, cublas, levels=_measured_levels(profile)))
            cublas = 0.0
        return Roofline(points, GPU, self._best_intensity(points[0].name) if points else 1.0, cublas)

    def _levels(self, one: Counted) -> dict[str, float]:
        """Operations for each byte of further levels of memory: counted, and measured where there is a profile."""
        flops = Problem.parse(one.shape).flops
        shared = {roofline.SHARED: flops / (WAVEFRONT_BYTES * one.wavefronts)} if one.wavefronts else {}
        profile = self.profiles.get((one.kernel, one.shape, one.dtype))
        return shared | (_measured_levels(profile) if profile else {})

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


def _measured_levels(profile: Profile) -> dict[str, float]:
    moved = {roofline.L2: profile.l2_bytes, roofline.DRAM: profile.dram_bytes}
    return {level: profile.problem.flops / size for level, size in moved.items() if size}


def _time(microseconds: float) -> str:
    if not microseconds:
        return ""
    return f"{microseconds / 1e3:.3g} ms" if microseconds >= 1e3 else f"{microseconds:.3g} us"


def _gigabytes(found: float | None) -> str:
    return "" if found is None else f"{found / 1e9:.2f} GB"


def _beside_cublas(measured: _Measured) -> tuple[str, str, str]:
    """Cells of a rung's speed, of cuBLAS's in the same run, and of its share of that."""
    _, record = measured
    return speed(record.gflops), baseline_speed(record), share(record)


def _ratio(slower: _Measured, faster: _Measured) -> float:
    """How many times as fast one measurement is as another.

    Raises:
        RecordsError: they are of different runs.
    """
    (run, slow), (other, fast) = slower, faster
    if run is not other:
        raise RecordsError(
            f"{slow.kernel} at {slow.shape} and {fast.kernel} at {fast.shape} were measured in different runs"
        )
    return quotient(fast.gflops, slow.gflops)


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 2 else f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"


def shape_of(kernel: str) -> str:
    """The sizes at which a rung is looked at."""
    return SHAPES_OF.get(kernel, SHAPE)


def problem_of(kernel: Kernel) -> Problem:
    """The problem at which a rung is looked at."""
    return Problem.parse(shape_of(kernel.name), arithmetic=kernel.takes.arithmetic())
