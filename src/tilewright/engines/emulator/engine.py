"""The emulator engine: kernels run on this machine's CPU, from the same sources as on a GPU."""

import ctypes
import math
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tilewright.engines import packing, tensor_maps
from tilewright.engines.base import CompileReport, Executable, Matrix, Work, run
from tilewright.engines.emulator import host
from tilewright.engines.emulator.compiler import FAST, Build, compile_kernel, find_compiler
from tilewright.engines.emulator.program import UNWATCHED, Extents, Program, Watch, load
from tilewright.engines.tensor_maps import TensorLayout, map_memory
from tilewright.errors import ArrayError, LaunchError, ProblemError
from tilewright.kernels.library import relayout
from tilewright.kernels.spec import Config, Kernel, Specialization, Workspace
from tilewright.problem import Problem

_ALIGNMENT = 256
"""Of memory, in bytes: what a GPU's allocations have."""

_MAP = struct.Struct("=Qqq7i")
"""Of the fields of struct TensorMap in abi.hpp."""

_SAMPLE_S = 1e-3
"""A timed sample of a work lasts at least about this long."""


@dataclass(eq=False)
class EmulatorExecutable:
    """A kernel compiled for this machine's CPU."""

    kernel: Kernel
    config: Config
    specialization: Specialization
    report: CompileReport
    program: Program


@dataclass(frozen=True)
class Array:
    """Memory that a launch is given."""

    name: str
    """A, B, C, workspace or tickets."""
    matrix: Matrix
    written: bool
    """Whether its elements have values when the launch begins: not the workspace, nor C where beta = 0."""


@dataclass(frozen=True)
class LaunchFacts:
    """A launch that is about to begin."""

    executable: EmulatorExecutable
    problem: Problem
    arrays: tuple[Array, ...]
    grid: Extents
    block: Extents
    shared_bytes: int


Watcher = Callable[[LaunchFacts], Watch]
"""Says of each launch how it is to be looked at. The kernel `pack`, which runs before kernels that pack, is a launch of
its own."""


class EmulatorEngine:
    """Runs kernels on this machine's CPU. Its memory is the host's, and a launch has ended when it returns.

    Args:
        build: how kernels are compiled. Observers see kernels of the CHECKED build only.
        watcher: asked before each launch.

    Raises:
        EngineUnavailableError: there is no working C++ compiler; the message says how to get one.
    """

    name = "emulator"
    capability: tuple[int, int] | None = None

    def __init__(self, build: Build = FAST, watcher: Watcher = lambda facts: UNWATCHED) -> None:
        find_compiler()
        self.build = build
        self.watcher = watcher
        self.device_name = host.cpu_name()
        self.cache_bytes = host.cache_bytes()
        self._executables: dict[tuple[Kernel, Config, Specialization], EmulatorExecutable] = {}

    def compile(self, kernel: Kernel, config: Config, specialization: Specialization) -> EmulatorExecutable:
        """Compile a kernel, or take it from the cache (in memory, then on disk).

        Raises:
            CompileError: the compiler refuses the source; its message is in the error.
            EngineUnavailableError: there is no working C++ compiler any more.
        """
        key = (kernel, config, specialization)
        executable = self._executables.get(key)
        if executable is None:
            defines = kernel.defines(config, specialization)
            library = compile_kernel(kernel.source, kernel.source.stem, defines, self.build)
            program = load(library, kernel.name, self.build)
            report = CompileReport(registers=None, spill_bytes=None, shared_bytes=program.static_shared_bytes)
            executable = self._executables[key] = EmulatorExecutable(kernel, config, specialization, report, program)
        return executable

    def launch(
        self,
        executable: Executable,
        problem: Problem,
        a: Matrix,
        b: Matrix,
        c: Matrix,
        stream: Any = None,
    ) -> None:
        """Compute C = alpha * A @ B + beta * C; c is overwritten. Nothing is launched where C has no elements.

        Raises:
            LaunchError: the geometry is one that a GPU refuses, the code lacks guards that the operands need,
                or the kernel failed.
        """
        if problem.m == 0 or problem.n == 0:
            return
        if not isinstance(executable, EmulatorExecutable):
            raise LaunchError(f"executable must come from this engine's compile, got {type(executable).__name__}")
        kernel, config = executable.kernel, executable.config
        addresses = (a.pointer, b.pointer, c.pointer)
        kernel.check(problem, addresses)
        needed = kernel.specialize(problem, config, addresses)
        built = executable.specialization
        if needed.edges > built.edges or needed.aligned < built.aligned or needed.dtype != built.dtype:
            raise LaunchError(f"{kernel.name}: compiled for {built}, but the operands are {needed}")
        if kernel.packs and problem.k:
            a, b = self._packed(kernel, a, b)
        arguments = [
            ctypes.c_int(problem.m),
            ctypes.c_int(problem.n),
            ctypes.c_int(problem.k),
            ctypes.c_float(problem.alpha),
            *_factors(kernel, config, problem, a, b),
            ctypes.c_float(problem.beta),
            ctypes.c_void_p(c.pointer),
            ctypes.c_int(problem.ldc),
        ]
        workspace = kernel.workspace(problem, config) or Workspace(0, 0)
        memory = _memory(workspace.bytes)
        tickets = np.zeros(workspace.tickets, dtype=np.uint32)
        if kernel.workspace_bytes is not None:
            pointers = (memory.ctypes.data, tickets.ctypes.data) if workspace.bytes else (None, None)
            arguments += map(ctypes.c_void_p, pointers)
        arrays = [Array("A", a, True), Array("B", b, True), Array("C", c, problem.beta != 0)]
        if workspace.bytes:
            floats, count = workspace.bytes // 4, workspace.tickets
            arrays.append(Array("workspace", Matrix(memory.ctypes.data, 1, floats, floats, "float32"), False))
            arrays.append(Array("tickets", Matrix(tickets.ctypes.data, 1, count, count, "uint32"), True))
        grid, block, shared_bytes = kernel.launch(problem, config)
        watch = self.watcher(LaunchFacts(executable, problem, tuple(arrays), grid, block, shared_bytes))
        executable.program.launch(grid, block, arguments, shared_bytes, watch)
        if tickets.any() and watch.blocks is None:
            raise LaunchError(f"{kernel.name} leaves tickets other than 0 to the next launch")

    def _packed(self, kernel: Kernel, a: Matrix, b: Matrix) -> tuple[Matrix, Matrix]:
        """Make the copies of A and B that a kernel which packs is launched with."""
        needed = packing.needed_bytes(kernel, a, b)
        if not needed:
            return a, b
        memory = self.empty(1, needed // 4)
        step = packing.packing(kernel, a, b, memory.pointer)
        run(self, relayout.KERNEL, step.config, step.problem, a, b, step.target)
        return replace(step.a, owner=(a.owner, memory)), replace(step.b, owner=(b.owner, memory))

    def upload(self, array: NDArray[Any], ld: int = 0) -> Matrix:
        """Copy a 2-D array, with ld elements a row (0: no gap); the gaps hold NaN.

        Raises:
            ArrayError: the array is not 2-D.
            ProblemError: ld is smaller than a row.
        """
        if array.ndim != 2:
            raise ArrayError(f"array must be 2-D, got {array.ndim}-D")
        rows, cols = array.shape
        ld = ld or max(cols, 1)
        if ld < cols:
            raise ProblemError(f"ld must be at least the row length {cols}, got {ld}")
        size = rows * ld * array.itemsize
        memory = _memory(size)
        memory[:size].view(array.dtype).reshape(rows, ld)[:, :cols] = array
        return Matrix(memory.ctypes.data, rows, cols, ld, array.dtype.name, owner=memory)

    def empty(self, rows: int, cols: int, dtype: str = "float32") -> Matrix:
        """Memory for a row-major matrix without gaps; its elements are NaN, as a GPU's may hold anything."""
        memory = _memory(rows * cols * np.dtype(dtype).itemsize)
        return Matrix(memory.ctypes.data, rows, cols, max(cols, 1), dtype, owner=memory)

    def download(self, matrix: Matrix) -> NDArray[Any]:
        """Copy a matrix to a new array."""
        result = np.empty((matrix.rows, matrix.cols), dtype=matrix.dtype)
        if result.size:
            elements = (matrix.rows - 1) * matrix.ld + matrix.cols  # the memory may end with the last row's last one
            memory = (ctypes.c_ubyte * (elements * result.itemsize)).from_address(matrix.pointer)
            strides = (matrix.ld * result.itemsize, result.itemsize)
            result[:] = as_strided(np.frombuffer(memoryview(memory), result.dtype), result.shape, strides)
        return result

    def synchronize(self) -> None:
        """Nothing: a launch has ended, and has reported its errors, when it returns."""

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


def _memory(size: int) -> NDArray[np.uint8]:
    """So many bytes, 1 at least, at a multiple of `_ALIGNMENT`; all bits are set: NaN of every element type."""
    memory = np.full(size + _ALIGNMENT, 0xFF, dtype=np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + max(size, 1)]


def _factors(kernel: Kernel, config: Config, problem: Problem, a: Matrix, b: Matrix) -> list[Any]:
    """A and B as the kernel takes them: pointers and leading dimensions, or tensor maps."""
    if kernel.tensor_maps is None:
        factors = ((a.pointer, problem.lda), (b.pointer, problem.ldb))
        return [argument for pointer, ld in factors for argument in (ctypes.c_void_p(pointer), ctypes.c_int(ld))]
    layouts = tensor_maps.layouts(kernel, config, problem, a, b)
    return [tensor_map(None), tensor_map(None)] if layouts is None else [tensor_map(layout) for layout in layouts]


def tensor_map(layout: TensorLayout | None) -> Any:
    """A tensor map as the emulator's kernels take it, a ctypes array; None makes a blank one."""
    memory = map_memory()
    if layout is not None:
        box = layout.box
        strides = (layout.row_stride, layout.matrix_stride)
        extents = (layout.rows, layout.cols, layout.matrices, box.rows, box.cols)
        _MAP.pack_into(memory, 0, layout.pointer, *strides, *extents, layout.item_bytes, box.swizzle)
    return memory


def _seconds(work: Work, runs: range) -> float:
    start = time.perf_counter()
    for i in runs:
        work(i, None)
    return time.perf_counter() - start


def _runs_in_a_sample(run_s: float, rotation: int) -> int:
    runs = math.ceil(_SAMPLE_S / run_s)
    return runs if runs == 1 else math.ceil(runs / rotation) * rotation
