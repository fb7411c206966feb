"""Explained counters next to those of Nsight Compute, for rungs 1 to 12.

`python -m studies.counters.validation measure --out FILE` takes a GPU and the profiler: it profiles every rung on every
shape, and explains each. `... write` explains anew what the committed file has, on any machine.
"""

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from studies.record import Measurement, Measurements
from studies.results import path
from studies.runner import run
from studies.templates import block
from tilewright.core.errors import RecordsError
from tilewright.core.gpus import Gpu, find_gpu
from tilewright.core.problem import Problem
from tilewright.kernels import LADDER, find
from tilewright.runtime.base import Engine
from tilewright.tools.bench import ncu
from tilewright.tools.explain.explanation import explain, to_json
from tilewright.tools.report.explain_tables import difference

SHAPES = ("256x256x256", "197x131x67")
"""One that all tiles divide, one that nothing does."""
LAST_RUNG = 12

_SHARED = (
    "shared load wavefronts",
    "shared load bank conflicts",
    "shared store wavefronts",
    "shared store bank conflicts",
)
"""Counters that may be off by 5%; by instruction where the profiler has them so."""
_EXACT = (
    "global load requests",
    "global load sectors",
    "global store requests",
    "global store sectors",
    "ffma of threads",
)
"""Counters that must be equal to the last unit."""


def launches(capability: tuple[int, int], shapes: Sequence[str] = SHAPES) -> list[ncu.ProfiledLaunch]:
    """Launches that are compared: the ladder's configs for GPUs of a compute capability."""
    return [
        ncu.ProfiledLaunch.of(
            kernel, kernel.config(capability=capability), Problem.parse(shape, arithmetic=kernel.support.arithmetic())
        )
        for kernel in LADDER
        if kernel.rung <= LAST_RUNG
        for shape in shapes
    ]


def compared(launch: ncu.ProfiledLaunch, counted: Mapping[str, float], gpu: Gpu) -> Measurement:
    """A launch as the profiler counted it, explained. Its error is how many counters differ by more than they may."""
    facts = {"launch": launch.model_dump(), "ncu": counted, "explained": explained(launch, gpu)}
    one = Measurement(what={"shape": launch.shape}, way=launch.kernel, limit=0, facts=facts)
    differ = [f"{name} {difference(*counts)}" for name, *counts in _both(_named(one)) if counts[0] != counts[1]]
    more = {"differ": ", ".join(differ) or "none"}
    return one.model_copy(update={"error": float(len(list(failures(one)))), "facts": facts | more})


def explained(launch: ncu.ProfiledLaunch, gpu: Gpu) -> dict[str, Any]:
    """The counters of a launch that the comparison keeps."""
    kernel = find(launch.kernel)
    facts = to_json(explain(kernel, kernel.config(launch.config), launch.problem, gpu))
    return {name: facts[name] for name in (*dict.fromkeys(metric.path[0] for metric in ncu.METRICS), "notes")}


def _named(one: Measurement) -> dict[str, ncu.CounterRow]:
    return {row.name: row for row in ncu.compare(one.facts["explained"], one.facts["ncu"])}


def _both(rows: Mapping[str, ncu.CounterRow]) -> Iterator[tuple[str, int, int]]:
    """Names, and counts explained and profiled, of counters that both have."""
    for name, row in rows.items():
        if row.ours is not None and row.theirs is not None:
            yield name, row.ours, row.theirs


def markdown(run: Measurements) -> str:
    """One row a launch: what the profiler counted, and how far the explained counters are off."""
    rows = [(one, _judged(one)) for one in run.measurements]
    return block(
        "counters/tables.md.j2", "validation", run=run, rows=rows, names=(*_EXACT, *_SHARED), difference=difference
    )


def failures(one: Measurement, within: float = 0.05) -> Iterator[str]:
    """Where the two differ by more than they may: global memory and multiply-adds at all, shared memory by 5%."""
    for name, ours, theirs in _both(_judged(one)):
        if abs(ours - theirs) > (within * theirs if name in _SHARED else 0):
            yield f"{one.way} {one.what['shape']}: {name} {ours:,}, not {theirs:,}"


def _judged(one: Measurement) -> dict[str, ncu.CounterRow]:
    """The counters that must agree."""
    named = _named(one)
    found = {name: named[name] for name in _EXACT if name in named}
    for name in _SHARED:
        if name in named:
            without_waits = named.get(f"{name}{ncu.BY_INSTRUCTION}")
            found[name] = without_waits if without_waits and without_waits.theirs is not None else named[name]
    return found


def options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--shape", action="append", help=f"MxNxK; {' and '.join(SHAPES)} if left out")


def measurements(engine: Engine, shape: Sequence[str] | None) -> Iterator[Measurement]:
    """Every rung on every shape, profiled and explained.

    Raises:
        EngineUnavailableError: there is no GPU or profiler.
    """
    ncu.check_available()
    assert engine.capability is not None
    listed, gpu = launches(engine.capability, shape or SHAPES), find_gpu(engine.device_name, engine.capability)
    for launch, counted in zip(listed, ncu.profile(listed), strict=True):
        yield compared(launch, counted, gpu)


def explained_anew(run: Measurements) -> Measurements:
    """Measurements of a run's launches, as they are explained today.

    Raises:
        EngineUnavailableError: there is no C++ compiler.
    """
    launches = [(ncu.ProfiledLaunch(**one.facts["launch"]), one.facts["ncu"]) for one in run.measurements]
    found = [compared(launch, counted, run.gpu) for launch, counted in launches]
    return run.model_copy(update={"measurements": found})


def write() -> None:
    """Explain what the committed file has.

    Raises:
        RecordsError: the file cannot be read or written, or counters differ by more than they may.
    """
    run = explained_anew(Measurements.load(path("counters")))
    run.save(path("counters"))
    if failed := [text for one in run.measurements for text in failures(one)]:
        raise RecordsError("; ".join(failed))


if __name__ == "__main__":
    raise SystemExit(run("counters.validation", __doc__, measurements, write, options))
