"""The sources that the ladder follows, next to this ladder: their speeds, and counters of their configs."""

from collections.abc import Mapping, Sequence

from studies import published
from studies.profiles.measuring import SHAPE, problem_of
from studies.results import course_gpu
from studies.templates import block
from studies.worklog.counted import Accesses, Counted, all_accesses, counted
from studies.worklog.facts import Facts
from studies.worklog.metrics import METRICS, cell
from studies.worklog.varying import swept
from tilewright.core.errors import RecordsError
from tilewright.core.gpus import Gpu, gpu_named
from tilewright.core.hardware import WARP
from tilewright.core.problem import LAYOUTS, Problem, Scalars
from tilewright.kernels import LADDER, find, resolve
from tilewright.kernels.config import Config
from tilewright.tools.bench.records import Facts as Recorded
from tilewright.tools.bench.records import Record, Run, RunFile
from tilewright.tools.explain.explanation import explain
from tilewright.tools.report.ratios import quotient

_TEMPLATE = "worklog/sources.md.j2"
_SWEPT_GPU: Gpu = gpu_named("RTX 3060")
_A6000_PRESETS = {9: "autotuned:a6000", 10: "warptiled:a6000"}
PREDICTED_AT = ("4092x4092x4092", "4096x4096x4096")
"""The first worklog's size, whose tiles are guarded, and one that tiles divide."""


class Predicted(Recorded):
    """The cost model's time of a rung on an A6000."""

    kernel: str
    shape: str
    gflops: float
    registers: int
    """Registers of a thread."""
    warps: int
    """Warps that a multiprocessor holds."""


class SourceCounts(RunFile):
    """Counts for comparison with the sources."""

    accesses: list[Accesses]
    presets: list[Counted]
    """Counts of FastCuda's versions, on the GPU of the records."""
    sweep: list[Counted]
    """Counts of the RTX 3060 notes' kernels with other tiles, on that GPU."""
    predicted: list[Predicted]
    """The first worklog's rungs at its size and at 4096."""


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
    predicted = [_predicted(rung, shape) for rung in published.A6000 if rung for shape in PREDICTED_AT]
    return SourceCounts(environment={}, accesses=all_accesses(), presets=presets, sweep=sweep, predicted=predicted)


def _predicted(rung: int, shape: str) -> Predicted:
    """Predict a rung on an A6000, with the config that the first worklog has for it."""
    kernel = find(str(rung))
    kernel, overrides = resolve(_A6000_PRESETS.get(rung, kernel.name))
    problem = Problem.parse(shape)
    one = explain(kernel, kernel.config(overrides), problem, gpu_named("RTX A6000"), scalars=Scalars(beta=1.0))
    if one.predicted is None:
        raise RecordsError(f"rung {rung} ({kernel.name}) does not fit on an A6000")
    gflops = problem.gflops(one.predicted.us)
    held = {"registers": one.report.registers or 0, "warps": one.occupancy.warps}
    return Predicted(kernel=kernel.name, shape=shape, gflops=gflops, **held)


def predicted(found: Sequence[Predicted]) -> str:
    """A table of what the cost model says of the first worklog's rungs on an A6000, next to what it published."""
    of = {(one.kernel, one.shape): one for one in found}
    kernels = {rung: find(str(rung)) for rung in published.A6000 if rung}
    return block(_TEMPLATE, "predicted", of=of, kernels=kernels, shapes=PREDICTED_AT, published=published.A6000)


def of_published(found: Sequence[Predicted], rung: str, shape: str) -> str:
    """How many times the published speed of a rung the model predicts at a shape."""
    (one,) = (one for one in found if (one.kernel, one.shape) == (find(rung).name, shape))
    return f"{quotient(one.gflops, published.A6000[int(rung)]):.2f}"


def next_to_ours(facts: Facts, speeds: Mapping[str, Mapping[int, float]], gpu: str) -> str:
    """A table of speeds on another GPU, by sizes and rung, and of ours, each next to cuBLAS on the same GPU."""
    return block(
        _TEMPLATE,
        "next_to_ours",
        here=course_gpu().name,
        gpu=gpu,
        speeds=speeds,
        find=find,
        measurement=facts.measurement,
    )


def orders_of_factors(facts: Facts) -> str:
    """A table of what `matmul` picks at the RTX 3060 notes' sizes in each order of A and B, next to cuBLAS."""
    picked = (facts.picked(shape, layout) for shape in published.RTX3060 for layout in LAYOUTS)
    return block(_TEMPLATE, "orders", picked=list(filter(None, picked)))


def hopper(facts: Facts) -> str:
    """A table of speeds of the same chip at SHAPE: notes on a GH200, SGEMM_CUDA and this ladder on an H200."""
    ladder = [kernel for kernel in LADDER if any(kernel.rung in of for of in _HOPPER)]
    return block(
        _TEMPLATE,
        "hopper",
        here=course_gpu().name,
        ladder=ladder,
        theirs=_HOPPER,
        measurement=facts.measurement,
        shape=SHAPE,
    )


_HOPPER = (published.GH200, published.SGEMM_CUDA_ON_H200)


def fast_cu(facts: Facts, *rungs: int) -> str:
    """A table of fast.cu's steps on an H100, and of the rungs with the same ideas on an H200: of these, or of all.

    Raises:
        LookupError: fast.cu has no such step.
    """
    steps = {rung: published.FAST_CU[rung] for rung in rungs or published.FAST_CU}
    given = {"cublas": published.CUBLAS_OF_FAST_CU, "find": find, "measurement": facts.find}
    return block(_TEMPLATE, "steps", here=course_gpu().name, steps=steps, **given)


def fastcuda(counts: Sequence[Counted], measured: Mapping[str, Record], varied: Run) -> str:
    """A table of FastCuda's versions: what each adds and needs, its counters here, and its speed at SHAPE.

    Args:
        counts: of the versions.
        measured: by preset.
        varied: the run that measured them.
    """
    found = zip(published.FASTCUDA, counts, strict=True)
    versions = [(version, one, measured[version.preset]) for version, one in found]
    given = {"run": varied, "shape": SHAPE, "labels": METRICS, "cell": cell}
    metrics = ("intensity", "ffmas_a_wavefront", "registers", "warps")
    return block(_TEMPLATE, "fastcuda", versions=versions, metrics=metrics, **given)


def sweep(counts: Sequence[Counted]) -> str:
    """A table of the RTX 3060 notes' kernels with other tiles: counters on that GPU."""
    metrics = ("intensity", "ffmas_a_wavefront", "load_conflicts", "registers", "shared")
    most = _SWEPT_GPU.multiprocessor.threads // WARP
    given = {"most": most, "labels": METRICS, "cell": cell, "config_of": Config}
    return block(_TEMPLATE, "sweep", counts=[(find(one.kernel), one) for one in counts], metrics=metrics, **given)
