"""Measures one rung in a run of its own: at the sizes of its page, next to other configs and cuBLAS, and in a row.

    python -m studies.worklog measure --rung wgmma_int8 --out FOLDER

Files of the folder: wgmma_int8.json, of samples in turns, and wgmma_int8_in_a_row.json, of works that run for seconds
one after the other, the tensor cores alone among them.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from studies.profiles.measuring import problem_of
from studies.record import Measurement, Measurements
from studies.results import paths
from studies.sustained.bare_products import Bare
from studies.sustained.measuring import sustain
from studies.templates import block
from studies.worklog.facts import MEASURED_SHAPES
from studies.worklog.varying import Task
from tilewright.kernels import find
from tilewright.kernels.kernel import Choice, Kernel
from tilewright.runtime.base import Engine, Work
from tilewright.tools.bench.measure import BaselineLibrary, operand_sets, work_on
from tilewright.tools.bench.records import Run
from tilewright.tools.bench.verify import Operands

OTHERS: Mapping[str, Sequence[tuple[str, Mapping[str, int]]]] = {
    "wgmma_int8": (
        ("wgmma_int8", {"BM": 64, "BN": 256}),
        ("wgmma_int8", {"BN": 128, "STAGES": 6}),
        ("gemm_int8", {"BN": 192, "STAGES": 5, "GROUP_M": 8, "PINGPONG": 1, "CLUSTER_M": 2}),
        ("gemm_int8", {"GROUP_M": 8, "CLUSTER_M": 2}),
    )
}
"""Rungs that may be measured so, and the configs that take turns with each."""

BARE = Bare("int8", 64, 256), Bare("bfloat16", 64, 256)
"""Tensor cores alone, next to a rung in a row."""

IN_A_ROW = MEASURED_SHAPES[-1]
_SETS, _FEW = 2, 8
_PAUSE_S, _SECONDS = 0.5, 1.0


def choices(kernel: Kernel) -> list[Choice]:
    """The rung, and what takes turns with it."""
    return [Choice(find(name), find(name).config(one)) for name, one in ((kernel.name, {}), *OTHERS[kernel.name])]


def tasks(kernel: Kernel) -> list[Task]:
    """The rung at the sizes of its page."""
    return [Task(problem_of(kernel, shape), choices(kernel)) for shape in MEASURED_SHAPES]


def measurements(engine: Engine, library: BaselineLibrary | None, kernel: Kernel) -> Iterator[Measurement]:
    """Speeds of a few runs after a pause, and in a row, at the largest of these sizes."""
    problem = problem_of(kernel, IN_A_ROW)
    sets = operand_sets(engine, Operands.draw(problem), _SETS)
    works: dict[str, tuple[Work, int]] = {
        _named(one, config): (work_on(engine, engine.plan(one, config, problem), sets), problem.flops)
        for one, config in choices(kernel)
    }
    works |= {name: (work, problem.flops) for name, work in (library.works(problem, sets) if library else {}).items()}
    gpu: Any = engine
    blocks = gpu.device.properties.multiprocessor_count
    works |= {f"tensor cores alone, {one.dtype}": (one.work(gpu, blocks), one.flops(blocks)) for one in BARE}
    for way, (work, flops) in works.items():
        after_pause, state = _after_pause(engine, work), sustain(engine, work, _SECONDS)
        tops, in_a_row = (flops / us / 1e6 for us in (after_pause, state.us))
        power = state.power_w if state.joules is None else 1e6 * state.joules / state.us
        facts = {"tops": tops, "tops_in_a_row": in_a_row, "sm_clock_mhz": state.sm_clock_mhz, "power_w": power}
        yield Measurement(what={"shape": problem.shape, "case": problem.case}, way=way, us=state.us, facts=facts)


def _after_pause(engine: Engine, work: Work) -> float:
    """Microseconds of a launch, of a few after a pause."""
    stream = getattr(engine, "stream", None)
    work(0, stream)  # loads its code
    engine.synchronize()
    time.sleep(_PAUSE_S)
    start = time.perf_counter()
    for index in range(_FEW):
        work(index, stream)
    engine.synchronize()
    return 1e6 * (time.perf_counter() - start) / _FEW


def table(kernel: Kernel) -> str:
    """Tables of a rung's own run, or the command that makes it where there is none."""
    of_turns, in_a_row = paths(kernel.name)
    if not (of_turns.exists() and in_a_row.exists()):
        return block("worklog/alone.md.j2", "missing", kernel=kernel, folder=of_turns.parent)
    run, states = Run.load(of_turns), Measurements.load(in_a_row)
    by_shape: dict[str, dict[str, Any]] = {}
    for record in run.records:
        by_shape.setdefault(record.shape, {})[_named(find(record.kernel), record.config)] = record
    return block("worklog/alone.md.j2", "alone", run=run, by_shape=by_shape, states=states)


def _named(kernel: Kernel, config: Mapping[str, int]) -> str:
    """A config of a kernel, as tables have it."""
    tile = kernel.tile(kernel.config(config))
    return f"{kernel.name} {tile.m} x {tile.n}"
