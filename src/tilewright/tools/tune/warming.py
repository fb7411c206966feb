"""Machine code ahead of the first product: portfolios, or what is picked for given problems, compiled on all cores."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import as_completed
from itertools import product

from tilewright.core import gpus
from tilewright.core.dtypes import default_result
from tilewright.core.problem import LAYOUTS, Arithmetic, Epilogue, Problem, orders
from tilewright.kernels.support import Addresses
from tilewright.runtime.relayouts import Job, jobs
from tilewright.select.selector import select
from tilewright.tools.tune.compiling import compilers
from tilewright.tools.tune.survey import in_portfolios

SIDES = (887_040, 4104, 4097)
"""Sizes of k, and of D's rows and columns where it has several, of problems whose code is compiled where no problem is
given: one that all tiles divide, one whose rows are aligned, and another: a kernel has other code for each."""

EPILOGUES = (Epilogue(), Epilogue("row"))
"""Nothing, and the bias of a linear layer."""

TYPES = ("float32", "bfloat16", "float16")
"""Element types that have portfolios."""


def of_portfolios(dtypes: Iterable[str], capability: tuple[int, int]) -> Iterator[Job]:
    """Launches of all configs of portfolios on squares of SIDES, single rows and single columns, in all orders."""
    for dtype, side, layout, epilogue in product(dtypes, SIDES, LAYOUTS, EPILOGUES):
        arithmetic, (a, b) = Arithmetic(dtype, default_result(dtype)), orders(layout)
        for m, n in ((side, side), (1, side), (side, 1)):
            problem = Problem(m, n, side, arithmetic, a=a, b=b, epilogue=epilogue)
            for choice in in_portfolios(problem, capability):
                yield from jobs(*choice, problem, Addresses()).jobs


def of_problems(problems: Iterable[Problem], capability: tuple[int, int], device: str) -> Iterator[Job]:
    """Launches of what is picked for problems on a GPU."""
    for problem in problems:
        yield from jobs(*select(problem, capability, device), problem, Addresses()).jobs


def distinct(found: Iterable[Job]) -> list[Job]:
    """One launch of each code."""
    return list({(job.kernel, job.config, job.variant): job for job in found}.values())


def warmed(needed: Sequence[Job], capability: tuple[int, int], for_wheel: bool = False) -> Iterator[int]:
    """Compile code into the cache, where it is not there yet; yields, each time that some is there, how much is.

    What is done stays: whoever is interrupted goes on from there.

    for_wheel: as a wheel has it; else what an installed wheel has is not compiled.

    Raises:
        CompileError: the compiler refuses a kernel.
        EngineUnavailableError: NVRTC is not installed, or the cache cannot be written.
    """
    from tilewright.runtime import nvrtc, precompiled  # noqa: PLC0415 its imports take the CUDA libraries

    arch = gpus.limits(capability).arch

    def compile(job: Job) -> None:
        of = job.kernel, job.config, job.variant, arch
        if for_wheel or not precompiled.has(*of):
            nvrtc.compile(*of, lineinfo=not for_wheel)

    with compilers() as threads:
        started = [threads.submit(compile, job) for job in needed]
        for number, one in enumerate(as_completed(started), 1):
            one.result()
            yield number
