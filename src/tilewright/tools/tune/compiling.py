"""Compiles kernels on all cores, ahead of their measuring."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from tilewright.core import gpus
from tilewright.core.errors import CompileError
from tilewright.emulator.host import cores
from tilewright.runtime.base import Engine
from tilewright.runtime.executable import CompileReport
from tilewright.runtime.relayouts import Job


@contextmanager
def compilers() -> Iterator[ThreadPoolExecutor]:
    """Threads that compile, in a `with` block at whose end what has not begun never begins. The compilers work outside
    of Python's lock, and leave their code in the cache on disk."""
    threads = ThreadPoolExecutor(cores(), thread_name_prefix="tilewright-compile")
    try:
        yield threads
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def compiled(engine: Engine, job: Job) -> CompileReport | str:
    """The compiler's report on the kernel of a launch, or its message where it refuses the kernel."""
    try:
        if engine.capability is None:
            return engine.compile(job.kernel, job.config, job.variant).report
        from tilewright.runtime import nvrtc  # noqa: PLC0415 its imports take the CUDA libraries

        return nvrtc.compile(job.kernel, job.config, job.variant, gpus.limits(engine.capability).arch).report
    except CompileError as error:
        return str(error)
