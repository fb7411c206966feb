"""How near the model is to what was measured: times that `explain` gives next to records and to the sources' figures.

Run as `python -m studies.counters.nearness write` to predict everything anew and write it to a file; needs no GPU.
Tests hold the model to these, and docs/counters.md has them in a table.
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from studies import published
from studies.record import Measurement, Measurements
from studies.results import H200, every_run, path
from studies.runner import run
from studies.templates import block
from tilewright.core.gpus import Gpu, gpu_named, limits
from tilewright.core.problem import Problem
from tilewright.kernels import find, recorded
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Staging, Warpgroups
from tilewright.kernels.kernel import Kernel
from tilewright.runtime.relayouts import as_read
from tilewright.tools.bench.records import Record
from tilewright.tools.explain.cost.prediction import predict
from tilewright.tools.explain.explanation import explain

_SOURCES: tuple[tuple[str, str, str, Mapping[int, float], str], ...] = (
    ("the first worklog", "RTX A6000", "4092x4092x4092", published.A6000, "a6000"),
    ("notes on a GH200", "GH200", "4096x4096x4096", published.GH200, ""),
    *(("notes on an RTX 3060", "RTX 3060", shape, speeds, "rtx3060") for shape, speeds in published.RTX3060.items()),
)
"""Source of a published table, its GPU and problem, and the preset that has its tiles. For other rungs, the config that
the GPU gets is predicted. Nothing is predicted for cuBLAS."""
_ALONG_N = {"rtx3060": {1: {"X_ALONG_N": 1}}}
"""Where a source's kernel of a rung has another mapping."""


class Launch(NamedTuple):
    """A launch that was measured."""

    source: str
    """The file of records, or what published the figure."""
    gpu: Gpu
    kernel: Kernel
    config: Config
    problem: Problem
    us: float

    def measurement(self, us: float | None = None) -> Measurement:
        """The measurement, with a predicted time."""
        what: dict[str, str | int] = {"source": self.source, "gpu": self.gpu.name}
        what |= {"shape": self.problem.shape, "dtype": self.problem.dtype}
        facts = {"rung": self.kernel.rung, "config": dict(self.config), "measured_us": self.us}
        return Measurement(what=what, way=self.kernel.name, us=us, facts=facts)


@cache  # a launch is in several files
def predicted_us(kernel: Kernel, config: Config, problem: Problem, gpu: Gpu) -> float:
    """Microseconds that `explain` predicts; counted and compiled only where the model needs counts and registers."""
    from tilewright.runtime import nvrtc  # noqa: PLC0415 loading it takes a fifth of a second

    if isinstance(kernel.cost, Staging):
        cost = explain(kernel, config, problem, gpu).predicted
    elif isinstance(kernel.cost, Warpgroups) and _fills(kernel, config, gpu):
        cost = predict(kernel, config, problem, gpu)
    else:
        variant = kernel.variant(as_read(kernel, config, problem), config)
        report = nvrtc.compile(kernel, config, variant, limits(gpu.capability).arch).report
        cost = predict(kernel, config, problem, gpu, report)
    assert cost is not None, f"{kernel.name} runs on a {gpu.name}"
    return cost.us


def _fills(kernel: Kernel, config: Config, gpu: Gpu) -> bool:
    """Whether a block's shared memory leaves room for no other: then its registers change nothing that is predicted."""
    return 2 * kernel.shared_bytes(config, "NN") > gpu.multiprocessor.shared_bytes


def measured() -> Iterator[Launch]:
    """All that predictions are compared with: `of_records`, then `of_sources`."""
    yield from of_records()
    yield from of_sources()


def of_records() -> Iterator[Launch]:
    """Every verified record of a square product without epilogue, of a config that there is today, with factors in the
    first orders that the kernel takes: row-major, but for rung 31."""
    where = gpu_named("H200")
    for file, of in every_run(H200).items():
        for record in filter(_judged, of.records):
            kernel = find(record.picked or record.kernel)
            if (config := recorded(kernel.name, record.config)) is not None:
                yield Launch(file.name, where, kernel, config, record.problem, record.time_us.median)


def _judged(record: Record) -> bool:
    square = record.m == record.n == record.k and record.batch == 1
    own = record.layout == find(record.picked or record.kernel).support.layouts[0]
    return square and own and record.verified and not (record.bias or record.activation or record.prepared)


def of_sources() -> Iterator[Launch]:
    """Every figure of a rung that the sources published."""
    for source, gpu, shape, speeds, preset in _SOURCES:
        where = gpu_named(gpu)
        for rung in filter(None, speeds):
            kernel = find(str(rung))
            overrides = kernel.presets.get(preset, _ALONG_N.get(preset, {}).get(rung, {}))
            config = kernel.config(overrides, capability=where.capability)
            problem = Problem.parse(shape, arithmetic=kernel.support.arithmetic())
            yield Launch(source, where, kernel, config, problem, problem.flops / speeds[rung] / 1e3)


def ratio(row: Measurement) -> float:
    """The predicted time over the measured one."""
    return (row.us or 0.0) / float(row.facts["measured_us"])


def mean(rows: Iterable[Measurement]) -> float:
    """How far predictions are off, in the geometric mean: 0.1 for a tenth, in either direction."""
    return math.exp(statistics.mean(abs(math.log(ratio(row))) for row in rows)) - 1


def worst(rows: Iterable[Measurement]) -> Measurement:
    """The row whose prediction is furthest off."""
    return max(rows, key=lambda row: abs(math.log(ratio(row))))


def of_us(rows: Iterable[Measurement]) -> list[Measurement]:
    """Rows of launches that are among the records."""
    return [row for row in rows if str(row.what["source"]).endswith(".json")]


def section() -> str:
    """A table of the committed predictions: by kernel on the H200, and by source."""
    rows = Measurements.load(path("predicted")).measurements
    ours = of_us(rows)
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for row in sorted(ours, key=lambda row: (not row.facts["rung"], row.facts["rung"], row.way)):
        groups.setdefault((f"{row.facts['rung'] or ''} `{row.way}`".strip(), str(row.what["gpu"])), []).append(row)
    groups[f"all {len(ours)}", "H200"] = ours
    for row in rows:
        if row not in ours:
            groups.setdefault((str(row.what["source"]), str(row.what["gpu"])), []).append(row)
    return block("counters/tables.md.j2", "nearness", groups=groups, mean=mean, worst=worst, off=ratio)


def write() -> None:
    """Predict everything.

    Raises:
        RecordsError: the file cannot be written.
    """
    rows = [one.measurement(predicted_us(one.kernel, one.config, one.problem, one.gpu)) for one in measured()]
    Measurements(environment={}, measurements=rows).save(path("predicted"))


if __name__ == "__main__":
    raise SystemExit(run("counters.nearness", __doc__, write=write))
