"""Loads what the compiler made, and launches it."""

import ctypes
import itertools
import json
import math
import os
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.core.errors import EngineUnavailableError, LaunchError, MemoryFullError
from tilewright.core.gpus import CLUSTER_LIMIT, COMPUTE_CAPABILITIES, STATIC_SHARED_LIMIT
from tilewright.emulator.compiler import FAST, Build
from tilewright.emulator.host import cores
from tilewright.emulator.own_names import renamed
from tilewright.emulator.runtime_library import Runtime, find_runtime
from tilewright.emulator.symbols import shared_variables
from tilewright.runtime import cache
from tilewright.runtime.side_by_side import check_stopped
from tilewright.runtime.worker_process import is_late

THREADS_VARIABLE = "TILEWRIGHT_EMULATOR_THREADS"
"""Environment variable: how many threads of the host run blocks at the same time; all of its processors by default."""

Extents = tuple[int, int, int]

_NO_BOUNDS: Extents = (0, 0, 0)

GRID_LIMITS = (2**31 - 1, 65535, 65535)
_BLOCK_LIMITS = (1024, 1024, 64)
_THREADS_LIMIT = 1024
_SHARED_LIMIT = max(limits.shared_per_block for limits in COMPUTE_CAPABILITIES.values())

TOGETHER_LIMIT = 2**17
"""Threads of a grid that synchronises. Each has a stack of its own."""


# Not in errors.py: callers of launches meet it only where they did not say that blocks are to run together.
class WaitsForBlocksError(LaunchError):
    """A block waits for others that do not run at the same time: see `Watch.together`."""


_GRID_SYNC = b"simt_grid_sync\0"
"""Among the symbols of a library whose kernel calls it."""

_CALLED = re.compile(rb"(?<=\0)simt_\w+(?=\0)")
_ALONE = frozenset((b"simt_thread", b"simt_call", b"simt_parameters", b"simt_launch_bounds", b"simt_shared_begin"))
"""Functions of the runtime, and the library's own, that sync no thread with another."""

_TURNS = (b"__tsan_atomic_thread_fence\0", *(b"__tsan_atomic%d_" % bits for bits in (16, 32, 64)))
"""Functions of atomic operations and of fences, in observable builds."""

_WAIT_MS = 50  # between looks at signals
_LATE_WAIT_MS = 1  # between attempts to stop a kernel in its own code
_MESSAGE_BYTES = 4096

_WAITS_FOR_OTHERS, _NO_MEMORY = 1, 2
"""Results of `simt_finish` for a launch that failed, besides 0: enum Failure of runtime.cpp."""


class _LaunchStruct(ctypes.Structure):
    """struct Launch of block_runner.hpp."""

    _fields_ = (
        ("call", ctypes.c_void_p),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("grid", ctypes.c_uint * 3),
        ("threads", ctypes.c_uint * 3),
        ("dynamic_shared_bytes", ctypes.c_uint64),
        ("observer", ctypes.c_void_p),
        ("schedule", ctypes.c_uint64),
        ("chosen", ctypes.POINTER(ctypes.c_uint64)),
        ("chosen_count", ctypes.c_uint64),
        ("cluster", ctypes.c_uint64),
        ("cooperative", ctypes.c_uint64),
        ("takes_turns", ctypes.c_uint64),
        ("absent_lanes", ctypes.c_uint64),
    )


_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "simt_static_shared_bytes": (ctypes.c_size_t, ctypes.c_void_p),
    "simt_create": (ctypes.c_void_p, ctypes.POINTER(_LaunchStruct), ctypes.c_uint),
    "simt_start": (None, ctypes.c_void_p),
    "simt_wait": (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint),
    "simt_interrupt": (None, ctypes.c_void_p),
    "simt_finish": (ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t),
    "simt_make_access_counter": (ctypes.c_void_p,),
    "simt_make_trace": (
        ctypes.c_void_p,
        *(ctypes.c_uint64, ctypes.c_uint, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint),
    ),
    "simt_report": (ctypes.c_char_p, ctypes.c_void_p),
    "simt_delete_observer": (None, ctypes.c_void_p),
}
"""Functions of the runtime: types of each one's result and arguments."""

ABSENT_LANES = 2**64 - 1, 0x5A5A5A5A5A5A5A5A, 0xDADADADADADADADA
"""Values that shuffles give for lanes that take no part: NaN or -1, large numbers, and such below 0. No minimum,
maximum or sum of numbers that people use is equal with all of them."""


class Observer:
    """Base of objects that observe a kernel of the CHECKED build while it runs. Its C++ half (observer.hpp) is given
    every access.

    Kinds of observers derive from this class, and give it the C++ object that a function of theirs in the runtime made.
    """

    def __init__(self, runtime: ctypes.CDLL, handle: int) -> None:
        self.handle = handle
        self._runtime = runtime
        weakref.finalize(self, runtime.simt_delete_observer, handle)

    def report(self) -> Any:
        """Report on the observed launch, in its kind's own form, from JSON."""
        return json.loads(self._runtime.simt_report(self.handle))


class Watch(NamedTuple):
    """How a launch is looked at.

    An observed launch, and one of another schedule than the first, runs on one thread of the host.
    """

    observer: Observer | None = None
    blocks: Sequence[int] | None = None
    """Numbers of the blocks to run, counted along x first; None for all. The others of their clusters run too, and
    count nothing."""
    schedule: int = 0
    """In what order blocks begin, and within a block threads: 0 in that of their numbers, 1 backwards, else shuffled by
    this seed."""
    together: bool = False
    """Whether all blocks run together, as on a GPU that has room for them, if their threads are not too many."""
    takes_turns: bool = False
    """Whether a thread lets others go on before each atomic operation, and behind each fence: with all blocks together,
    what one has read there others change before it goes on."""
    absent_lanes: int = ABSENT_LANES[0]
    """The bits that a shuffle gives of a lane that takes no part in it: GPUs give any."""

    @property
    def in_turn(self) -> bool:
        """Whether one thread of the host runs all blocks, one after the other."""
        return self.observer is not None or self.schedule != 0 or self.takes_turns


UNWATCHED = Watch()


class Program(NamedTuple):
    """A compiled kernel in this process."""

    name: str
    call: int
    """Address of the function that runs one thread."""
    parameter_bytes: tuple[int, ...]
    static_shared_bytes: int
    library: Path
    """The shared object that it was loaded from."""
    build: Build
    runtime: ctypes.CDLL
    cooperative: bool
    """Whether the kernel synchronises its grid, so that all blocks run together."""
    has_turns: bool
    """Whether it has atomic operations or fences, at which threads can take turns. Known of observable builds."""
    syncs: bool
    """Whether its threads have ways to sync: turns, static shared memory, or calls of the runtime's operations."""
    launch_bounds: Extents = _NO_BOUNDS
    """By its `__launch_bounds__`: threads of a block at most, blocks of a multiprocessor at least, and blocks of a
    cluster at most; 0 where it does not say."""

    def fill(self, name: str, content: bytes) -> None:
        """Give a variable that the kernel was compiled to have filled this content; what is left of it is zeros.

        Raises:
            LaunchError: it has fewer bytes.
        """
        at, bytes_of = ctypes.c_void_p(), _open(self.library)[f"simt_bytes_of_{renamed(name)}"]
        bytes_of.restype = ctypes.c_size_t
        if len(content) > (room := bytes_of(ctypes.byref(at))):
            raise LaunchError(f"{self.name}: {name} has {room:,} bytes in the source, got {len(content):,}")
        ctypes.memmove(at, content.ljust(room, b"\0"), room)

    def launch(
        self,
        grid: Extents,
        block: Extents,
        arguments: Sequence[Any],
        shared_bytes: int = 0,
        watch: Watch = UNWATCHED,
        cluster: int = 1,
    ) -> None:
        """Run the blocks of a grid, and return when they have ended. An interrupt (Ctrl-C) ends them early.

        Args:
            grid, block: blocks in the grid and threads in a block, along x, y and z.
            arguments: ctypes values, one for each of the kernel's parameters.
            shared_bytes: dynamic shared memory of a block.
            watch: who looks on, which blocks run, and in which order.
            cluster: blocks of a cluster, which the source says with __cluster_dims__.

        Raises:
            LaunchError: a GPU would refuse the launch, or the kernel made threads wait for ever, or it declares static
                shared memory for the blocks of clusters.
            MemoryFullError: this machine, or a limit of this process, leaves too little memory to run it.
        """
        if fault := next(self._faults(grid, block, arguments, shared_bytes, watch, cluster), ""):
            raise LaunchError(f"{self.name}: {fault}")
        pointers = (ctypes.c_void_p * max(len(arguments), 1))(*(ctypes.addressof(value) for value in arguments))
        chosen = None if watch.blocks is None else (ctypes.c_uint64 * len(watch.blocks))(*watch.blocks)
        observer = watch.observer.handle if watch.observer else None
        count = len(watch.blocks or ())
        fits = cluster == 1 and math.prod(grid) * math.prod(block) <= TOGETHER_LIMIT and watch.blocks is None
        cooperative = self.cooperative or (watch.together and fits)
        together = math.prod(grid) if cooperative else cluster
        where = self.call, pointers, grid, block, shared_bytes
        ways = together, cooperative, watch.takes_turns, watch.absent_lanes
        launch = _LaunchStruct(*where, observer, watch.schedule, chosen, count, *ways)
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        workers = 1 if watch.in_turn else min(worker_count(), math.prod(grid) // together)
        run = self.runtime.simt_create(ctypes.byref(launch), workers)
        try:
            self.runtime.simt_start(run)
            while not self.runtime.simt_wait(run, _LATE_WAIT_MS if is_late() else _WAIT_MS):
                check_stopped()
                if is_late():
                    self.runtime.simt_interrupt(run)
        finally:
            failure = self.runtime.simt_finish(run, message, _MESSAGE_BYTES)
        if message.value:
            why = f"{self.name}: {message.value.decode(errors='replace')}"
            if failure == _NO_MEMORY:
                raise MemoryFullError(f"too little memory: {why}")
            if failure == _WAITS_FOR_OTHERS:
                raise WaitsForBlocksError(f"{why}; up to {TOGETHER_LIMIT:,} threads can run together")
            raise LaunchError(why)

    def _faults(
        self, grid: Extents, block: Extents, arguments: Sequence[Any], shared_bytes: int, watch: Watch, cluster: int
    ) -> Iterator[str]:
        """Faults of a launch's geometry, in words."""
        for axis, blocks, threads, most_blocks, most_threads in zip(
            "xyz", grid, block, GRID_LIMITS, _BLOCK_LIMITS, strict=True
        ):
            if not 1 <= blocks <= most_blocks:
                yield f"grid along {axis} must be 1 to {most_blocks} blocks, got {blocks}"
            if not 1 <= threads <= most_threads:
                yield f"block along {axis} must be 1 to {most_threads} threads, got {threads}"
        if not 1 <= cluster <= CLUSTER_LIMIT:
            yield f"a cluster must have 1 to {CLUSTER_LIMIT} blocks, got {cluster}"
        if grid[0] % cluster:
            yield f"grid along x must be a multiple of the {cluster} blocks of a cluster, got {grid[0]}"
        threads = math.prod(block)
        if self.cooperative and cluster > 1:
            yield "on the emulator a kernel of clusters cannot synchronise its grid"
        if self.cooperative and threads * math.prod(grid) > TOGETHER_LIMIT:
            got = threads * math.prod(grid)
            yield f"on the emulator a grid that synchronises has at most {TOGETHER_LIMIT} threads, got {got}"
        if threads > _THREADS_LIMIT:
            yield f"a block has at most {_THREADS_LIMIT} threads, got {threads}"
        of_block, _, of_cluster = self.launch_bounds
        for what, most, got in ("threads of a block", of_block, threads), ("blocks of a cluster", of_cluster, cluster):
            if 0 < most < got:
                yield f"{what} are {most} at most by its __launch_bounds__, got {got}"
        static = self.static_shared_bytes
        if static > STATIC_SHARED_LIMIT:
            limit = f"{STATIC_SHARED_LIMIT} bytes of static shared memory"
            yield f"a block has at most {limit}, the kernel declares {static}"
        if shared_bytes < 0 or static + shared_bytes > _SHARED_LIMIT:
            said = f"{static} static and {shared_bytes} dynamic"
            yield f"a block has at most {_SHARED_LIMIT} bytes of shared memory, got {said}"
        given = tuple(ctypes.sizeof(argument) for argument in arguments)
        if given != self.parameter_bytes:
            yield f"takes parameters of {self.parameter_bytes} bytes, got {given}"
        if watch.observer is not None and not self.build.observable:
            yield "observers see kernels of the CHECKED build only"
        blocks = math.prod(grid)
        for number in watch.blocks or ():
            if not 0 <= number < blocks:
                yield f"numbers of blocks must be 0 to {blocks - 1}, got {number}"


def worker_count() -> int:
    """How many threads of the host run blocks at the same time.

    Raises:
        EngineUnavailableError: the environment variable is not a positive integer.
    """
    named = os.environ.get(THREADS_VARIABLE)
    if named is None:
        return cores()
    if not named.isdecimal() or int(named) == 0:
        raise EngineUnavailableError(f"{THREADS_VARIABLE} must be a positive integer, got {named!r}")
    return int(named)


def load_compiled(compiled: Callable[[], Path], name: str, build: Build = FAST) -> Program:
    """A program from a kernel that need not be in the cache.

    Args:
        compiled: compiles the kernel in this build, or takes it from the cache. Where what lies there does not load, as
            that of another kind of machine, it is removed, and compiled anew.
        name: what messages call it.
        build: the build.

    Raises:
        EngineUnavailableError: the kernel does not load.
        Others: as `compiled`.
    """
    return cache.loaded(compiled, lambda library: load(library, name, build), EngineUnavailableError)


def load(library: Path, name: str, build: Build = FAST) -> Program:
    """A program from a kernel, compiled in this build, under the name that messages give it.

    Raises:
        EngineUnavailableError: it does not load.
    """
    runtime = load_runtime()
    kernel = _open(library, "simt_parameters", "simt_call")
    kernel.simt_parameters.restype = ctypes.POINTER(ctypes.c_uint32)
    sizes = itertools.takewhile(bool, map(kernel.simt_parameters().__getitem__, itertools.count()))
    call = ctypes.cast(kernel.simt_call, ctypes.c_void_p).value
    assert call is not None
    bounds = _NO_BOUNDS
    if hasattr(kernel, "simt_launch_bounds"):
        kernel.simt_launch_bounds.restype = ctypes.POINTER(ctypes.c_uint32 * len(bounds))
        bounds = tuple(kernel.simt_launch_bounds().contents)
    shared_bytes = runtime.simt_static_shared_bytes(call)
    if build.spacing:
        shared_bytes = sum(variable.bytes for variable in shared_variables(library))
    code = library.read_bytes()
    has_turns = any(symbol in code for symbol in _TURNS)
    syncs = has_turns or shared_bytes > 0 or not _ALONE.issuperset(_CALLED.findall(code))
    together = _GRID_SYNC in code
    facts = tuple(sizes), shared_bytes, library, build, runtime, together, has_turns, syncs
    return Program(name, call, *facts, bounds)


def load_runtime() -> ctypes.CDLL:
    """The runtime in this process.

    Raises:
        EngineUnavailableError: there is no working C++ compiler.
    """
    compiled = find_runtime()
    try:
        return _load_runtime(compiled)
    except EngineUnavailableError:
        cache.drop(compiled.library)
    return _load_runtime(find_runtime())


@lru_cache
def _load_runtime(compiled: Runtime) -> ctypes.CDLL:  # by its name, wherever its file lies
    runtime = _open(compiled.library, "simt_create")
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(runtime, name)
        function.restype, function.argtypes = result, arguments
    return runtime


def _open(library: Path, *functions: str) -> ctypes.CDLL:
    """A shared object in this process, which has these functions."""
    try:
        loaded = ctypes.CDLL(str(library))
    except OSError as error:
        raise EngineUnavailableError(f"cannot load compiled code: {error}") from None
    for name in functions:
        if not hasattr(loaded, name):
            raise EngineUnavailableError(f"cannot load compiled code: {library} has no {name}")
    return loaded
