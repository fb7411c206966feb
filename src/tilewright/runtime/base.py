"""The Engine protocol: what every device that runs kernels can do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import ml_dtypes  # noqa: F401 - teaches NumPy the name bfloat16
import numpy as np
from numpy.typing import NDArray

from tilewright.core.errors import ArrayError, ProblemError
from tilewright.core.problem import Order, Problem, Scalars
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Addresses, Variant
from tilewright.runtime.complex_factors import ComplexFactors
from tilewright.runtime.executable import Executable
from tilewright.runtime.plan import CachedOperand, Needs, Plan, Pointers, Step
from tilewright.runtime.relayouts import Job, cached_operand_of, jobs, needs

ENGINES = ("cuda", "emulator")


@dataclass(frozen=True)
class Matrix:
    """A matrix in memory that an engine's kernels can reach, or as many matrices as a batch has."""

    pointer: int
    """Address of element (0, 0)."""
    rows: int
    cols: int
    ld: int
    """Elements from one row to the next, or from one column to the next where the order is 'column'."""
    dtype: str
    """NumPy's name of the element type; 'bfloat16' is that of ml_dtypes."""
    owner: Any = field(default=None, repr=False, compare=False)
    """Whatever keeps the memory alive."""
    order: Order = "row"
    batch: int | None = None
    """Matrices, each behind the one before; None for a single one, whose array has two dimensions."""

    @property
    def lines(self) -> tuple[int, int]:
        """Rows (columns, by the order) of all matrices together, and the elements of one."""
        count, length = (self.rows, self.cols) if self.order == "row" else (self.cols, self.rows)
        return count * (1 if self.batch is None else self.batch), length


Work = Callable[[int, Any], None]
"""Starts one run of something to be timed: work(i, stream). i counts the runs, so that operands can be rotated."""


class Engine(Protocol):
    """A device that runs kernels. Every pointer it takes is one that it, or its memory's owner, gave out."""

    name: str
    """'cuda' or 'emulator'."""
    device_name: str
    """The GPU's or the CPU's product name."""
    capability: tuple[int, int] | None
    """Compute capability, None where there is no GPU."""
    multiprocessors: int
    """Multiprocessors of the GPU; on the emulator, the number for which it makes geometries."""
    cache_bytes: int
    """Size of the last-level cache that operands are rotated through."""

    def compile(self, kernel: Kernel, config: Config, variant: Variant) -> Executable:
        """Compile a kernel, or take it from the cache (in memory, then on disk).

        Raises:
            CompileError: the compiler refuses the source; its message is in the error.
        """

    def plan(
        self,
        kernel: Kernel,
        config: Config,
        problem: Problem,
        addresses: Addresses = Addresses(),
        *,
        cached: str | None = None,
        capturing: Callable[[], bool] | None = None,
        factors: ComplexFactors | None = None,
    ) -> Plan:
        """Compile what a problem takes, and prepare its launches. Nothing is launched where D has no elements.

        Args:
            kernel, config: what runs.
            problem: what it computes.
            addresses: of the operands, or what they leave when divided by 16.
            cached: the operand, A or B, whose copy outlives the calls, where the kernel wants one: see `Plan.cached`.
            capturing: says whether the stream that the plan is for is being captured into a graph. It is only asked if
                code must be loaded.
            factors: of a complex product, whose `real` the problem is: pointers are those of its complex operands.

        Raises:
            DtypeError, LaunchError, ProblemError: the kernel does not take the problem, the geometry is one that a GPU
                refuses, or the code would have to be loaded in a capture.
            ConfigError: the kernel needs another GPU.
            CompileError: the compiler refuses the source; its message is in the error.
        """
        if problem.is_empty:
            return Plan(problem, kernel, config, None, (), Needs())
        found = jobs(kernel, config, problem, addresses, cached)
        if factors is not None:
            found = factors.around(found)
        needed = [*found.jobs, found.keeping] if found.keeping else found.jobs
        executables = self.codes(needed, capturing)
        steps = tuple(map(self.step, needed, executables))
        copy = cached_operand_of(found.keeping, steps[-1]) if found.keeping else None
        launched, memory = len(found.jobs), needs(found, self.multiprocessors)
        own = executables[launched - 1 - found.joins]
        return Plan(problem, kernel, config, own, steps[:launched], memory, found.relaid, copy)

    def codes(self, needed: Sequence[Job], capturing: Callable[[], bool] | None) -> list[Executable]:
        """Executables that launches run; capturing: see `plan`."""
        return [self.code(job, capturing) for job in needed]

    def code(self, job: Job, capturing: Callable[[], bool] | None) -> Executable:
        """Executable that a launch runs; capturing: see `plan`."""

    def step(self, job: Job, executable: Any) -> Step:
        """A launch of compiled code, which has the guards that the launch's problem needs."""

    def start(self, plan: Plan, pointers: Pointers, scalars: Scalars = Scalars(), stream: Any = None) -> None:
        """Start the launches of a plan of this engine. alpha is not 0: that is a problem with k = 0.

        Raises:
            LaunchError: the driver refuses a launch, or the kernel failed.
            MemoryError: the plan needs a workspace, and the memory is full.
        """

    def keep(self, cached: CachedOperand, pointer: int, stream: Any) -> Matrix:
        """Memory with a copy of the operand at this address, made on a stream; the work has ended on return.

        Raises:
            LaunchError: the driver refuses a launch, or the stream is being captured.
            MemoryError: the memory is full.
        """

    def capturing(self, stream: Any) -> bool:
        """Whether launches on a stream are being captured into a graph."""

    def upload(self, array: NDArray[Any], ld: int = 0, order: Order = "row") -> Matrix:
        """Copy a host array of 2 dimensions, or of 3 (a batch), to the engine's memory, with ld elements a row (or
        column, by the order; 0: no gap); the gaps hold NaN.
        """

    def empty(self, rows: int, cols: int, dtype: str = "float32") -> Matrix:
        """Memory for a row-major matrix without gaps; nothing was written to it, so its elements are undefined."""

    def download(self, matrix: Matrix) -> NDArray[Any]:
        """Copy a matrix, or a batch, to a new host array, after all work started on the engine has ended."""

    def free_bytes(self) -> int:
        """Memory of the engine that nobody has allocated."""

    def mark(self) -> Any:
        """Event that is reached when the work started so far on the engine has ended: for `load` and `store`."""

    def load(self, pointer: int, array: NDArray[Any], after: Any = None) -> Callable[[], None]:
        """Start to copy a host array to the engine's memory, where it has no gaps, once a mark is reached.

        Args:
            pointer: where to.
            array: of two dimensions, with neighbours along the second; unchanged until all work on it has ended.
            after: the mark.

        Returns:
            a function: work that is started when it has returned sees the array.
        """

    def store(self, array: NDArray[Any], pointer: int, after: Any) -> Callable[[], None]:
        """Start to copy the engine's memory to a host array of two dimensions, once a mark is reached; the function
        that it returns waits until all is there.
        """

    def synchronize(self) -> None:
        """Wait until all work that was started has ended; raise LaunchError if some of it failed."""

    def start_other(self, stream: Any = None) -> None:
        """Start a short piece of work that is no product: what follows it on a stream begins when it has ended."""

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
    d: Matrix,
    scalars: Scalars = Scalars(),
    *,
    c: Matrix | None = None,
    bias: Matrix | None = None,
    scales: Sequence[Matrix | None] = (None, None),
    offsets: Matrix | None = None,
    stream: Any = None,
    cached: str | None = None,
) -> Plan:
    """Plan a problem for these operands and start it; returns the plan. C is D, updated in place, if left out.

    scales: of A and B.
    offsets: the row where each group of a grouped product ends.
    cached: the operand, A or B, whose copy is made apart from the product, where the kernel wants one.
    """
    if scalars.alpha == 0 and not kernel.support.separate_c:
        problem = problem.without_products
    pointers = Pointers(a.pointer, b.pointer, d.pointer, (c or d).pointer, bias.pointer if bias else 0)
    of_a, of_b = (one.pointer if one else 0 for one in scales)
    pointers = pointers._replace(scale_a=of_a, scale_b=of_b, offsets=offsets.pointer if offsets else 0)
    plan = engine.plan(kernel, config, problem, Addresses(*pointers[:4]), cached=cached)
    copy = engine.keep(plan.cached, (a if cached == "A" else b).pointer, stream) if plan.cached else None
    engine.start(plan, pointers._replace(cached=copy.pointer if copy else 0), scalars, stream)
    return plan


def memory_lines(array: NDArray[Any], ld: int, order: Order) -> NDArray[Any]:
    """A host array of 2 or 3 dimensions as it lies in memory: lines of ld elements, the gaps holding NaN, or the
    largest integer.

    Raises:
        ArrayError: it has another number of dimensions.
        ProblemError: ld is smaller than a line.
    """
    if array.ndim not in (2, 3):
        raise ArrayError(f"array must be a matrix or a batch of matrices, got {array.ndim} dimensions")
    lines = array if order == "row" else array.swapaxes(-1, -2)
    length = lines.shape[-1]
    ld = ld or max(length, 1)
    if ld < length:
        raise ProblemError(f"ld must be at least the row length {length}, got {ld}")
    if ld == length:
        return np.ascontiguousarray(lines).reshape(-1, ld)
    unread = np.iinfo(array.dtype).max if array.dtype.kind in "iu" else np.nan
    memory = np.full((*lines.shape[:-1], ld), unread, dtype=array.dtype)
    memory[..., :length] = lines
    return memory.reshape(-1, ld)


def matrix_at(pointer: int, array: NDArray[Any], ld: int, order: Order, owner: Any) -> Matrix:
    """The matrix that an array becomes in an engine's memory."""
    batch = array.shape[0] if array.ndim == 3 else None
    rows, cols = array.shape[-2:]
    return Matrix(pointer, rows, cols, ld, array.dtype.name, owner, order, batch)


def array_of(lines: NDArray[Any], matrix: Matrix) -> NDArray[Any]:
    """The array that a matrix's lines are: their memory's order made rows and columns again."""
    sizes = (matrix.rows, matrix.cols) if matrix.order == "row" else (matrix.cols, matrix.rows)
    stacked = lines.reshape(1 if matrix.batch is None else matrix.batch, *sizes)
    array = stacked if matrix.order == "row" else stacked.swapaxes(1, 2)
    return np.ascontiguousarray(array[0] if matrix.batch is None else array)
