"""Sustained speeds of a GPU.

Each product runs in a row for seconds, by ours and by cuBLAS in turns, and so do the tensor cores' instructions by
themselves (bare_products.py); clocks and power are read while they run. Samples of a benchmark are too short for the
clocks to fall to what the power limit leaves.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from studies.record import Measurement
from studies.sustained.bare_products import Bare, drawn
from tilewright.core.dtypes import INT8, SUMS_OF_INT8
from tilewright.core.problem import Problem
from tilewright.kernels.kernel import Choice, valid_configs
from tilewright.kernels.support import Addresses
from tilewright.runtime.base import Engine, Work
from tilewright.runtime.relayouts import jobs
from tilewright.tools.bench.environment import gpu_state
from tilewright.tools.bench.measure import BaselineLibrary, operand_sets, work_on
from tilewright.tools.bench.ncu import problem_of
from tilewright.tools.bench.records import GpuState
from tilewright.tools.bench.run import baseline_library, pick
from tilewright.tools.bench.verify import Operands
from tilewright.tools.tune.compiling import compiled, compilers

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
CHANGED = (("bfloat16", "4096x4096x4096", "NN"), ("int8", "8192x8192x8192", "NT"))
_TURNS, _TOGETHER = {"PINGPONG": 1}, {"PINGPONG": 0}
CHANGES: Sequence[Mapping[str, int]] = (
    {},
    *({"GROUP_M": group} for group in (1, 4, 8, 16, 32)),
    {"CLUSTER_M": 1, "CLUSTER_N": 1},
    {"CLUSTER_M": 1, "CLUSTER_N": 2},
    {"CLUSTER_M": 2, "CLUSTER_N": 2},
    {"CLUSTER_M": 4, "CLUSTER_N": 1},
    {**_TURNS, "BM": 64, "BN": 256, "STAGES": 5},
    {**_TURNS, "BM": 128, "BN": 128, "STAGES": 6},
    {**_TURNS, "BM": 128, "BN": 192, "STAGES": 5},
    {**_TOGETHER, "BM": 128, "BN": 256, "STAGES": 4},
    {**_TOGETHER, "BM": 256, "BN": 128, "STAGES": 4},
    {**_TOGETHER, "BM": 256, "BN": 192, "STAGES": 3},
    {**_TOGETHER, "BM": 192, "BN": 160, "STAGES": 4, "CONSUMERS": 3},
)
"""Orders of tiles, blocks that load for each other, and tiles of other sizes: bytes through the L2 cache and shared
memory differ."""
OURS, BARELY = "tilewright", "tensor cores alone"
_SETS = 2
_CALIBRATION = 10


class State(NamedTuple):
    """State of a GPU while a work runs in a row."""

    us: float
    """Microseconds of a launch."""
    sm_clock_mhz: float | None = None
    power_w: float | None = None
    joules: float | None = None
    """Energy of a launch."""


def sustain(engine: Engine, work: Work, seconds: float = SECONDS) -> State:
    """Run a work in a row: the time and energy of a launch in the second half, and what sensors say in its middle."""
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

    found: list[GpuState | None] = []

    def sense() -> None:
        found.append(gpu_state(engine))

    run(1)
    launches = max(2, int(seconds / 2 / run(_CALIBRATION)))
    run(launches)
    sense()
    us = 1e6 * run(launches, sense)
    sense()
    before, middle, after = found
    if not (before and middle and after):
        return State(us)
    first, last = before.energy_j, after.energy_j
    joules = None if first is None or last is None else (last - first) / launches
    return State(us, middle.sm_clock_mhz, middle.power_w, joules)


def _mean(who: str, what: str, flops: int, states: Sequence[State]) -> Measurement:
    """Mean of the states in which a work ran several times."""
    us, clock, power, joules = (
        statistics.fmean(known) if (known := [one for one in values if one is not None]) else None
        for values in zip(*states, strict=True)
    )
    facts = {"tflops": flops / (us or math.nan) / 1e6, "sm_clock_mhz": clock, "power_w": power, "joules": joules}
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
        problem, sets = _operands(engine, dtype, shape, layout)
        ours = work_on(engine, engine.plan(*choose(problem), problem), sets)
        works: dict[str, Work] = {OURS: ours, **(library.works(problem, sets) if library else {})}
        yield from _in_turns(engine, f"{shape} {layout} {dtype}", problem, works, seconds)


def of_changes(
    engine: Engine,
    library: BaselineLibrary | None,
    choose: Callable[[Problem], Choice],
    products: Sequence[tuple[str, str, str]] = CHANGED,
    changes: Sequence[Mapping[str, int]] = CHANGES,
    seconds: float = SECONDS / 2,
) -> Iterator[Measurement]:
    """Each product by what `choose` returns, by the same with each change of its config that it takes, and by all works
    of the library: what costs energy, since at its power limit a GPU's speed in a row is products a joule.

    Args:
        engine, library, choose, products, seconds: as of `of_products`.
        changes: parameters, and their values in place of the config's.
    """
    for dtype, shape, layout in products:
        problem, sets = _operands(engine, dtype, shape, layout)
        kernel, config = choose(problem)
        works: dict[str, Work] = dict(library.works(problem, sets)) if library else {}
        configs = dict.fromkeys(valid_configs(kernel, [{**config, **change} for change in changes]))
        with compilers() as threads:
            needed = [job for one in configs for job in jobs(kernel, one, problem, Addresses()).jobs]
            list(threads.map(partial(compiled, engine), needed))
        for one in configs:
            differing = [f"{name}={value}" for name, value in one.items() if config[name] != value]
            works[" ".join(differing) or str(config)] = work_on(engine, engine.plan(kernel, one, problem), sets)
        yield from _in_turns(engine, f"{shape} {layout} {dtype}", problem, works, seconds)


def _operands(engine: Engine, dtype: str, shape: str, layout: str) -> tuple[Problem, Any]:
    """A problem, with sets of operands."""
    problem = problem_of(shape, layout, dtype, SUMS_OF_INT8 if dtype in INT8 else "bfloat16")
    random = np.random.default_rng(0)
    a, b = drawn(random, dtype, problem.m, problem.k), drawn(random, dtype, problem.k, problem.n)
    return problem, operand_sets(
        engine, Operands(problem, a, b, np.zeros((problem.m, problem.n), problem.result)), _SETS
    )


def _in_turns(
    engine: Engine, what: str, problem: Problem, works: Mapping[str, Work], seconds: float
) -> Iterator[Measurement]:
    rounds = [[sustain(engine, work, seconds) for work in works.values()] for _ in range(ROUNDS)]
    for who, states in zip(works, zip(*rounds, strict=True), strict=True):
        yield _mean(who, what, problem.flops, states)


def of_bare(engine: Engine, seconds: float = SECONDS, forms: Sequence[Bare] = BARE) -> Iterator[Measurement]:
    """The tensor cores' instructions by themselves, on every multiprocessor; nothing where it is not Hopper's GPU."""
    if engine.name != "cuda" or engine.capability != (9, 0):
        return
    gpu: Any = engine
    blocks = gpu.device.properties.multiprocessor_count
    for bare in forms:
        work = bare.work(gpu, blocks)
        yield _mean(BARELY, str(bare), bare.flops(blocks), [sustain(engine, work, seconds)])


def measurements(engine: Engine, changes: bool = False) -> Iterator[Measurement]:
    """Every work of every product, and the bare instructions; or products with changes of their configs alone."""
    library, choose = baseline_library(engine), partial(pick, engine)
    if changes:
        yield from of_changes(engine, library, choose)
    else:
        yield from chain(of_products(engine, library, choose), of_bare(engine))


def options(parser: argparse.ArgumentParser) -> None:
    """Add the option to measure changes of configs."""
    parser.add_argument(
        "--changes", action="store_true", help="measure what configs' parameters cost in energy instead"
    )
