"""Traces a kernel on the emulator: the requests of one warp, and which thread wrote each element of C.

A and B are filled with numbers that say which element each is, so that what a lane finds in shared memory tells what
lies there, however the kernel laid it out.
"""

import math
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.errors import EngineUnavailableError, LaunchError
from tilewright.core.hardware import SECTOR_BYTES, WARP, ceil_div
from tilewright.core.problem import Problem
from tilewright.emulator import symbols
from tilewright.emulator.compiler import TRACED
from tilewright.emulator.engine import EmulatorEngine, LaunchFacts
from tilewright.emulator.program import UNWATCHED, Observer, Watch, load_runtime
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.runtime.base import Matrix, run

BANKS = 32
BANK_BYTES = 4

_FIRST = 2**20
"""A's elements count up from here, B's down from its negative; a product of two is far outside of both."""
_THREADS = 1024
"""A writer is its block's number times this, plus its own (access_trace.cpp)."""


class Access(NamedTuple):
    """One lane's read or write in one instruction."""

    lane: int
    address: int
    """First byte: within the matrix, or within the block's shared memory."""
    bytes: int
    row: int
    """Row of the first element in its matrix. In shared memory, of the element that lies there; -1: of none known."""
    col: int


class WarpRequest(NamedTuple):
    """One instruction of one warp."""

    array: str
    """A, B or C; in shared memory, the matrix whose elements lie there."""
    shared: bool
    """Whether it is of shared memory, else of global memory."""
    kind: str
    """load, store, or copy: straight from global to shared memory, one request of each."""
    accesses: tuple[Access, ...]
    """One for each lane that takes part, by lane."""
    place: str = ""
    """The line of the kernel that makes it, as 'naive.cu:24'; '' where that is not known."""

    @property
    def sectors(self) -> frozenset[int]:
        """Numbers of the 32-byte sectors that it touches."""
        return frozenset(
            sector
            for access in self.accesses
            for sector in range(access.address // SECTOR_BYTES, ceil_div(access.address + access.bytes, SECTOR_BYTES))
        )

    @property
    def distinct_bytes(self) -> int:
        """Bytes that it uses, each counted once."""
        return len({byte for one in self.accesses for byte in range(one.address, one.address + one.bytes)})


class Event(NamedTuple):
    """An access as the trace has it (access_trace.cpp)."""

    space: str
    """global, static or dynamic (shared memory)."""
    kind: str
    step: int
    """Barriers that the block has passed."""
    lane: int
    site: int
    """Where in the code: an address in the kernel's library, or the line of a copy."""
    address: int
    """In shared memory, bytes from the start of its space."""
    bytes: int
    """0 for a copy of nothing but zeros."""
    word: int
    """The first four bytes, of a load from shared memory."""


def instructions(events: Iterable[Event]) -> list[list[Event]]:
    """Events by instruction: lanes that come to the same place as often since the last barrier come there together.

    In the order in which the first lane came.
    """
    counts: Counter[tuple[str, str, int, int, int]] = Counter()
    grouped: dict[tuple[str, str, int, int, int], list[Event]] = {}
    for event in events:
        place = (event.space, event.kind, event.step, event.site)
        counts[(*place, event.lane)] += 1
        grouped.setdefault((*place, counts[(*place, event.lane)]), []).append(event)
    return list(grouped.values())


class LoadedTile(NamedTuple):
    """Elements of a matrix that the copy engine loaded at once, without any lane."""

    array: str
    row: int
    col: int
    rows: int
    cols: int


class Trace(NamedTuple):
    """Requests of one warp, tiles of one block, and the writers of C."""

    requests: tuple[WarpRequest, ...]
    """Requests of the traced warp, in the order of its first lane."""
    tiles: tuple[LoadedTile, ...]
    """Tiles of the traced block."""
    blocks: NDArray[np.int64]
    """m x n: the number of the block that wrote each element of C last, -1 where none did."""
    threads: NDArray[np.int64]
    """m x n: the number of the thread in its block."""

    def first(self, array: str, kinds: Sequence[str], *, shared: bool) -> WarpRequest | None:
        """The first request of these kinds for an array, or None."""
        for request in self.requests:
            if request.array == array and request.shared is shared and request.kind in kinds:
                return request
        return None


def _tracer(warp: int, c: Matrix) -> Observer:
    """Make an observer of the accesses of a warp of the first block, and of who writes C (access_trace.cpp)."""
    runtime, extent = load_runtime(), (c.rows - 1) * c.ld + c.cols
    return Observer(runtime, runtime.simt_make_trace(0, warp, c.pointer, extent, ITEM_BYTES[c.dtype]))


def trace(kernel: Kernel, config: Config, problem: Problem, *, warp: int = 0) -> Trace:
    """Run a kernel, watching one warp of the first block.

    Args:
        kernel, config: what to run.
        problem: as small as shows what is to be seen: the run takes a microsecond or so an access.
        warp: number of the warp.

    Raises:
        LaunchError: the problem has no elements of C, so that nothing is launched; there is no such warp; or the kernel
            fails.
        CompileError: the kernel does not compile.
        EngineUnavailableError: there is no working C++ compiler.
    """
    if not problem.m or not problem.n:
        raise LaunchError(f"a traced problem must have elements of C, got {problem.shape}")
    tracers: list[Observer] = []
    launches: list[LaunchFacts] = []

    def watch(facts: LaunchFacts) -> Watch:
        if facts.executable.kernel is not kernel:
            return UNWATCHED
        warps = ceil_div(math.prod(facts.block), WARP)
        if not 0 <= warp < warps:
            raise LaunchError(f"warp must be 0 to {warps - 1} here, got {warp}")
        launches.append(facts)
        tracers.append(_tracer(warp, facts.arrays[2].matrix))
        return Watch(tracers[-1])

    engine = EmulatorEngine(TRACED, watch)
    a = engine.upload(_numbered(problem.m, problem.k, problem.dtype, 1), problem.a.ld, problem.a.order)
    b = engine.upload(_numbered(problem.k, problem.n, problem.dtype, -1), problem.b.ld, problem.b.order)
    c = engine.upload(np.zeros((problem.m, problem.n), dtype=problem.result), problem.d.ld)
    run(engine, kernel, config, problem, a, b, c)
    seen = tracers[-1].report()
    matrices = {array.name: array.matrix for array in launches[-1].arrays if array.name in "ABC"}
    exact = kernel.support.precision is None and problem.k * max(problem.m, problem.n) <= _FIRST
    contents = _Contents(problem, exact, {space: seen[f"{space}_words"] for space in ("static", "dynamic")})
    grouped = instructions(map(Event._make, seen["events"]))
    lines = _lines(kernel, launches[-1].executable.program.library, grouped)
    requests = [_request(events, matrices, contents, lines) for events in grouped]
    writers = np.full(problem.m * problem.d.ld, -1, dtype=np.int64)
    writers[: len(seen["writers"])] = seen["writers"]
    writers = writers.reshape(problem.m, problem.d.ld)[:, : problem.n]
    names = {matrix.pointer: name for name, matrix in matrices.items()}
    return Trace(
        tuple(request for request in requests if request is not None),
        tuple(LoadedTile(names[pointer], *where) for pointer, *where in seen["tiles"]),
        np.where(writers < 0, -1, writers // _THREADS),
        np.where(writers < 0, -1, writers % _THREADS),
    )


def _numbered(rows: int, cols: int, dtype: str, sign: int) -> NDArray[np.float64]:
    """A matrix whose elements say where they are, as far as their type can; at least their sign says of which it is."""
    if ITEM_BYTES[dtype] < 4:
        return np.full((rows, cols), sign, dtype=dtype)
    numbers = sign * (_FIRST + np.arange(rows * cols) % _FIRST)
    return numbers.reshape(rows, cols).astype(dtype)


class _Contents(NamedTuple):
    """Contents of shared memory at the time of each read."""

    problem: Problem
    exact: bool
    """Whether an element gives its place: it was not rounded, and there are not too many."""
    words: dict[str, list[int]]
    """By space, the first four bytes that were read at each place, 0 where none were."""

    def array(self, event: Event) -> str | None:
        """The matrix whose elements lie at the place of an access."""
        return self.element(event.word or self.words[event.space][event.address // 4])[0]

    def element(self, word: int) -> tuple[str | None, int, int]:
        """The matrix, row and column of an element from its first bytes; -1 where they do not say."""
        if ITEM_BYTES[self.problem.dtype] < 4:
            low = word & 0xFFFF
            ones = {0x3C00, 0x3F80}  # 1 as float16 and as bfloat16
            return ("A" if low in ones else "B" if low & 0x7FFF in ones and low >> 15 else None), -1, -1
        (value,) = struct.unpack("f", struct.pack("I", word))
        if not _FIRST <= abs(value) < 2 * _FIRST:
            return None, -1, -1
        name, cols = ("A", self.problem.k) if value > 0 else ("B", self.problem.n)
        row, col = divmod(int(abs(value)) - _FIRST, cols)
        return (name, row, col) if self.exact else (name, -1, -1)


def _lines(kernel: Kernel, library: Path, grouped: Sequence[Sequence[Event]]) -> dict[int, str]:
    """The kernel's line for each site of an access, '' where that is not known."""
    sites = {one[0].site for one in grouped if one[0].kind != "copy"}
    try:
        places = symbols.places(library, sites)
    except EngineUnavailableError:
        return {}
    own = {site: [str(line) for line in place if line.file == kernel.source.name] for site, place in places.items()}
    return {site: found[-1] if found else "" for site, found in own.items()}


def _request(
    events: Sequence[Event], matrices: dict[str, Matrix], contents: _Contents, lines: dict[int, str]
) -> WarpRequest | None:
    """One instruction's events as a request; None where it is of nothing that figures show."""
    events = sorted((event for event in events if event.bytes), key=lambda event: event.lane)
    if not events:
        return None
    first = events[0]
    line = "" if first.kind == "copy" else lines.get(first.site, "")
    if first.space != "global":
        array = contents.array(first)
        if array is None:
            return None
        accesses = [Access(one.lane, one.address, one.bytes, *contents.element(one.word)[1:]) for one in events]
        return WarpRequest(array, True, first.kind, tuple(accesses), line)
    for name, matrix in matrices.items():
        size = ITEM_BYTES[matrix.dtype]
        offset = first.address - matrix.pointer
        if 0 <= offset < ((matrix.rows - 1) * matrix.ld + matrix.cols) * size:
            offsets = [one.address - matrix.pointer for one in events]
            places = [divmod(at // size, matrix.ld) for at in offsets]
            each = zip(events, offsets, places, strict=True)
            accesses = [Access(one.lane, at, one.bytes, *place) for one, at, place in each]
            return WarpRequest(name, False, first.kind, tuple(accesses), line)
    return None
