"""Machine code ahead of the first product: portfolios, or what is picked for given problems, compiled on all cores."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import as_completed

from tilewright.core import gpus
from tilewright.core.dtypes import default_result
from tilewright.core.problem import LAYOUTS, Arithmetic, Problem, orders
from tilewright.kernels.support import Addresses
from tilewright.runtime.relayouts import Job, jobs
from tilewright.select.selector import select
from tilewright.tools.tune.compiling import compilers
from tilewright.tools.tune.survey import in_portfolios

SIDES = (887_040, 4104, 4097)
"""Squares whose code is compiled where no problem is given: one that all tiles divide, one whose rows are aligned, and
another: a kernel has other code for each."""

TYPES = ("float32", "bfloat16", "float16")
"""Element types that have portfolios."""


def of_portfolios(dtypes: Iterable[str], capability: tuple[int, int]) -> Iterator[Job]:
    """Launches of all configs of portfolios on squares of SIDES, in all orders."""
    for dtype in dtypes:
        arithmetic = Arithmetic(dtype, default_result(dtype))
        for side in SIDES:
            for layout in LAYOUTS:
                a, b = orders(layout)
                problem = Problem(side, side, side, arithmetic, a=a, b=b)
                for choice in in_portfolios(problem, capability):
                    yield from jobs(*choice, problem, Addresses()).jobs


def of_problems(problems: Iterable[Problem], capability: tuple[int, int], device: str) -> Iterator[Job]:
    """Launches of what is picked for problems on a GPU."""
    for problem in problems:
        yield from jobs(*select(problem, capability, device), problem, Addresses()).jobs


def distinct(found: Iterable[Job]) -> list[Job]:
    """One launch of each code."""
    return list({(job.kernel, job.config, job.variant): job for job in found}.values())


def warmed(needed: Sequence[Job], capability: tuple[int, int]) -> Iterator[int]:
    """Compile code into the cache, where it is not there yet; yields, each time that some is there, how much is.

    What is done stays: whoever is interrupted goes on from there.

    Raises:
        CompileError: the compiler refuses a kernel.
        EngineUnavailableError: NVRTC is not installed, or the cache cannot be written.
    """
    from tilewright.runtime import nvrtc  # noqa: PLC0415 its imports take the CUDA libraries

    arch = gpus.limits(capability).arch
    with compilers() as threads:
        started = [threads.submit(nvrtc.compile, job.kernel, job.config, job.variant, arch) for job in needed]
        for number, one in enumerate(as_completed(started), 1):
            one.result()
            yield number
