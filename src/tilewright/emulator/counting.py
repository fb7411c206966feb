"""Counts what a launch does to memory and how much it computes, on the emulator (access_counter.cpp): of matrix
products and of any other kernel."""

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.problem import Problem, Scalars
from tilewright.emulator.compiler import TRACED, Build
from tilewright.emulator.engine import MULTIPROCESSORS, EmulatorEngine
from tilewright.emulator.launches import Placed, compile_launch, draw
from tilewright.emulator.program import UNWATCHED, Observer, WaitsForBlocksError, Watch, load_runtime
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.source.source_launch import SourceLaunch
from tilewright.kernels.split import RANGE_WORDS, scale_count
from tilewright.kernels.support import Variant
from tilewright.runtime.arguments import AddressSource
from tilewright.runtime.base import Matrix
from tilewright.runtime.plan import Pointers
from tilewright.runtime.relayouts import Job

COUNTED = Build((), ahead=("counted_float.hpp",))
"""Kernels whose floats count the operations on them."""


class Tally(NamedTuple):
    """Requests to shared memory, and their wavefronts: all, and how many there were without bank conflicts."""

    requests: int
    wavefronts: int
    least_wavefronts: int


class Site(NamedTuple):
    """A place in the code that accesses memory, and what all its accesses cost."""

    library: Path
    place: int
    """Offset of the code in the library; where `file` is given, the source line."""
    file: str | None
    pipe: str
    """global_load, global_store, global_atomic, shared_load, shared_store, shared_atomic, copy (cp.async), or
    product (a warpgroup's, whose factors the tensor cores read from shared memory)."""
    bytes: int
    """Bytes of one thread's access, or of a word that a product reads."""
    accesses: int
    """Accesses of single threads, or words that products read."""
    sectors: int
    """Sectors of 32 bytes, of global memory."""
    reading: int
    """Requests of a copy that read: a request whose lanes all lie outside of the matrix writes zeros only."""
    lines: int
    """Lines of 128 bytes that requests of global loads and stores touch."""
    passes: int
    """Passes of global loads and stores over the banks of the L1 cache, if it has all the lines."""
    merged: dict[int, Tally]
    """Where accesses of neighbouring words become vectors of up to this many bytes: 4 (none do), 8 or 16."""


class MemoryCounts(NamedTuple):
    """Accesses to memory by blocks of a launch."""

    sites: tuple[Site, ...]
    blocks: int
    tile_bytes: int
    """Bytes that tensor maps load and store inside of matrices; a tile for several blocks of a cluster counts once."""
    tile_shared_bytes: int
    """Bytes that these loads write to shared memory: a tile counts for each block that gets it."""
    tiles: int
    fragments: int
    """Accesses of whole matrix fragments in shared memory, which are counted as pieces of 16 bytes a lane."""


class Operations(NamedTuple):
    """Float32 operations of threads: multiply-adds, multiplications and additions."""

    ffma: int
    fmul: int
    fadd: int


class _Counts(ctypes.Structure):
    """struct OperationCounts of counted_float.hpp."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in Operations._fields)


class LaunchOperands(NamedTuple):
    """A, B and C of a launch, and its scalars."""

    a: Matrix
    b: Matrix
    c: Matrix
    scalars: Scalars


def access_counter() -> Observer:
    """An observer whose report `memory_counts` reads."""
    runtime = load_runtime()
    return Observer(runtime, runtime.simt_make_access_counter())


def operations_of(library: Path, run: Callable[[], None]) -> Operations:
    """How much a kernel of the COUNTED build in this library computes in some runs."""
    loaded = ctypes.CDLL(str(library))
    loaded.simt_operation_counts.restype = ctypes.POINTER(_Counts)
    counts = loaded.simt_operation_counts().contents
    before = [getattr(counts, name) for name in Operations._fields]
    run()
    return Operations(*(getattr(counts, name) - known for name, known in zip(Operations._fields, before, strict=True)))


IN_TURN = 1
"""A schedule that keeps a launch on one thread of the host, on which operations are counted."""


class BlockCounter:
    """Runs blocks of a kernel, which make no copies of operands, and counts what they do.

    Raises:
        EngineUnavailableError: there is no working C++ compiler.
    """

    def __init__(
        self, kernel: Kernel, config: Config, variant: Variant, multiprocessors: int = MULTIPROCESSORS
    ) -> None:
        self._of = kernel, config, variant
        self._watch = UNWATCHED
        self.engine = EmulatorEngine(TRACED, lambda facts: self._watch, multiprocessors)
        self._counted = EmulatorEngine(COUNTED, lambda facts: self._watch, multiprocessors)

    def memory(self, problem: Problem, operands: LaunchOperands, blocks: Sequence[int] | None) -> MemoryCounts:
        """Count the memory accesses of the blocks of these numbers, or all; C is overwritten.

        Raises:
            LaunchError: the operands do not fit the kernel's compiled form, or the kernel failed.
        """
        observer = access_counter()
        self._run(self.engine, problem, operands, Watch(observer, blocks))
        return memory_counts(observer.report(), self.engine.compile(*self._of).program.library)

    def operations(self, problem: Problem, operands: LaunchOperands, blocks: Sequence[int] | None) -> Operations:
        """Count the float32 operations of these blocks; C is overwritten.

        Raises:
            LaunchError: as `memory`.
        """
        watch = Watch(blocks=blocks, schedule=IN_TURN)
        library = self._counted.compile(*self._of).program.library
        return operations_of(library, lambda: self._run(self._counted, problem, operands, watch))

    def _run(self, engine: EmulatorEngine, problem: Problem, operands: LaunchOperands, watch: Watch) -> None:
        self._watch = watch
        kernel, config, variant = self._of
        sources, known = _known(kernel, problem)
        step = engine.step(Job(kernel, config, problem, variant, sources), engine.compile(*self._of))
        pointers = Pointers(operands.a.pointer, operands.b.pointer, operands.c.pointer)
        engine.launch(step, pointers, operands.scalars, known.ctypes.data)


def _known(kernel: Kernel, problem: Problem) -> tuple[dict[str, AddressSource], NDArray[np.uint32]]:
    """Values that a kernel reads of parts that exist already, and of scales, and in which memory: zeros, as for
    operands that bfloat16 parts can represent."""
    sources: dict[str, AddressSource] = {}
    words = 1
    for x, sides in (("a", problem.m), ("b", problem.n)) if kernel.splits else ():
        sources[f"range_{x}"] = sources[f"scales_{x}"] = AddressSource("relayout", 4 * words)
        words += max(RANGE_WORDS, problem.batch * scale_count(sides, problem.k))
    for x, scale, sides in (("a", problem.scaling.a, problem.m), ("b", problem.scaling.b, problem.n)):
        if scale is not None:
            sources[f"scale_{x}"] = AddressSource("relayout", 4 * words)
            words += scale.extent(sides, problem.k)
    return sources, np.zeros(words, np.uint32)


def memory_counts(report: Any, library: Path) -> MemoryCounts:
    """Counts of an access counter, for a kernel in this library."""
    sites = []
    for site in report["sites"]:
        merged = {int(width): Tally(*tally) for width, tally in site.pop("merged").items()}
        sites.append(Site(library=library, merged=merged, **site))
    names = ("blocks", "tile_bytes", "tile_shared_bytes", "tiles", "fragments")
    return MemoryCounts(tuple(sites), *(report[name] for name in names))


_VOLATILE = b"__tsan_volatile_"
"""How names begin that a library has whose kernel makes volatile accesses."""


class LaunchCounter:
    """Counts of a launch, on inputs as the check draws them."""

    def __init__(self, launch: SourceLaunch) -> None:
        """Draw the inputs."""
        self._launch, self._inputs = launch, draw(launch)
        self.together = False
        """Whether all blocks have to run together: one waits for others that come after it."""

    def memory(self, blocks: Sequence[int] | None = None) -> MemoryCounts:
        """Count the memory accesses of the launch's blocks of these numbers, or all. All run together where they wait
        for each other.

        Raises:
            CompileError: the compiler refuses the source.
            EngineUnavailableError: there is no C++ compiler.
            LaunchError: a GPU would refuse the launch, or the kernel failed.
            WaitsForBlocksError: a block waits for others, which are not among these, or are too many to run together.
        """
        program, counter = compile_launch(self._launch, TRACED), access_counter()
        try:
            Placed(self._launch, self._inputs).run(program, Watch(counter, blocks, together=self.together))
        except WaitsForBlocksError:
            if blocks is not None or self.together:
                raise
            self.together = True
            return self.memory()
        return memory_counts(counter.report(), program.library)

    def waits_in_turn(self, blocks: Sequence[int] | None = None) -> bool:
        """Whether these blocks wait for others in the order in which operations are counted, where nothing would end
        that.

        Raises:
            CompileError, EngineUnavailableError, LaunchError: as `memory`.
        """
        program = compile_launch(self._launch, TRACED)
        if not program.has_turns and _VOLATILE not in program.library.read_bytes():
            return False
        try:
            Placed(self._launch, self._inputs).run(program, Watch(access_counter(), blocks, IN_TURN))
        except WaitsForBlocksError:
            return True
        return False

    def operations(self, blocks: Sequence[int] | None = None) -> Operations:
        """Count the float32 operations of these blocks.

        Raises:
            CompileError: the source does not compile with floats that count.
            EngineUnavailableError, LaunchError: as `memory`.
        """
        program = compile_launch(self._launch, COUNTED)
        watch = Watch(blocks=blocks, schedule=IN_TURN)
        return operations_of(program.library, lambda: Placed(self._launch, self._inputs).run(program, watch))


def synchronises(launch: SourceLaunch) -> bool:
    """Whether the kernel synchronises its grid."""
    return compile_launch(launch, TRACED).cooperative
