"""How near the model is to what was measured: times that `explain` gives next to records and to the sources' figures.

Run as `python -m studies.counters.nearness` to predict everything anew and write it to a file; needs no GPU.
Tests hold the model to these, and docs/counters.md has them in a table.
"""

import math
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, TypeAdapter

from studies import published, saved
from studies.results import H200, path
from studies.runner import reporting
from studies.templates import block
from tilewright.analysis.cost import predict
from tilewright.analysis.explanation import explain
from tilewright.bench.records import Record, Run
from tilewright.core.errors import RecordsError
from tilewright.core.gpus import Gpu, gpu_named, limits
from tilewright.core.problem import Problem
from tilewright.engines.relayouts import as_read
from tilewright.kernels import find, recorded
from tilewright.kernels.families import Staging, Warpgroups
from tilewright.kernels.spec import Config, Kernel

_SOURCES: tuple[tuple[str, str, str, Mapping[int, float], str], ...] = (
    ("the first worklog", "RTX A6000", "4092x4092x4092", published.A6000, "a6000"),
    ("notes on a GH200", "GH200", "4096x4096x4096", published.GH200, ""),
    *(("notes on an RTX 3060", "RTX 3060", shape, speeds, "rtx3060") for shape, speeds in published.RTX3060.items()),
)
"""What published a table, of which GPU and problem, and the preset that has its tiles. Of other rungs, the config that
the GPU gets is predicted. Of cuBLAS nothing is."""
_ALONG_N = {"rtx3060": {1: {"X_ALONG_N": 1}}}
"""Where a source's kernel of a rung has another mapping."""


class Nearness(BaseModel):
    """A launch, measured and predicted."""

    source: str
    """The file of records, or what published the figure."""
    gpu: str
    kernel: str
    rung: int
    shape: str
    dtype: str
    config: dict[str, int]
    measured_us: float
    predicted_us: float

    @property
    def ratio(self) -> float:
        """The predicted time over the measured one."""
        return self.predicted_us / self.measured_us


class Measured(NamedTuple):
    """A launch, measured."""

    source: str
    """As `Nearness` has it."""
    gpu: Gpu
    kernel: Kernel
    config: Config
    problem: Problem
    us: float

    def facts(self) -> dict[str, Any]:
        """What `Nearness` says of it, but for what is predicted."""
        return {
            "source": self.source,
            "gpu": self.gpu.name,
            "kernel": self.kernel.name,
            "rung": self.kernel.rung,
            "shape": self.problem.shape,
            "dtype": self.problem.dtype,
            "config": dict(self.config),
            "measured_us": self.us,
        }

    def predicted_us(self) -> float:
        """What `explain` says."""
        return predicted_us(self.kernel, self.config, self.problem, self.gpu)


@cache  # a launch is in several files
def predicted_us(kernel: Kernel, config: Config, problem: Problem, gpu: Gpu) -> float:
    """What `explain` says, in microseconds; counted and compiled only where the model takes counts and registers."""
    from tilewright.engines import nvrtc  # noqa: PLC0415 loading it takes a fifth of a second

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


def measured(results: Path = H200, gpu: str = "H200") -> Iterator[Measured]:
    """All that predictions are compared with: `of_records`, then `of_sources`."""
    yield from of_records(results, gpu)
    yield from of_sources()


def of_records(results: Path, gpu: str) -> Iterator[Measured]:
    """Every verified record of a square, row-major product without epilogue, of a config that there is today."""
    where = gpu_named(gpu)
    for file in sorted(results.glob("*.json")):
        try:
            records = Run.load(file).records
        except RecordsError:
            continue  # a file of another kind
        for record in filter(_judged, records):
            kernel = find(record.picked or record.kernel)
            if (config := recorded(kernel.name, record.config)) is not None:
                yield Measured(file.name, where, kernel, config, record.problem, record.time_us.median)


def _judged(record: Record) -> bool:
    square = record.m == record.n == record.k and record.batch == 1 and record.layout == "NN"
    return square and record.verified and not (record.bias or record.activation or record.prepared)


def of_sources() -> Iterator[Measured]:
    """Every figure of a rung that the sources published."""
    for source, gpu, shape, speeds, preset in _SOURCES:
        where = gpu_named(gpu)
        for rung in filter(None, speeds):
            kernel = find(str(rung))
            overrides = kernel.presets.get(preset, _ALONG_N.get(preset, {}).get(rung, {}))
            config = kernel.config(overrides, capability=where.capability)
            problem = Problem.parse(shape, arithmetic=kernel.takes.arithmetic())
            yield Measured(source, where, kernel, config, problem, problem.flops / speeds[rung] / 1e3)


def mean(rows: Iterable[Nearness]) -> float:
    """How far predictions are off, in the geometric mean: 0.1 for a tenth, in either direction."""
    return math.exp(statistics.mean(abs(math.log(row.ratio)) for row in rows)) - 1


def worst(rows: Iterable[Nearness]) -> Nearness:
    """The row whose prediction is furthest off."""
    return max(rows, key=lambda row: abs(math.log(row.ratio)))


_FILE = TypeAdapter(list[Nearness])


def load() -> list[Nearness]:
    """What was predicted.

    Raises:
        RecordsError: the file cannot be read, or is none of predictions.
    """
    return saved.load(path("predicted"), _FILE, "predictions", "a file of predictions")


def section() -> str:
    """A table of the committed predictions: by kernel on the H200, and by source."""
    rows = load()
    ours = [row for row in rows if row.source.endswith(".json")]
    groups: dict[tuple[str, str], list[Nearness]] = {}
    for row in sorted(ours, key=lambda row: (not row.rung, row.rung, row.kernel)):
        groups.setdefault((f"{row.rung or ''} `{row.kernel}`".strip(), row.gpu), []).append(row)
    groups[f"all {len(ours)}", "H200"] = ours
    for row in rows:
        if row not in ours:
            groups.setdefault((row.source, row.gpu), []).append(row)
    return block("counters/tables.md.j2", "nearness", groups=groups, mean=mean, worst=worst)


@reporting
def main() -> int:
    """Predict everything; returns the exit status."""
    rows = [Nearness(**one.facts(), predicted_us=one.predicted_us()) for one in measured()]
    saved.save(path("predicted"), _FILE, rows)
    print(section())
    return 0


if __name__ == "__main__":
    sys.exit(main())
