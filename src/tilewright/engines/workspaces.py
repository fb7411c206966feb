"""Memory on a GPU that launches need besides their operands: each stream has its own, since its launches take turns."""

import contextlib
import threading
from collections.abc import Iterator
from typing import NamedTuple

from cuda.bindings.driver import CUstreamCaptureMode, cuMemsetD32Async, cuThreadExchangeStreamCaptureMode
from cuda.core import Device, Stream

from tilewright.engines.driver import Allocation, Current, check
from tilewright.kernels.spec import Workspace

_TICKET_BYTES = 4
_PER_THREAD_STREAM = 2
"""Handle that stands for another stream in every thread of the host."""


class _Memory(NamedTuple):
    workspace: Allocation
    bytes: int
    tickets: Allocation
    ticket_count: int


class Workspaces:
    """The workspaces of one GPU. May be used from several threads.

    They grow as launches need more, at least to twice their size. What they grew out of is not freed, as a captured
    graph may still use it. A graph uses the workspace of the stream that it was captured on: two graphs captured on
    one stream must not run at the same time.
    """

    def __init__(self, device: Device, current: Current) -> None:
        self._device = device
        self._current = current
        self._lock = threading.Lock()
        self._memories: dict[tuple[int, int, str], _Memory] = {}
        self._outgrown: list[_Memory] = []
        self._replayed_on: dict[int, int] = {}

    def pointers(self, stream: Stream, needed: Workspace, purpose: str = "") -> tuple[int, int]:
        """Addresses of a workspace and its tickets for launches on a stream; 0 where none is needed.

        One launch may have several, of different purposes.

        Works inside a capture too: the memory is allocated, and the tickets are set to 0, outside of it.

        Raises:
            MemoryError: the GPU's memory is full.
        """
        if needed.bytes == 0:
            return 0, 0
        handle = int(stream.handle)
        handle = self._replayed_on.get(handle, handle)
        key = (handle, threading.get_ident() if handle == _PER_THREAD_STREAM else 0, purpose)
        memory = self._memories.get(key)
        if memory is None or memory.bytes < needed.bytes or memory.ticket_count < needed.tickets:
            with self._lock:
                memory = self._grown(self._memories.get(key), needed)
                self._memories[key] = memory
        return memory.workspace.pointer, memory.tickets.pointer

    @contextlib.contextmanager
    def captured(self, on: Stream, replayed_on: Stream) -> Iterator[None]:
        """In a `with` block, launches on one stream are captured, to be run on another only: they get its workspace."""
        self._replayed_on[int(on.handle)] = int(replayed_on.handle)
        try:
            yield
        finally:
            del self._replayed_on[int(on.handle)]

    def _grown(self, old: _Memory | None, needed: Workspace) -> _Memory:
        size, count = needed.bytes, needed.tickets
        if old is not None:
            self._outgrown.append(old)
            size, count = (
                has if has >= needs else max(needs, 2 * has)
                for has, needs in ((old.bytes, needed.bytes), (old.ticket_count, needed.tickets))
            )
        with _outside_of_captures():
            workspace = Allocation(self._current, size)
            tickets = Allocation(self._current, count * _TICKET_BYTES)
            with self._current:
                stream = self._device.create_stream()
                check(cuMemsetD32Async(tickets.pointer, 0, count, stream.handle))
                stream.sync()
        return _Memory(workspace, size, tickets, count)


@contextlib.contextmanager
def _outside_of_captures() -> Iterator[None]:
    """In a `with` block, this thread may allocate memory and wait while one of its streams is captured."""
    before = check(cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    try:
        yield
    finally:
        check(cuThreadExchangeStreamCaptureMode(before))
