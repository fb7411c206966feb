"""The emulator engine: kernels run on this machine's CPU, from the same sources as on a GPU.

A source is compiled in one of three builds: fast, which verifies; checked, whose hooks announce every access to an
observer (the checker, the counters or the trace); counted, in which `float` is a class that counts operations. Sums of
tensor cores are Hopper's, except those of mma.cuh, which are Ampere's (runtime/tensor_cores.hpp). CUDA's compiler may
make an FMA of a product and a sum of 16-bit elements, which the emulator covers float alone; quotients and functions
may differ in the last bit. `printf` writes to the process's standard output; an `assert` that fails ends the launch
with an error.

A block runs on one thread of the host, its threads as fibers. `__shared__` variables are thread-local variables of that
thread, filled with a NaN pattern at the start of every block. A barrier that only part of a block reaches, and a launch
that no GPU would accept, are errors as on a GPU.
"""

import ctypes
import math
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.dtypes import COMPLEX, ITEM_BYTES
from tilewright.core.errors import LaunchError
from tilewright.core.hardware import round_up
from tilewright.core.problem import SCALED_BLOCK, Layout, Order, Scalars
from tilewright.emulator import host
from tilewright.emulator.compiler import FAST, Build, compile_kernel
from tilewright.emulator.program import UNWATCHED, Extents, Program, Watch, load_compiled
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel, Workspace
from tilewright.kernels.library import complex_join, split_k
from tilewright.kernels.split import NON_FINITE, NON_FINITE_WORDS, RANGE_WORDS
from tilewright.kernels.support import Variant
from tilewright.runtime import tensor_maps
from tilewright.runtime.arguments import MAP_BYTES, pack, shape_of
from tilewright.runtime.base import Engine, Matrix, Work, array_of, matrix_at, memory_lines
from tilewright.runtime.executable import CompileReport
from tilewright.runtime.host_compiler import find_compiler
from tilewright.runtime.plan import SLOTS, CachedOperand, Plan, Pointers, Step
from tilewright.runtime.relayouts import Copy, Job, numbers, together
from tilewright.runtime.tensor_maps import TensorLayout

_ALIGNMENT = 256
"""Bytes that addresses of memory are multiples of, as those of a GPU's allocations."""

_MAP = struct.Struct("=Q4q14iQ")
"""Fields of struct TensorMap in abi.hpp."""
_MARK = 0x70616D726F736E65
"""TensorMap::MARK."""

MULTIPROCESSORS = 4
"""For how many multiprocessors geometries are made by default: few, so that blocks share tiles of small products."""

_SAMPLE_S = 1e-3
"""A timed sample of a work lasts at least about this long."""


@dataclass(eq=False)
class EmulatorExecutable:
    """A kernel compiled for this machine's CPU."""

    kernel: Kernel
    config: Config
    variant: Variant
    report: CompileReport
    program: Program


class Array(NamedTuple):
    """Memory that a kernel may use."""

    name: str
    """A, B, C, D, bias, workspace or counters; or the copy of one; or a buffer's."""
    matrix: Matrix
    """As it lies in memory: rows of neighbours."""
    written: bool = True
    """Whether its elements have values when the launch begins: not the workspace, nor C where beta = 0."""
    constant: bool = False
    """Whether nothing may write to it."""
    slack: int = 0
    """Bytes before and after it that an access may touch without harm: it is reported, and the launch goes on."""


class LaunchFacts(NamedTuple):
    """A launch that is about to begin."""

    executable: EmulatorExecutable
    arrays: tuple[Array, ...]
    grid: Extents
    block: Extents
    shared_bytes: int


Watcher = Callable[[LaunchFacts], Watch]
"""Says of each launch how it is to be looked at. A relayout before a kernel is a launch of its own."""


class _PlannedLaunch(NamedTuple):
    """Launch of a step of a plan."""

    executable: EmulatorExecutable
    job: Job
    workspace: Workspace


Executables = dict[tuple[Build, Kernel, Config, Variant], EmulatorExecutable]


class EmulatorEngine(Engine):
    """Runs kernels on this machine's CPU. Its memory is the host's, and a launch has ended when it returns.

    Args:
        build: how kernels are compiled. Observers see kernels of the CHECKED build only.
        watcher: asked before each launch.
        multiprocessors: for how many of them geometries are made.
        executables: of what has been compiled, if engines are to share them.

    Raises:
        EngineUnavailableError: there is no working C++ compiler; the message says how to get one.
    """

    name = "emulator"
    capability: tuple[int, int] | None = None

    def __init__(
        self,
        build: Build = FAST,
        watcher: Watcher = lambda facts: UNWATCHED,
        multiprocessors: int = MULTIPROCESSORS,
        executables: Executables | None = None,
    ) -> None:
        find_compiler()
        self.build = build
        self.watcher = watcher
        self.multiprocessors = multiprocessors
        self.device_name = host.cpu_name()
        self.cache_bytes = host.cache_bytes()
        self._executables = {} if executables is None else executables

    def compile(self, kernel: Kernel, config: Config, variant: Variant) -> EmulatorExecutable:
        """Compile a kernel, or take it from the cache (in memory, then on disk).

        Raises:
            CompileError: the compiler refuses the source; its message is in the error.
            EngineUnavailableError: there is no working C++ compiler any more.
        """
        key = (self.build, kernel, config, variant)
        executable = self._executables.get(key)
        if executable is None:
            defines = kernel.defines(config, variant)
            entry = kernel.entry_point(config)
            compiled = partial(compile_kernel, kernel.source, entry, defines, self.build, kernel.is_user_kernel)
            program = load_compiled(compiled, kernel.name, self.build)
            report = CompileReport(registers=None, spill_bytes=None, shared_bytes=program.static_shared_bytes)
            executable = self._executables[key] = EmulatorExecutable(kernel, config, variant, report, program)
        return executable

    def code(self, job: Job, capturing: Callable[[], bool] | None) -> EmulatorExecutable:
        """The code of a launch, as `compile` gives it."""
        return self.compile(job.kernel, job.config, job.variant)

    def step(self, job: Job, executable: EmulatorExecutable) -> Step:
        """A launch of a compiled kernel on a problem that the code has the guards for."""
        kernel, config, problem = job.kernel, job.config, job.problem
        grid, block, shared_bytes = kernel.launch(problem, config, self.multiprocessors, job.blocks)
        workspace = kernel.workspace(problem, config, self.multiprocessors)
        layouts = tensor_maps.layouts(kernel, config, problem, job.variant.aligned)
        maps = {name: tensor_map(layout) for name, layout in layouts.items()}
        division = kernel.scheduled(problem, config, self.multiprocessors).division
        arguments, slots = pack(kernel, problem, job.sources, maps, division, numbers(job.copies))
        launch = _PlannedLaunch(executable, job, workspace)
        return Step(launch, grid, block, shared_bytes, 0, arguments, shape_of(kernel.arguments).offsets, slots)

    def keep(self, cached: CachedOperand, pointer: int, stream: Any) -> Matrix:
        """Memory with a copy of the operand at this address.

        Raises:
            LaunchError: as `start`.
        """
        memory = aligned_memory(cached.bytes)
        memory[:] = 0
        self.launch(cached.step, Pointers(pointer, pointer, 0, cached=memory.ctypes.data))
        return Matrix(memory.ctypes.data, 1, cached.bytes, cached.bytes, "uint8", owner=memory)

    def capturing(self, stream: Any) -> bool:
        """Never: a launch has ended when it returns."""
        return False

    def start(self, plan: Plan, pointers: Pointers, scalars: Scalars = Scalars(), stream: Any = None) -> None:
        """Run the launches of a plan; they have ended on return.

        Raises:
            LaunchError: the geometry is one that a GPU refuses, the operands are not aligned as those that the plan
                was made for, or the kernel failed.
        """
        if plan.kernel.is_user_kernel:  # the others take any
            plan.kernel.check_scalars(scalars)
        relayout = aligned_memory(plan.needs.relayout_bytes)
        for step in plan.steps:
            self.launch(step, pointers, scalars, relayout.ctypes.data)

    def launch(self, step: Step, pointers: Pointers, scalars: Scalars = Scalars(), relayout: int = 0) -> None:
        """Run a step.

        Args:
            step, pointers, scalars: what is launched.
            relayout: address of memory for copies of operands.

        Raises:
            LaunchError: as `start`.
        """
        launch: _PlannedLaunch = step.function
        kernel, workspace = launch.executable.kernel, launch.workspace
        memory, counters = aligned_memory(workspace.bytes), np.zeros(workspace.counters, dtype=np.uint32)
        addresses = dict(zip(SLOTS, pointers, strict=True))
        addresses["C"] = pointers.c or pointers.d
        addresses["workspace"] = memory.ctypes.data if workspace.bytes else 0
        addresses["counters"] = counters.ctypes.data if counters.size else 0
        addresses["relayout"] = relayout
        arguments = aligned_memory(len(step.arguments))  # aligned as any parameter is
        arguments[:] = np.frombuffer(step.arguments, np.uint8)
        for offset, kind, source, shift in step.slots:
            if kind == "scalar":
                struct.pack_into("=f", arguments.data, offset, getattr(scalars, source))
            else:  # a tensor map begins with its address too
                struct.pack_into("=Q", arguments.data, offset, addresses[source] + shift if addresses[source] else 0)
        values = [
            (ctypes.c_ubyte * size).from_buffer(arguments.data, offset)
            for offset, size in zip(step.offsets, shape_of(kernel.arguments).sizes, strict=True)
        ]
        arrays = _arrays(launch, addresses, scalars)
        if floats := workspace.bytes // 4:
            arrays.append(Array("workspace", Matrix(memory.ctypes.data, 1, floats, floats, "float32"), False))
        if count := counters.size:
            arrays.append(Array("counters", Matrix(counters.ctypes.data, 1, count, count, "uint32")))
        facts = LaunchFacts(launch.executable, tuple(arrays), step.grid, step.block, step.shared_bytes)
        watch = self.watcher(facts)
        cluster = kernel.cluster(launch.executable.config)
        launch.executable.program.launch(step.grid, step.block, values, step.shared_bytes, watch, cluster)
        if counters.any() and watch.blocks is None:
            raise LaunchError(f"{kernel.name} leaves counters other than 0 to the next launch")

    def upload(self, array: NDArray[Any], ld: int = 0, order: Order = "row") -> Matrix:
        """Copy an array of 2 dimensions, or of 3 (a batch), with ld elements a row (or column, by the order; 0: no
        gap); the gaps hold NaN.

        Raises:
            ArrayError: it has another number of dimensions.
            ProblemError: ld is smaller than a row.
        """
        lines = memory_lines(array, ld, order)
        memory = aligned_memory(lines.nbytes)
        memory[: lines.nbytes].view(array.dtype).reshape(lines.shape)[:] = lines
        return matrix_at(memory.ctypes.data, array, lines.shape[1], order, memory)

    def empty(self, rows: int, cols: int, dtype: str = "float32") -> Matrix:
        """Memory for a row-major matrix without gaps; its elements are NaN, as a GPU's may hold anything."""
        memory = aligned_memory(rows * cols * np.dtype(dtype).itemsize)
        return Matrix(memory.ctypes.data, rows, cols, max(cols, 1), dtype, owner=memory)

    def download(self, matrix: Matrix) -> NDArray[Any]:
        """Copy a matrix, or a batch, to a new array."""
        count, length = matrix.lines
        lines = np.empty((count, length), dtype=matrix.dtype)
        if lines.size:
            elements = (count - 1) * matrix.ld + length  # the memory may end with the last line's last one
            memory = (ctypes.c_ubyte * (elements * lines.itemsize)).from_address(matrix.pointer)
            strides = (matrix.ld * lines.itemsize, lines.itemsize)
            lines[:] = np.ndarray(lines.shape, lines.dtype, memoryview(memory).cast("B"), strides=strides)
        return array_of(lines, matrix)

    def free_bytes(self) -> int:
        """More than any array takes: the host's memory has room for the arrays themselves."""
        return 2**62

    def mark(self) -> None:
        """Nothing: a launch has ended when it returns."""

    def load(self, pointer: int, array: NDArray[Any], after: None = None) -> Callable[[], None]:
        """Copy an array to memory of kernels."""
        _at(pointer, array)[...] = array
        return lambda: None

    def store(self, array: NDArray[Any], pointer: int, after: None) -> Callable[[], None]:
        """Copy memory of kernels to an array."""
        array[...] = _at(pointer, array)
        return lambda: None

    def synchronize(self) -> None:
        """Nothing: a launch has ended, and has reported its errors, when it returns."""

    def start_other(self, stream: object = None) -> None:
        """Nothing: every launch begins when the one before it has ended."""

    def time(
        self, works: Sequence[Work], samples: int, *, rotation: int = 1, on_sample: Callable[[], None] = lambda: None
    ) -> list[list[float]]:
        """Time several works against each other by the clock; samples of the works take turns.

        Args:
            works: what to time; each is run once before, to warm up.
            samples: timed samples of each.
            rotation: how many runs it takes until a work comes back to the same operands. A sample of more
                than one run goes through all of them equally often.
            on_sample: called after every sample.

        Returns:
            for each work its samples: microseconds a run.

        Raises:
            LaunchError: a work failed.
        """
        runs = [_runs_in_a_sample(_seconds(work, range(1)), rotation) for work in works]
        times: list[list[float]] = [[] for _ in works]
        for sample in range(samples):
            for work, count, results in zip(works, runs, times, strict=True):
                first = 1 + sample * count
                results.append(_seconds(work, range(first, first + count)) * 1e6 / count)
                on_sample()
        return times


def aligned_memory(size: int) -> NDArray[np.uint8]:
    """This many bytes, at least 1, at a multiple of `_ALIGNMENT`; all bits are set: NaN of every element type."""
    memory = np.full(size + _ALIGNMENT, 0xFF, dtype=np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + max(size, 1)]


def _arrays(launch: _PlannedLaunch, addresses: dict[str, int], scalars: Scalars) -> list[Array]:
    """The operands of a launch, as they lie in memory."""
    problem, kernel = launch.job.problem, launch.executable.kernel
    m, n, k = problem.m, problem.n, problem.k
    found = []
    for x, copy in zip("ab", launch.job.copies, strict=False):
        if copy.lines:
            source, shift = launch.job.sources[f"from_{copy.name.lower() if kernel.splits else x}"]
            found += _copied(copy, addresses, addresses[source] + shift, problem.batch)
    for name in ("range_a", "range_b"):
        if (of_range := launch.job.sources.get(name)) is not None and of_range.name == "cached":
            words = Matrix(addresses["cached"] + of_range.shift, 1, RANGE_WORDS, RANGE_WORDS, "uint32")
            found.append(Array("what was seen of a cached copy", words))
    if launch.job.copies and not kernel.splits:
        return found
    copied = {copy.name for copy in launch.job.copies}
    pair = 2 if kernel is split_k.COMPLEX else 1  # floats of an element of A and B
    of_a, of_b = (Layout(of.order, of.ld // pair, (of.batch_stride or 0) // pair) for of in (problem.a, problem.b))
    for name, layout, rows, cols, dtype, written in (
        ("A", of_a, m, k // pair, COMPLEX if pair == 2 else problem.dtype, True),
        ("B", of_b, k // pair, n // pair, COMPLEX if pair == 2 else problem.dtype_b, True),
        ("C", problem.addend, m, n, problem.result, scalars.beta != 0),
        ("D", problem.d, m, n, problem.result, False),
    ):
        if name in copied or (name == "C" and launch.job.sources.get("beta")):
            continue
        source, shift = launch.job.sources.get(name, (name, 0))
        parts = kernel.parts if name in "AB" and source != name else 1
        found += [
            Array(name, matrix, written)
            for matrix in _matrices(addresses[source] + shift, layout, rows, cols, problem.batch, dtype, parts)
        ]
    if products := launch.job.sources.get("products"):
        config = launch.executable.config
        columns, rows = n if config.PAIRS else n // 2, (3 if config.PLANES else 2) * m * problem.batch
        line = complex_join.ld(columns)
        found.append(
            Array("products", Matrix(addresses[products.name] + products.shift, rows, columns, line, "float32"))
        )
    if problem.grouped:
        ends = Matrix(addresses["offsets"], 1, problem.batch, problem.batch, "int32")
        found.append(Array("offsets", ends))
    if problem.epilogue.bias:
        length = n if problem.epilogue.bias == "row" else m
        found.append(Array("bias", Matrix(addresses["bias"], 1, length, length, problem.result)))
    for name, scale, sides in (("scale_a", problem.scaling.a, m), ("scale_b", problem.scaling.b, n)):
        if scale and name in launch.job.sources:
            count = scale.extent(sides, SCALED_BLOCK * problem.batch if problem.grouped else k)  # a step a matrix
            found.append(Array(name, Matrix(addresses[name], 1, count, count, "float32")))
    return found


def _copied(copy: Copy, addresses: dict[str, int], pointer: int, batch: int) -> list[Array]:
    """An operand at this address, and what it is copied to."""
    count, length = (copy.length, copy.lines) if copy.across else (copy.lines, copy.length)
    lying = Layout("row", copy.ld_from, copy.matrix_stride)
    found = [Array(copy.name, matrix) for matrix in _matrices(pointer, lying, count, length, batch, copy.dtype, 1)]
    where, lines = addresses[copy.memory] + copy.shift, copy.matrices * copy.split.parts * copy.times * copy.lines
    unit = together(copy.split.dtype)
    written = min(round_up(copy.length, unit), copy.ld)
    parts = Matrix(where, lines, written, copy.ld, copy.split.dtype)
    found.append(Array(f"copy of {copy.name}", parts, not copy.made))
    if scales := copy.scale_bytes // 4:
        matrix = Matrix(addresses[copy.memory] + copy.scales, 1, scales, scales, "float32")
        # Tiles read those of rows (or columns) past the matrix, which nobody writes.
        found.append(Array(f"scales of {copy.name}", matrix))
    if copy.split.parts > 1:
        at = addresses[copy.memory] + copy.non_finite
        words = Matrix(at, NON_FINITE, NON_FINITE_WORDS, NON_FINITE_WORDS, "uint32")
        found.append(Array(f"elements of {copy.name} that are not finite", words, not copy.made))
    return found


def _matrices(pointer: int, layout: Layout, rows: int, cols: int, batch: int, dtype: str, parts: int) -> list[Matrix]:
    """The matrices of a batch as they lie in memory; as one where each is right behind the one before.

    parts: matrices, right behind each other, that each of them is the sum of.
    """
    count, length = layout.lines(rows, cols)
    count *= parts
    stride = layout.batch_stride or 0
    if stride == count * layout.ld:
        return [Matrix(pointer, batch * count, length, layout.ld, dtype)]
    step = stride * ITEM_BYTES[dtype]
    return [Matrix(pointer + index * step, count, length, layout.ld, dtype) for index in range(batch if stride else 1)]


def tensor_map(layout: TensorLayout | None) -> bytes:
    """A tensor map as the emulator's kernels take it; None makes a blank one."""
    memory = bytearray(MAP_BYTES)
    if layout is not None:
        swizzle, (extents, strides, box) = layout.box.swizzle, layout.in_all_dimensions()
        rest = (layout.item_bytes, swizzle, layout.rounds, layout.box.dimensions)
        _MAP.pack_into(memory, 0, layout.pointer, *strides, *extents, *box, *rest, _MARK)
    return bytes(memory)


def _seconds(work: Work, runs: range) -> float:
    start = time.perf_counter()
    for i in runs:
        work(i, None)
    return time.perf_counter() - start


def _runs_in_a_sample(run_s: float, rotation: int) -> int:
    runs = math.ceil(_SAMPLE_S / run_s)
    return runs if runs == 1 else math.ceil(runs / rotation) * rotation


def _at(pointer: int, like: NDArray[Any]) -> NDArray[Any]:
    """Memory of kernels, as an array like another one."""
    memory = (ctypes.c_ubyte * like.nbytes).from_address(pointer)
    found: NDArray[Any] = np.ndarray(like.shape, like.dtype, memoryview(memory))
    return found
