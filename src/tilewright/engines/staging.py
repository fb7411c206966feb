"""Copies between the host's arrays and a GPU's memory, through pinned buffers that several threads fill and empty.

A copy from ordinary memory is one thread's work in the driver. Here a few threads copy pieces into pinned buffers, from
where the copy engines take them, in both directions at once.

Driver API: "Memory Management" (cuMemHostAlloc). CUDA C++ Best Practices Guide: "Asynchronous and Overlapping Transfers
with Computation".
"""

import ctypes
import queue
import weakref
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from cuda.bindings.driver import cuMemcpyDtoHAsync, cuMemcpyHtoDAsync, cuMemFreeHost, cuMemHostAlloc
from cuda.core import Device, Event, Stream
from numpy.typing import NDArray

from tilewright.engines.driver import Current, check

LANES = 4
"""Threads, each with a stream and a buffer. On an H200's host four fill and empty faster than PCIe's two directions."""

PIECE_BYTES = 8 * 2**20
"""Bytes that a thread copies at a time."""


class Staging:
    """The pinned buffers of one GPU. May be used from several threads."""

    def __init__(self, device: Device, current: Current) -> None:
        self._current = current
        self._lanes: queue.SimpleQueue[_Lane] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(LANES, thread_name_prefix="tilewright-staging")
        with current:
            for _ in range(LANES):
                self._lanes.put(_Lane(device, current))

    def load(self, pointer: int, array: NDArray[Any]) -> "Transfer":
        """Start to copy a C-contiguous array to the GPU's memory."""
        return self._start(pointer, array, None)

    def store(self, array: NDArray[Any], pointer: int, after: Event) -> "Transfer":
        """Start to copy the GPU's memory to a C-contiguous array, once an event is reached."""
        return self._start(pointer, array, after)

    def _start(self, pointer: int, array: NDArray[Any], after: Event | None) -> "Transfer":
        memory = array.reshape(-1).view(np.uint8)
        pieces = range(0, memory.nbytes, PIECE_BYTES)
        return Transfer(
            self._threads.submit(self._move, pointer + start, memory[start : start + PIECE_BYTES], after)
            for start in pieces
        )

    def _move(self, pointer: int, piece: NDArray[np.uint8], after: Event | None) -> None:
        lane = self._lanes.get()
        try:
            with self._current:
                if after is None:
                    lane.load(pointer, piece)
                else:
                    lane.store(piece, pointer, after)
        finally:
            self._lanes.put(lane)


class Transfer:
    """A copy that has been started."""

    def __init__(self, pieces: Iterable["Future[None]"]) -> None:
        self._pieces = list(pieces)

    def wait(self) -> None:
        """Return when all of it has been copied.

        Raises:
            LaunchError: the driver refuses a copy.
        """
        wait(self._pieces)
        for piece in self._pieces:
            piece.result()


class _Lane:
    def __init__(self, device: Device, current: Current) -> None:
        self._stream: Stream = device.create_stream()
        pointer = int(check(cuMemHostAlloc(PIECE_BYTES, 0)))
        self._pointer = pointer
        self._buffer = np.ctypeslib.as_array((ctypes.c_uint8 * PIECE_BYTES).from_address(pointer))
        weakref.finalize(self, _free, current, pointer).atexit = False  # at exit the driver frees everything itself

    def load(self, pointer: int, piece: NDArray[np.uint8]) -> None:
        self._buffer[: piece.nbytes] = piece
        check(cuMemcpyHtoDAsync(pointer, self._pointer, piece.nbytes, self._stream.handle))
        self._stream.sync()

    def store(self, piece: NDArray[np.uint8], pointer: int, after: Event) -> None:
        self._stream.wait(after)
        check(cuMemcpyDtoHAsync(self._pointer, pointer, piece.nbytes, self._stream.handle))
        self._stream.sync()
        piece[:] = self._buffer[: piece.nbytes]


def _free(current: Current, pointer: int) -> None:
    with current:
        cuMemFreeHost(pointer)
