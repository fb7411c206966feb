"""Profiles of the ladder and of cuBLAS: what Nsight Compute counts of each at the size of its page.

With --library it is of what `matmul` picks for some products of bfloat16, and of cuBLAS on the same. It takes a GPU and
the profiler.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence

from studies.record import Measurement
from tilewright.core.errors import EngineUnavailableError
from tilewright.core.problem import Arithmetic, Problem, orders
from tilewright.kernels import LADDER, find
from tilewright.kernels.kernel import Kernel
from tilewright.runtime.base import Engine
from tilewright.select.selector import select
from tilewright.tools.bench import ncu
from tilewright.tools.bench.profile import Profile, of_launch

SHAPE = "4096x4096x4096"
"""The sizes at which a rung is looked at."""
SHAPES_OF: Mapping[str, str] = {"skinny": "1x4096x4096"}
"""Where a rung is for other problems."""

MORE = (("naive", "4092x4092x4092"),)
"""Further launches: rows of A that are no power of two apart."""

BESIDES = (
    ("wmma_f16", Arithmetic("bfloat16", "float32")),
    ("gemm_mma", Arithmetic("float16")),
    ("gemm_mma", Arithmetic("bfloat16", "float32")),
    ("gemm_mma_tf32", Arithmetic()),
)
"""Kernels and arithmetic that rungs 13 and 14 are compared with, besides what `matmul` picks of each."""
PICKED = (Arithmetic("float16"), Arithmetic("bfloat16", "float32"), Arithmetic(precision="tf32"))

LIBRARY = (
    ("1000x1000x1000", "NN"),
    ("1000x1000x1000", "NT"),
    ("2056x2056x2056", "NN"),
    ("2056x2056x2056", "NT"),
)
"""Products of bfloat16 that `--library` profiles: rows that straddle lines of the L2 cache."""


def measured(one: Profile) -> Measurement:
    """A profile as it is kept: its time is that at the clocks that the profiler found."""
    what = one.model_dump(include={"shape", "dtype", "out_dtype", "layout"})
    facts = {"rung": one.rung, "config": one.config, "launched": one.launched, "counters": one.counters}
    return Measurement(what=what, way=one.kernel, us=one.time_us, facts=facts)


def profile_of(one: Measurement) -> Profile:
    """The profile that was kept."""
    return Profile.model_validate({"kernel": one.way, **one.what, **one.facts})


def of_cublas(problem: Problem, kernels: Sequence[ncu.Profiled], library: str = ncu.CUBLAS) -> Profile:
    """Profile of cuBLAS's kernels, together; library: as of `ncu.profile_cublas`."""

    def time(one: ncu.Profiled) -> float:
        return one.counters.get("gpu__time_duration.sum", 0.0)

    longest = max(kernels, key=time)
    counters = {
        name: value if name.endswith(".ratio") else sum(one.counters.get(name, 0.0) for one in kernels)
        for name, value in longest.counters.items()
    }
    launched = [one.kernel for one in kernels]
    return Profile(**dict(ncu.ProfiledLaunch.of(library, {}, problem)), launched=launched, counters=counters)


def problem_of(kernel: Kernel, shape: str = "", dtype: str = "") -> Problem:
    """The problem at which a rung is looked at, with A and B in the first of the orders that it takes.

    shape, dtype: other sizes, and another element type of A and B.
    """
    a, b = orders(kernel.support.layouts[0])
    shape = shape or SHAPES_OF.get(kernel.name, SHAPE)
    return Problem.parse(shape, arithmetic=kernel.support.arithmetic(dtype), a=a, b=b)


def of_ladder(capability: tuple[int, int], device: str, shape: str = "") -> Iterator[Profile]:
    """Profiles of the rungs that run on GPUs of a compute capability, with their configs for these, of kernels of the
    library next to rungs 13 and 14, and of cuBLAS.

    Args:
        capability, device: of the GPU, and its name.
        shape: of all problems; if left out, that of each rung's page.
    """
    problems = {
        kernel: problem_of(kernel, shape)
        for kernel in LADDER
        if kernel.support.runs_on(capability, kernel.support.arithmetic().factors)
    }
    more = [] if shape else [(find(name), Problem.parse(sizes)) for name, sizes in MORE]
    more += [(find(name), Problem.parse(shape or SHAPE, arithmetic=of)) for name, of in BESIDES]
    launches = [
        ncu.ProfiledLaunch.of(kernel, kernel.config(capability=capability), problem)
        for kernel, problem in (*problems.items(), *more)
    ]
    for arithmetic in PICKED:
        problem = Problem.parse(shape or SHAPE, arithmetic=arithmetic)
        launches.append(ncu.ProfiledLaunch.of(*select(problem, capability, device), problem))
    yield from _of_launches(launches)
    for problem in dict.fromkeys(problems.values()):
        yield from _of_cublas(problem, ncu.CUBLAS)
    yield from _of_cublas(Problem.parse(shape or SHAPE), ncu.CUBLAS_TF32)


def of_library(capability: tuple[int, int], device: str) -> Iterator[Profile]:
    """Profiles of the kernels that `matmul` picks for the products of `LIBRARY`, and of cuBLAS on each.

    Args:
        capability, device: of the GPU, and its name.
    """
    for shape, layout in LIBRARY:
        problem = ncu.problem_of(shape, layout, "bfloat16", "bfloat16")
        yield from _of_launches([ncu.ProfiledLaunch.of(*select(problem, capability, device), problem)])
        yield from _of_cublas(problem, ncu.CUBLAS)


def _of_cublas(problem: Problem, library: str) -> Iterator[Profile]:
    """Profile of cuBLAS on a problem; where that fails, a line that says why."""
    try:
        yield of_cublas(problem, ncu.profile_cublas(problem, library), library)
    except EngineUnavailableError as error:
        print(f"{library} of {problem.case} is left out: {error}", file=sys.stderr)


def _of_launches(launches: Sequence[ncu.ProfiledLaunch]) -> Iterator[Profile]:
    """Profiles of launches in one process; where that fails, in one for each, of which those that fail are named."""
    try:
        counted = ncu.profile(launches)
    except EngineUnavailableError as error:
        if len(launches) == 1:
            raise
        print(f"each by itself: {error}", file=sys.stderr)
        for one in launches:
            try:
                yield from _of_launches([one])
            except EngineUnavailableError as alone:
                print(f"{one.kernel} is left out: {alone}", file=sys.stderr)
        return
    for launch, counters in zip(launches, counted, strict=True):
        yield of_launch(find(launch.kernel), launch, counters)


def options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--shape", default="", help=f"MxNxK of all problems; {SHAPE} if left out, of most")
    what.add_argument("--library", action="store_true", help="what matmul picks for bfloat16, in place of the ladder")


def measurements(engine: Engine, shape: str, library: bool) -> Iterator[Measurement]:
    """Profiles of everything."""
    ncu.check_available()
    assert engine.capability is not None
    if library:
        return map(measured, of_library(engine.capability, engine.device_name))
    return map(measured, of_ladder(engine.capability, engine.device_name, shape))
