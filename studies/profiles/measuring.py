"""Profiles of the ladder and of cuBLAS: what Nsight Compute counts of each at the size of its page.

Run as `python -m studies.profiles.measuring --out PATH` on a machine with a GPU and the profiler; with `--library` it
is of what `matmul` picks for some products of bfloat16, and of cuBLAS on the same. The file is written anew after each
launch.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from tilewright.bench import ncu
from tilewright.bench.environment import environment
from tilewright.bench.profile import Profile, of_launch
from tilewright.bench.records import RunFile
from tilewright.core.errors import TilewrightError
from tilewright.core.files import Output, check_outputs
from tilewright.core.problem import Problem
from tilewright.engines.registry import resolve_engine
from tilewright.kernels import LADDER, find
from tilewright.kernels.spec import Kernel
from tilewright.select.selector import select

SHAPE = "4096x4096x4096"
"""The sizes at which a rung is looked at."""
SHAPES_OF: Mapping[str, str] = {"skinny": "1x4096x4096"}
"""Where a rung is for other problems."""

MORE = (("naive", "4092x4092x4092"),)
"""Further launches: rows of A that are no power of two apart."""

LIBRARY = (
    ("1000x1000x1000", "NN"),
    ("1000x1000x1000", "NT"),
    ("2056x2056x2056", "NN"),
    ("2056x2056x2056", "NT"),
)
"""Products of bfloat16 that `--library` profiles: rows that straddle lines of the L2 cache."""


class Profiles(RunFile):
    """What one run profiled."""

    profiles: list[Profile]


def of_cublas(problem: Problem, kernels: Sequence[ncu.Profiled]) -> Profile:
    """What was counted of cuBLAS's kernels, together."""

    def time(one: ncu.Profiled) -> float:
        return one.counters.get("gpu__time_duration.sum", 0.0)

    longest = max(kernels, key=time)
    counters = {
        name: value if name.endswith(".ratio") else sum(one.counters.get(name, 0.0) for one in kernels)
        for name, value in longest.counters.items()
    }
    return Profile(
        kernel=ncu.CUBLAS,
        config={},
        shape=problem.shape,
        dtype=problem.dtype,
        out_dtype=problem.result,
        layout=problem.layout,
        launched=[one.kernel for one in kernels],
        counters=counters,
    )


def jobs(capability: tuple[int, int], shape: str = "") -> list[Callable[[], Profile]]:
    """What makes each profile: of the rungs that run on GPUs of a compute capability, with their configs for these, and
    of cuBLAS on the same problems.

    Args:
        capability: of the GPU.
        shape: of all problems; if left out, that of each rung's page.
    """
    problems = {
        kernel: Problem.parse(shape or SHAPES_OF.get(kernel.name, SHAPE), arithmetic=kernel.takes.arithmetic())
        for kernel in LADDER
        if kernel.takes.refusal_of_gpu(kernel.name, capability, kernel.takes.arithmetic().factors) is None
    }
    ours = [partial(_of_rung, kernel, problem, capability) for kernel, problem in problems.items()]
    if not shape:
        ours += [partial(_of_rung, find(name), Problem.parse(sizes), capability) for name, sizes in MORE]
    return [*ours, *(partial(_of_cublas, problem) for problem in dict.fromkeys(problems.values()))]


def library_jobs(capability: tuple[int, int], device: str) -> list[Callable[[], Profile]]:
    """The same of what `matmul` picks for the products of `LIBRARY`, and of cuBLAS on each.

    Args:
        capability, device: of the GPU, and its name.
    """
    made: list[Callable[[], Profile]] = []
    for shape, layout in LIBRARY:
        problem = ncu.posed(shape, layout, "bfloat16", "bfloat16")
        launch = ncu.Launch.of(*select(problem, capability, device), problem)
        made += [partial(_of_launch, launch), partial(_of_cublas, problem)]
    return made


def _of_rung(kernel: Kernel, problem: Problem, capability: tuple[int, int]) -> Profile:
    return _of_launch(ncu.Launch.of(kernel, kernel.config(capability=capability), problem))


def _of_launch(launch: ncu.Launch) -> Profile:
    (counters,) = ncu.profile([launch])
    return of_launch(find(launch.kernel), launch, counters)


def _of_cublas(problem: Problem) -> Profile:
    return of_cublas(problem, ncu.profile_cublas(problem))


def main() -> int:
    """Profile everything; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.profiles.measuring", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where the profiles are written")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--shape", default="", help=f"MxNxK of all problems; {SHAPE} if left out, of most")
    what.add_argument("--library", action="store_true", help="what matmul picks for bfloat16, in place of the ladder")
    arguments = parser.parse_args()
    try:
        check_outputs([Output("--out", arguments.out, Profiles.kind())])
        ncu.check_available()
        engine = resolve_engine("cuda")
        assert engine.capability is not None
        run = Profiles(environment=environment(engine), profiles=[])
        if arguments.library:
            made = library_jobs(engine.capability, engine.device_name)
        else:
            made = jobs(engine.capability, arguments.shape)
        for make in made:
            one = make()
            run.profiles.append(one)
            run.save(arguments.out)
            print(_line(one), flush=True)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status
    return 0


def _line(one: Profile) -> str:
    stalls = ", ".join(f"{reason} {share:.0%}" for reason, share in list(one.stalls.items())[:3])
    numbers = {"us": one.time_us, "GB/s of DRAM": one.dram_gbs}
    shares = {"of L1": one.l1_hits, "of L2": one.l2_hits, "issuing": one.issuing}
    words = [f"{value:,.1f} {name}" for name, value in numbers.items() if value is not None]
    words += [f"{value:.1%} {name}" for name, value in shares.items() if value is not None]
    case = f"{one.kernel} {one.shape} {one.layout} {one.dtype}"
    return f"{case}: {', '.join((*words, stalls))}; {', '.join(one.launched)[:100]}"


if __name__ == "__main__":
    sys.exit(main())
