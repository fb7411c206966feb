"""The Engine protocol: what every place that runs kernels can do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import ml_dtypes  # noqa: F401 - teaches NumPy the name bfloat16
import numpy as np
from numpy.typing import NDArray

from tilewright.kernels.spec import Config, Kernel, Specialization
from tilewright.problem import Problem

ENGINES = ("cuda", "emulator")


@dataclass(frozen=True)
class Matrix:
    """A row-major matrix in memory that an engine's kernels can reach."""

    pointer: int
    """Address of element (0, 0)."""
    rows: int
    cols: int
    ld: int
    """Elements from one row to the next."""
    dtype: str
    """NumPy's name of the element type; 'bfloat16' is that of ml_dtypes."""
    owner: Any = field(default=None, repr=False, compare=False)
    """Whatever keeps the memory alive."""


@dataclass(frozen=True)
class CompileReport:
    """What the compiler says of a kernel's needs. None where an engine has no such thing."""

    registers: int | None
    """Registers a thread."""
    spill_bytes: int | None
    """Bytes of registers a thread spills to memory: stores plus loads."""
    shared_bytes: int | None
    """Statically declared shared memory of a block, in bytes."""


class Executable(Protocol):
    """A kernel compiled with one config for one engine."""

    kernel: Kernel
    config: Config
    specialization: Specialization
    report: CompileReport


Work = Callable[[int, Any], None]
"""Starts one run of something to be timed: work(i, stream). i counts the runs, so that operands can be rotated."""


class Engine(Protocol):
    """A place that runs kernels. Every pointer it takes is one that it, or its memory's owner, gave out."""

    name: str
    """'cuda' or 'emulator'."""
    device_name: str
    """The GPU's or the CPU's product name."""
    capability: tuple[int, int] | None
    """Compute capability, None where there is no GPU."""
    cache_bytes: int
    """Size of the last-level cache that operands are rotated through."""

    def compile(self, kernel: Kernel, config: Config, specialization: Specialization) -> Executable:
        """Compile a kernel, or take it from the cache (in memory, then on disk).

        Raises:
            CompileError: the compiler refuses the source; its message is in the error.
        """

    def launch(
        self, executable: Executable, problem: Problem, a: Matrix, b: Matrix, c: Matrix, stream: Any = None
    ) -> None:
        """Start C = alpha * A @ B + beta * C; c is overwritten. Nothing is launched where C has no elements.

        Raises:
            LaunchError: the geometry is one that a GPU refuses, or the kernel failed.
        """

    def upload(self, array: NDArray[Any], ld: int = 0) -> Matrix:
        """Copy a 2-D host array to the engine's memory, with ld elements a row (0: no gap)."""

    def empty(self, rows: int, cols: int, dtype: str = "float32") -> Matrix:
        """Memory for a row-major matrix without gaps; nothing was written to it, so its elements are undefined."""

    def download(self, matrix: Matrix) -> NDArray[Any]:
        """Copy a matrix back to a new host array, after all work started on the engine has ended."""

    def synchronize(self) -> None:
        """Wait until all work that was started has ended; raise LaunchError if some of it failed."""

    def time(
        self, works: Sequence[Work], samples: int, *, rotation: int = 1, on_sample: Callable[[], None] = lambda: None
    ) -> list[list[float]]:
        """Time several works against each other: their samples are interleaved, so that drift hits all alike.

        Args:
            works: what to time; each is warmed up first.
            samples: timed samples of each.
            rotation: how many runs it takes until a work comes back to the same operands.
            on_sample: called after every sample.

        Returns:
            for each work its samples: microseconds a run.
        """


def run(
    engine: Engine,
    kernel: Kernel,
    config: Config,
    problem: Problem,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    stream: Any = None,
) -> Executable:
    """Compile a kernel for these operands and launch it; returns what was launched."""
    pointers = (a.pointer, b.pointer, c.pointer)
    kernel.check(problem, pointers)
    specialization = kernel.specialize(problem, config, pointers)
    executable = engine.compile(kernel, config, specialization)
    engine.launch(executable, problem, a, b, c, stream)
    return executable


def poisoned(rows: int, cols: int, dtype: str = "float32") -> NDArray[Any]:
    """An array of NaN: what an output holds before a verified run, so that an element left unwritten shows."""
    return np.full((rows, cols), np.nan, dtype=dtype)
