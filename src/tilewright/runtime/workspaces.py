"""Memory on a GPU that launches need besides their operands: a stream's, whose launches take turns, or a graph's.

Sums and copies lie there only where a call brings no memory for them (`Pointers.scratch`).

No two graphs share memory: the next graph takes it over when the graph and all that was made of it are destroyed. Two
executables of one graph share their memory and must not run at the same time. The launcher has a set of workspaces of
its own, since it may run between the steps of a plan in another thread. Memory is allocated, and counters are set to 0,
outside of captures.
"""

import ctypes
import threading
from functools import lru_cache
from typing import Any, NamedTuple

from cuda.bindings import driver
from cuda.core import Device, Stream

from tilewright.core.errors import LaunchError
from tilewright.runtime.driver import Allocation, Current, check, outside_of_captures, values
from tilewright.runtime.plan import Memory, Needs

_COUNTER_BYTES = 4
_PER_THREAD_STREAM = 2
"""Handle that stands for another stream in every thread of the host."""

_SEMAPHORE_BYTES = 64
"""More than a sem_t has in any C library."""


class Workspaces:
    """The workspaces of one GPU. May be used from several threads.

    A stream has one, which grows as launches need more, at least to twice its size; what it grew out of is not freed,
    as work that was launched before may still use it. A launch that is captured gets one that belongs to the graph:
    streams that are captured into one graph have one each, and no two graphs share. What a graph leaves when it is
    destroyed, with all that was made of it, is for the next graph. Two executable graphs that were made of one share
    its memory, and must not run at the same time.
    """

    def __init__(self, device: Device, current: Current) -> None:
        self._device = device
        self._current = current
        self._lock = threading.Lock()
        self._of_streams: dict[tuple[int, int], _Parts] = {}
        self._outgrown: list[_WorkspacePart] = []
        self._of_captures: dict[tuple[int, int], _Owned] = {}
        self._owned: list[_Owned] = []
        self._free: list[_Owned] = []
        self._stream: Stream | None = None

    def memory(self, stream: int, needs: Needs) -> Memory:
        """Memory for a launch on a stream, by its handle; not less than it needs. The counters are 0.

        Works inside a capture too: the memory is allocated, and the counters are set to 0, outside of it.

        Raises:
            LaunchError: the driver refuses; the stream may not be asked now whether it is captured.
            MemoryError: the GPU's memory is full.
        """
        with self._lock, self._current:
            # Id and graph are known only while the stream is captured.
            status, capture, graph, *_ = values(driver.cuStreamGetCaptureInfo(stream))
            if status == driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE:
                return self._of_graph(graph, (int(capture), stream), needs).memory
            owner = stream, threading.get_ident() if stream == _PER_THREAD_STREAM else 0
            parts = self._of_streams[owner] = self._grown(self._of_streams.get(owner, _Parts()), needs)
            return parts.memory

    def _of_graph(self, graph: Any, capture: tuple[int, int], needs: Needs) -> "_Parts":
        """Memory of a stream's in a capture; the graph keeps what the stream had in it before."""
        owned = self._of_captures.get(capture)
        if owned is None or not owned.parts.cover(needs):
            self._collect()
            owned = next((free for free in self._free if free.parts.cover(needs)), None)
            if owned is None:
                owned = _Owned(self._grown(_Parts(), needs), _Released())
            else:
                self._free.remove(owned)
            _give(graph, owned.released)
            self._owned.append(owned)
            self._of_captures[capture] = owned
        return owned.parts

    def _collect(self) -> None:
        """Free what belonged to graphs that are gone."""
        released = [owned for owned in self._owned if owned.released.happened()]
        self._owned = [owned for owned in self._owned if owned not in released]
        self._of_captures = {key: owned for key, owned in self._of_captures.items() if owned not in released}
        self._free += released

    def _grown(self, parts: "_Parts", needs: Needs) -> "_Parts":
        if parts.cover(needs):
            return parts
        with outside_of_captures():
            grown = _Parts(*map(self._grown_part, parts, _sizes(needs)))
            counters = grown.counters
            if counters is not parts.counters:
                self._stream = self._stream or self._device.create_stream()
                count = counters.bytes // _COUNTER_BYTES
                check(driver.cuMemsetD32Async(counters.pointer, 0, count, self._stream.handle))
                self._stream.sync()
        return grown

    def _grown_part(self, part: "_WorkspacePart", needed: int) -> "_WorkspacePart":
        if part.bytes >= needed:
            return part
        size = max(needed, 2 * part.bytes)
        try:
            allocation = Allocation(self._current, size)
        except MemoryError:
            if size == needed:
                raise
            size, allocation = needed, Allocation(self._current, needed)
        if part.bytes:
            self._outgrown.append(part)
        return _WorkspacePart(size, allocation)


class _WorkspacePart(NamedTuple):
    bytes: int = 0
    allocation: Allocation | None = None

    @property
    def pointer(self) -> int:
        return 0 if self.allocation is None else self.allocation.pointer


class _Parts(NamedTuple):
    workspace: _WorkspacePart = _WorkspacePart()
    counters: _WorkspacePart = _WorkspacePart()
    relayout: _WorkspacePart = _WorkspacePart()

    def cover(self, needs: Needs) -> bool:
        return all(part.bytes >= size for part, size in zip(self, _sizes(needs), strict=True))

    @property
    def memory(self) -> Memory:
        workspace, counters, relayout = self
        count = counters.bytes // _COUNTER_BYTES
        return Memory(workspace.pointer, workspace.bytes, counters.pointer, count, relayout.pointer, relayout.bytes)


def _sizes(needs: Needs) -> tuple[int, int, int]:
    """Bytes of the parts that a launch needs."""
    return needs.workspace_bytes, needs.counters * _COUNTER_BYTES, needs.relayout_bytes


class _Owned(NamedTuple):
    """Memory that belongs to a graph until it is released."""

    parts: _Parts
    released: "_Released"


class _Released:
    """Whether the driver has released something. It says so from a thread of its own, at any time.

    A semaphore of the C library, posted by the C library, so that this thread needs no Python: it may have ended. The
    semaphore is never freed for the same reason.
    """

    def __init__(self) -> None:
        self.address = _c_library().calloc(1, _SEMAPHORE_BYTES)
        if not self.address or _c_library().sem_init(self.address, 0, 0):
            raise MemoryError("the host's memory is full")

    @staticmethod
    def callback() -> int:
        """Address of the function to call with `address`."""
        return ctypes.cast(_c_library().sem_post, ctypes.c_void_p).value or 0

    def happened(self) -> bool:
        """Whether it has; True is said once."""
        return bool(_c_library().sem_trywait(self.address) == 0)


@lru_cache
def _c_library() -> Any:
    library = ctypes.CDLL(None)
    library.calloc.restype, library.calloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t, ctypes.c_size_t)
    library.sem_init.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint)
    library.sem_trywait.argtypes = (ctypes.c_void_p,)
    return library


def _give(graph: Any, released: _Released) -> None:
    """Have a graph that is being captured, and all that is made of it, hold something until they are destroyed."""
    no_wait = driver.CUuserObject_flags.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
    holder = check(driver.cuUserObjectCreate(released.address, driver.CUhostFn(_Released.callback()), 1, no_wait))
    try:
        moved = driver.CUuserObjectRetain_flags.CU_GRAPH_USER_OBJECT_MOVE
        check(driver.cuGraphRetainUserObject(graph, holder, 1, moved))
    except LaunchError:
        check(driver.cuUserObjectRelease(holder, 1))
        raise
