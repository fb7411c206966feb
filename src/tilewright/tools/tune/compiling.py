"""Compiles configs on all cores, ahead of their measuring."""

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from tilewright.core import gpus
from tilewright.core.errors import CompileError
from tilewright.core.problem import Problem
from tilewright.emulator.host import cores
from tilewright.kernels.kernel import Choice
from tilewright.runtime.base import Engine
from tilewright.runtime.executable import CompileReport
from tilewright.runtime.relayouts import as_read

_AHEAD = 4
"""Configs in flight or waiting to be measured, for each core."""


class CompilePool:
    """Threads that compile: the compilers work outside of Python's lock, and leave their code in the cache on disk."""

    def __init__(self, engine: Engine, problem: Problem) -> None:
        """Compile for a problem whose operands are aligned."""
        self.ahead = _AHEAD * cores()
        self._engine = engine
        self._problem = problem
        self._threads = ThreadPoolExecutor(cores(), thread_name_prefix="tilewright-compile")
        self._futures: dict[Future[CompileReport | str], Choice] = {}

    def __enter__(self) -> "CompilePool":
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def __len__(self) -> int:
        """Configs that were submitted and not yet handed out."""
        return len(self._futures)

    def submit(self, choice: Choice) -> None:
        """Compile a config when a core is free."""
        self._futures[self._threads.submit(self._report, choice)] = choice

    def finished(self, timeout_s: float) -> Iterator[tuple[Choice, CompileReport | str]]:
        """Configs that have been compiled since, with the compiler's report, or its words where it refused.

        Waits so long for the first where there is none yet.
        """
        done, _ = wait(self._futures, timeout_s, FIRST_COMPLETED)
        for future in done:
            yield self._futures.pop(future), future.result()

    def _report(self, choice: Choice) -> CompileReport | str:
        kernel, config = choice[:2]
        variant = kernel.variant(as_read(kernel, config, self._problem), config)
        try:
            if self._engine.capability is None:
                return self._engine.compile(kernel, config, variant).report
            from tilewright.runtime import nvrtc  # noqa: PLC0415 its imports take the CUDA libraries

            arch = gpus.limits(self._engine.capability).arch
            return nvrtc.compile(kernel, config, variant, arch).report
        except CompileError as error:
            return str(error)
