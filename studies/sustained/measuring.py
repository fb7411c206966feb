"""Sustained speeds of a GPU.

Each product runs in a row for seconds, by ours and by cuBLAS in turns, and so do the tensor cores' instructions by
themselves (bare_products.py); clocks and power are read while they run. Samples of a benchmark are too short for the
clocks to fall to what the power limit leaves.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from studies.record import Measurement
from studies.sustained.bare_products import Bare
from tilewright.core.problem import Problem
from tilewright.kernels.kernel import Choice
from tilewright.runtime.base import Engine, Work
from tilewright.tools.bench.environment import gpu_state
from tilewright.tools.bench.measure import BaselineLibrary, operand_sets, work_on
from tilewright.tools.bench.ncu import problem_of
from tilewright.tools.bench.run import baseline_library, pick
from tilewright.tools.bench.verify import Operands

SECONDS = 2.0
"""How long each runs at a time, of which the second half is timed."""
ROUNDS = 2
"""In which all works of a product take turns."""
PRODUCTS = (
    ("bfloat16", "4096x4096x4096", "NN"),
    ("bfloat16", "4096x4096x4096", "NT"),
    ("bfloat16", "4096x14336x4096", "NT"),
    ("bfloat16", "8192x8192x8192", "NN"),
    ("float8_e4m3fn", "8192x8192x8192", "NT"),
)
BARE = (
    Bare("bfloat16", 64, 256),
    Bare("bfloat16", 128, 128),
    Bare("float8_e4m3fn", 64, 256),
    Bare("float8_e4m3fn", 128, 128),
    Bare("float8_e4m3fn", 64, 256, "registers"),
    Bare("float8_e4m3fn", 128, 128, "registers"),
    Bare("float8_e4m3fn", 128, 128, "registers, loaded for each stage"),
)
OURS, BARELY = "tilewright", "tensor cores alone"
_SETS = 2
_CALIBRATION = 10


class State(NamedTuple):
    """State of a GPU while a work runs in a row."""

    us: float
    """Microseconds of a launch."""
    sm_clock_mhz: float | None
    power_w: float | None


def sustain(engine: Engine, work: Work, seconds: float = SECONDS) -> State:
    """Run a work in a row: the time of a launch in the second half, and what sensors say in the middle of that."""
    stream = getattr(engine, "stream", None)

    def run(launches: int, in_the_middle: Callable[[], None] = lambda: None) -> float:
        engine.synchronize()
        start = time.perf_counter()
        for index in range(launches):
            work(index, stream)
            if index == launches // 2:
                in_the_middle()
        engine.synchronize()
        return (time.perf_counter() - start) / launches

    found = []
    run(1)
    launches = max(2, int(seconds / 2 / run(_CALIBRATION)))
    run(launches)
    us = 1e6 * run(launches, lambda: found.append(gpu_state(engine)))
    return State(us, found[0].sm_clock_mhz, found[0].power_w) if found[0] else State(us, None, None)


def _mean(who: str, what: str, flops: int, states: Sequence[State]) -> Measurement:
    """Mean of the states in which a work ran several times."""
    us, clock, power = (
        statistics.fmean(known) if (known := [one for one in values if one is not None]) else None
        for values in zip(*states, strict=True)
    )
    facts = {"tflops": flops / (us or math.nan) / 1e6, "sm_clock_mhz": clock, "power_w": power}
    return Measurement(what={"product": what}, way=who, us=us, facts=facts)


def of_products(
    engine: Engine,
    library: BaselineLibrary | None,
    choose: Callable[[Problem], Choice],
    products: Sequence[tuple[str, str, str]] = PRODUCTS,
    seconds: float = SECONDS,
) -> Iterator[Measurement]:
    """Each product by the kernel that `choose` returns, and by all works of the library.

    Args:
        engine: where.
        library: cuBLAS; None without it.
        choose: a kernel and its config for a problem.
        products: element type, sizes and layout of each; results are in bfloat16.
        seconds: of each work.
    """
    for dtype, shape, layout in products:
        problem = problem_of(shape, layout, dtype, "bfloat16")
        random = np.random.default_rng(0)
        shapes = (problem.m, problem.k), (problem.k, problem.n)
        a, b = (random.standard_normal(shape, np.float32).astype(dtype) for shape in shapes)
        sets = operand_sets(engine, Operands(problem, a, b, np.zeros((problem.m, problem.n), "bfloat16")), _SETS)
        ours = work_on(engine, engine.plan(*choose(problem), problem), sets)
        works: dict[str, Work] = {OURS: ours, **(library.works(problem, sets) if library else {})}
        rounds = [[sustain(engine, work, seconds) for work in works.values()] for _ in range(ROUNDS)]
        for who, states in zip(works, zip(*rounds, strict=True), strict=True):
            yield _mean(who, f"{shape} {layout} {dtype}", problem.flops, states)


def of_bare(engine: Engine, seconds: float = SECONDS, forms: Sequence[Bare] = BARE) -> Iterator[Measurement]:
    """The tensor cores' instructions by themselves, on every multiprocessor; nothing where it is not Hopper's GPU."""
    if engine.name != "cuda" or engine.capability != (9, 0):
        return
    gpu: Any = engine
    blocks = gpu.device.properties.multiprocessor_count
    for bare in forms:
        work = bare.work(gpu, blocks)
        yield _mean(BARELY, str(bare), bare.flops(blocks), [sustain(engine, work, seconds)])


def measurements(engine: Engine) -> Iterator[Measurement]:
    """Every work of every product, and the bare instructions."""
    yield from chain(of_products(engine, baseline_library(engine), partial(pick, engine)), of_bare(engine))
