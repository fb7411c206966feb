"""The sources that the ladder follows, next to this ladder: their speeds, and counters of their configs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from studies import published, saved
from studies.markdown import table
from studies.profiles.measuring import SHAPE
from studies.worklog import hoisting
from studies.worklog.accesses import Accesses
from studies.worklog.accesses import all_counted as all_accesses
from studies.worklog.counted import Counted, counted
from studies.worklog.facts import Facts, problem_of
from studies.worklog.hoisting import Loops
from studies.worklog.metrics import METRICS
from studies.worklog.varying import swept
from tilewright.bench.records import Record
from tilewright.core.gpus import Gpu, gpu_named
from tilewright.core.hardware import WARP
from tilewright.core.problem import LAYOUTS
from tilewright.kernels import LADDER, find, resolve
from tilewright.kernels.spec import Config
from tilewright.report.ratios import baseline_speed, quotient, share, speed

_A6000_SHAPE = "4092x4092x4092"
_SWEPT_GPU: Gpu = gpu_named("RTX 3060")


class SourceCounts(BaseModel):
    """What is counted for the sources' sake."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    accesses: list[Accesses]
    presets: list[Counted]
    """Of FastCuda's versions, on the GPU of the records."""
    sweep: list[Counted]
    """Of the RTX 3060 notes' kernels with other tiles, on that GPU."""
    loops: Loops
    """Of rung 4, as written and with its loops the other way round."""


_FILE = TypeAdapter(SourceCounts)


def all_counted() -> SourceCounts:
    """Count everything.

    Raises:
        EngineUnavailableError: there is no C++ compiler, no NVRTC or no disassembler.
    """
    presets = []
    for version in published.FASTCUDA:
        kernel, overrides = resolve(version.preset)
        presets.append(counted(kernel, kernel.config(overrides), problem_of(kernel)))
    sweep = [counted(kernel, config, problem_of(kernel), _SWEPT_GPU) for kernel, config in swept()]
    return SourceCounts(accesses=all_accesses(), presets=presets, sweep=sweep, loops=hoisting.compiled())


def save(path: Path, counts: SourceCounts) -> None:
    """Write counts as JSON. The file appears whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    saved.save(path, _FILE, counts)


def load(path: Path) -> SourceCounts:
    """What was saved.

    Raises:
        RecordsError: the file cannot be read, or is none of such counts.
    """
    return saved.load(path, _FILE, "counts", "a file of counts of sources")


def a6000(facts: Facts) -> str:
    """A table of the first worklog's speeds on an A6000, and of ours, each next to cuBLAS on the same GPU."""
    return _next_to_ours(facts, {_A6000_SHAPE: published.A6000}, "A6000")


def rtx3060(facts: Facts) -> str:
    """The same of the RTX 3060 notes' speeds."""
    return _next_to_ours(facts, published.RTX3060, "RTX 3060")


def _next_to_ours(facts: Facts, speeds: Mapping[str, Mapping[int, float]], gpu: str) -> str:
    rows = []
    for shape, by_rung in speeds.items():
        for rung in filter(None, by_rung):
            kernel, cublas = find(str(rung)), by_rung[0]
            record = facts.record(kernel.name, shape)
            theirs = f"{100 * quotient(by_rung[rung], cublas):.1f}%"
            ours = (speed(record.gflops), baseline_speed(record), share(record))
            rows.append((shape, f"{rung} {kernel.name}", speed(by_rung[rung]), speed(cublas), theirs, *ours))
    heads = ("m x n x k", "rung", f"{gpu}, GFLOP/s", "cuBLAS there", "of cuBLAS")
    return table((*heads, "H200, GFLOP/s", "cuBLAS, same run", "of cuBLAS"), rows, "llrrrrrr")


def orders_of_factors(facts: Facts) -> str:
    """A table of what `matmul` picks at the RTX 3060 notes' sizes in each order of A and B, next to cuBLAS."""
    rows = []
    for shape in published.RTX3060:
        for layout in LAYOUTS:
            if record := facts.picked(shape, layout):
                cells = (speed(record.gflops), baseline_speed(record), share(record))
                rows.append((shape, layout, f"`{record.picked}`", *cells))
    heads = ("m x n x k", "orders", "kernel", "GFLOP/s", "cuBLAS, same run", "of cuBLAS")
    return table(heads, rows, "lllrrr")


def hopper(facts: Facts) -> str:
    """A table of speeds of the same chip at SHAPE: notes on a GH200, SGEMM_CUDA and this ladder on an H200."""
    rows = [
        (
            f"{kernel.rung} {kernel.name}",
            *(speed(of[kernel.rung]) if kernel.rung in of else "" for of in _HOPPER),
            speed(facts.record(kernel.name, SHAPE).gflops),
        )
        for kernel in LADDER
        if any(kernel.rung in of for of in _HOPPER)
    ]
    ours = baseline_speed(facts.record("naive", SHAPE))
    rows.append(("cuBLAS", *(speed(of[0]) for of in _HOPPER), ours))
    return table(("", "notes, GH200", "SGEMM_CUDA, H200", "this ladder, H200"), rows, "lrrr")


_HOPPER = (published.GH200, published.SGEMM_CUDA_ON_H200)


def fast_cu(facts: Facts) -> str:
    """A table of fast.cu's steps on an H100, and of the rungs with the same ideas on an H200."""
    return _steps(facts, published.FAST_CU)


def fast_cu_step(facts: Facts, rung: int) -> str:
    """The rows of one rung.

    Raises:
        LookupError: fast.cu has no such step.
    """
    return _steps(facts, {rung: published.FAST_CU[rung]})


def _steps(facts: Facts, steps: Mapping[int, published.Step]) -> str:
    rows = []
    for shape in sorted({shape for step in steps.values() for shape in step.gflops}):
        cublas = published.CUBLAS_OF_FAST_CU.get(shape)
        for rung, step in steps.items():
            kernel, theirs = find(str(rung)), step.gflops.get(shape)
            if theirs is None:
                continue
            record = facts.find_record(kernel.name, shape)
            there = (speed(cublas), f"{100 * quotient(theirs, cublas):.1f}%") if cublas else ("", "")
            ours = (speed(record.gflops), baseline_speed(record), share(record)) if record else ("", "", "")
            rows.append((shape, f"{rung} {kernel.name}", step.idea, speed(theirs), *there, *ours))
    heads = ("m x n x k", "rung", "fast.cu's step", "H100, GFLOP/s", "cuBLAS there", "of cuBLAS")
    return table((*heads, "H200, GFLOP/s", "cuBLAS, same run", "of cuBLAS"), rows, "lllrrrrrr")


def fast_cu_here() -> str:
    """The speed of its last step on an H200."""
    return speed(published.FAST_CU_ON_H200)


def fastcuda(counts: Sequence[Counted], measured: Mapping[str, Record], gpu: str) -> str:
    """A table of FastCuda's versions: what each adds and needs, its counters here, and its speed at SHAPE.

    Args:
        counts: of the versions.
        measured: by preset.
        gpu: that they were measured on.
    """
    metrics = ("intensity", "ffmas_a_wavefront", "registers", "warps")
    rows = []
    for version, one in zip(published.FASTCUDA, counts, strict=True):
        record = measured[version.preset]
        rows.append(
            (
                version.name,
                version.adds,
                version.needs,
                f"`{version.preset}`",
                *(_cell(name, one) for name in metrics),
                speed(record.gflops),
                baseline_speed(record),
                share(record),
            )
        )
    heads = ("", "adds", "needs", "here", *(METRICS[name].label for name in metrics))
    reached = (f"it on one {gpu}, {SHAPE}, GFLOP/s", "cuBLAS, same run", "of cuBLAS")
    return table((*heads, *reached), rows, "llll" + "r" * (len(metrics) + len(reached)))


def sweep(counts: Sequence[Counted]) -> str:
    """A table of the RTX 3060 notes' kernels with other tiles: counters on that GPU."""
    metrics = ("intensity", "ffmas_a_wavefront", "load_conflicts", "registers", "shared")
    rows = []
    for one in counts:
        kernel, config = find(one.kernel), Config(one.config)
        level, longest = max(one.times_us.items(), key=lambda item: item[1])
        tile = (config.BM, f"{config.TM} x {config.TN}", kernel.threads(config))
        cells = (*(_cell(name, one) for name in metrics), one.warps)
        rows.append((f"{kernel.rung} {kernel.name}", *tile, *cells, level, f"{longest / 1e3:.1f} ms"))
    most = _SWEPT_GPU.multiprocessor.threads // WARP
    heads = ("", "TILE", "a thread", "threads", *(METRICS[name].label for name in metrics))
    return table(
        (*heads, f"warps, of {most}", "longest of the least times", "that time"),
        rows,
        "lrlr" + "r" * (len(metrics) + 1) + "lr",
    )


def _cell(name: str, one: Counted) -> str:
    value = METRICS[name].value(one)
    return "" if value is None else METRICS[name].text(value)
