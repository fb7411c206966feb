"""Where the worklog's numbers come from, by the names under which its words ask for them."""

from collections.abc import Mapping, Sequence

from studies import published
from studies.profiles.measuring import SHAPE, SHAPES_OF, problem_of, profile_of
from studies.record import Measurements
from studies.results import RECORDS, course_gpu, paths, runs
from studies.templates import block, places
from studies.worklog.counted import Counted
from studies.worklog.metrics import METRICS, cell
from tilewright.core.errors import RecordsError, nearest
from tilewright.core.problem import Problem
from tilewright.kernels import LADDER, find, recorded
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.tools.bench.ncu import CUBLAS
from tilewright.tools.bench.profile import Profile
from tilewright.tools.bench.records import Record, Run
from tilewright.tools.explain.cost.prediction import predict
from tilewright.tools.explain.roofline import ARITHMETIC, L1, L2, MEMORY, SHARED
from tilewright.tools.explain.traffic import WAVEFRONT_BYTES
from tilewright.tools.report.figures import roofline
from tilewright.tools.report.figures.kernel_figure import RooflineChart
from tilewright.tools.report.figures.roofline import Dot
from tilewright.tools.report.ratios import quotient, share, speed

_TEMPLATE = "worklog/tables.md.j2"
_LIMITS = {
    ARITHMETIC: "arithmetic",
    SHARED: "wavefronts of shared memory",
    L2: "what L1 does not have, from L2",
    L1: "passes of L1 over its banks",
    MEMORY: "each element once, from DRAM",
}
MEASURED_SHAPES = ("256x256x256", "1024x1024x1024", "4092x4092x4092", SHAPE, "8192x8192x8192")

Measured = tuple[Run, Record]
"""A record, and the run that it is of."""


class Facts:
    """All numbers of the worklog.

    Args:
        runs: of rungs, and of what `matmul` picks.
        counts: by kernel; those of a rung are needed when the words ask for them.
        profiled: profiles of rungs and of cuBLAS, if there are any.
    """

    def __init__(
        self, runs: Sequence[Run], counts: Mapping[str, Counted], profiled: Measurements | None = None
    ) -> None:
        self.runs, self.counts = runs, counts
        profiles = map(profile_of, profiled.measurements if profiled else ())
        self.profiles = {(one.kernel, one.shape, one.dtype): one for one in profiles}
        self._profiled_on = places([profiled]) if profiled else ""

    @staticmethod
    def load_runs() -> list[Run]:
        """The committed run of the rungs, that of what `matmul` picks at some sizes, and those of rungs that have one
        of their own.

        Raises:
            RecordsError: a file is missing or is none of records.
        """
        later = (paths(kernel.name)[0] for kernel in LADDER if kernel.name in RECORDS)
        return [*runs("ladder", "variations"), *(Run.load(one) for one in later if one.exists())]

    def find(self, kernel: str, shape: str, preferred: Run | None = None) -> Measured | None:
        """A rung's record at some sizes, its own before one where it was picked, with the run that it is of.

        The run is the first that has the rung, or `preferred` where that has it too.
        """
        having = [run for run in self.runs if any(record.kernel == kernel for record in run.records)]
        chosen = preferred if any(run is preferred for run in having) else next(iter(having), None)
        at_shape = [
            (run, record)
            for run in self.runs
            for record in run.records
            if record.shape == shape
            and kernel in (record.kernel, record.picked)
            and record.case == f"{find(kernel).support.layouts[0]} {find(kernel).support.arithmetic(record.dtype)}"
        ]
        own = [found for found in at_shape if found[1].kernel == kernel and found[0] is chosen]
        picked = [found for found in at_shape if found[1].picked == kernel]
        return next(iter((*own, *picked)), None)

    def picked(self, shape: str, layout: str) -> Measured | None:
        """Record of the kernel that `matmul` picked for a float32 product, A and B in these orders."""
        wanted = shape, f"{layout} float32"
        records = ((run, record) for run in self.runs for record in run.records)
        return next((found for found in records if found[1].picked and (found[1].shape, found[1].case) == wanted), None)

    def record(self, kernel: str, shape: str = "") -> Record:
        """The record of `measurement`."""
        return self.measurement(kernel, shape)[1]

    def measurement(self, kernel: str, shape: str = "") -> Measured:
        """A rung's record at some sizes, by default those at which it is looked at, with the run that it is of.

        Raises:
            RecordsError: there is none.
        """
        shape = shape or shape_of(kernel)
        found = self.find(kernel, shape)
        if found is None:
            raise RecordsError(f"the worklog needs a record of {kernel} at {shape}")
        return found

    def config(self, kernel: Kernel) -> Config:
        """The config that a rung was measured with, if it still has that, else its own for the GPU."""
        found = self.find(kernel.name, shape_of(kernel.name))
        measured = recorded(kernel.name, found[1].config) if found else None
        return measured or kernel.config(capability=course_gpu().capability)

    # What the words ask for.

    def gflops(self, kernel: str, shape: str = "") -> str:
        """How fast a rung was."""
        return speed(self.record(kernel, shape).gflops)

    def modelled(self, kernel: str) -> str:
        """How fast the model of `tilewright explain` predicts a kernel at the sizes at which it is looked at."""
        one, gpu = find(kernel), course_gpu()
        cost = predict(one, one.config(capability=gpu.capability), problem_of(one), gpu)
        if cost is None:
            raise RecordsError(f"the model has no block of {kernel}")
        return speed(problem_of(one).flops / cost.us / 1e3)

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
        return cell(name, self.count(kernel))

    def counters(self, kernel: str, before: str, *names: str) -> str:
        """A table of metrics, a rung's next to those of the one that it builds on; '-' for none."""
        if missing := [name for name in names if name not in METRICS]:
            raise RecordsError(f"there is no metric {missing[0]!r}")
        kernels = [find(one) for one in ([kernel] if before == "-" else [before, kernel])]
        return block(_TEMPLATE, "counters", kernels=kernels, names=names, labels=METRICS, metric=self.metric)

    def measured(self, kernel: str, before: str) -> str:
        """A table of GFLOP/s by size, next to cuBLAS and to the rung that it builds on; '-' for none.

        Where both rungs are of one run it says how many times as fast this one is. Speeds of different runs are not
        divided: there the other rung has its own cuBLAS next to it. Of one that was not measured there is nothing.
        """
        having = [one.shape for run in self.runs for one in run.records if kernel in (one.kernel, one.picked)]
        shapes = MEASURED_SHAPES if shape_of(kernel) in MEASURED_SHAPES else dict.fromkeys(having)
        found = [
            (ours, self.find(before, shape, ours[0]) if before != "-" else None)
            for shape in shapes
            if (ours := self.find(kernel, shape))
        ]
        base = find(before) if any(base for _, base in found) else None
        one_run = all(base is None or base[0] is ours[0] for ours, base in found)
        given = {"found": found, "base": base, "one_run": one_run, "times": _ratio}
        return block(_TEMPLATE, "measured", kernel=find(kernel), **given)

    def caches(self, kernel: str, before: str) -> str:
        """A table of what L2 and DRAM moved for a rung and for the one that it builds on, if both were profiled."""
        counts = [self.count(one) for one in (before, kernel)]
        found = (self.profiles.get((one.kernel, one.shape, one.dtype)) for one in counts)
        profiled = [one for one in found if one]
        of_source = [published.A6000_GBS.get(find(one.kernel).rung) for one in profiled]
        given = {"find": find, "of_source": of_source, "profiled_on": self._profiled_on}
        return block(_TEMPLATE, "caches", shape=counts[-1].shape, profiled=profiled, **given)

    def profiled(self, kernel: Kernel) -> list[Profile]:
        """Profiles of a rung and of the two before it, at the first one's sizes and in their own element types.

        Raises:
            RecordsError: the rung was not profiled.
        """
        rungs = [one for one in LADDER if kernel.rung - 2 <= one.rung <= kernel.rung]
        keys = [(one.name, shape_of(one.name), one.support.factors[0]) for one in rungs]
        if keys[-1] not in self.profiles:
            raise RecordsError(f"the worklog needs a profile of {kernel.name} at {shape_of(kernel.name)}")
        return [self.profiles[key] for key in keys if key in self.profiles]

    def limits(self, kernel: str) -> str:
        """A table of the least times of a launch, the longest of them bold, next to what was measured."""
        one = self.count(kernel)
        found, longest = self.find(kernel, one.shape), max(one.times_us.values())
        return block(_TEMPLATE, "limits", counted=one, names=_LIMITS, longest=longest, found=found, time=_time)

    def least(self, kernel: str) -> str:
        """Bytes of A, B and C."""
        return f"{self.count(kernel).least_bytes / 1e9:.3g} GB"

    def best_intensity(self, kernel: str) -> str:
        """Operations for each byte of A, B and C."""
        return f"{self._best_intensity(kernel):.3g}"

    def roofline(self) -> RooflineChart:
        """Every rung in float32 that was measured and counted at SHAPE."""
        found = (self.find(kernel.name, SHAPE) for kernel in LADDER if kernel.name in self.counts)
        records = [one[1] for one in found if one and one[1].arithmetic == "float32"]
        points = [
            Dot(record.rung, one.kernel, one.intensity, record.gflops, levels=self._levels(one))
            for record in records
            for one in [self.counts[record.picked or record.kernel]]
        ]
        cublas = next((record.baseline.gflops for record in records if record.baseline), 0.0)
        profile = self.profiles.get((CUBLAS, SHAPE, "float32"))
        if cublas and profile and (asked := profile.asked_bytes):
            flops = profile.problem.flops
            points.append(Dot(0, CUBLAS, flops / asked, cublas, levels=_measured_levels(profile)))
            cublas = 0.0
        return RooflineChart(points, course_gpu(), self._best_intensity(points[0].name) if points else 1.0, cublas)

    def _levels(self, one: Counted) -> dict[str, float]:
        """Operations for each byte of further levels of memory: counted, and measured where there is a profile."""
        flops = Problem.parse(one.shape).flops
        shared = {roofline.SHARED: flops / (WAVEFRONT_BYTES * one.wavefronts)} if one.wavefronts else {}
        profile = self.profiles.get((one.kernel, one.shape, one.dtype))
        return shared | (_measured_levels(profile) if profile else {})

    def count(self, kernel: str) -> Counted:
        """Counts of a rung.

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


def _ratio(slower: Measured, faster: Measured) -> float:
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
