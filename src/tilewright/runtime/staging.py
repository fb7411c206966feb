"""Copies between the host's arrays and a GPU's memory: through pinned buffers that several threads fill and empty, or
directly where an array is pinned itself.

A copy from ordinary memory is one thread's work in the driver. Here a few threads copy pieces into pinned buffers, from
where the copy engines take them; others empty such buffers, so both directions go on at once, and a copy that waits for
its product holds up none of the other direction.

Driver API: "Memory Management" (driver.cuMemHostAlloc, cuMemcpy2DAsync), "Unified Addressing" (cuPointerGetAttribute).
CUDA C++ Best Practices Guide: "Asynchronous and Overlapping Transfers with Computation".
"""

import ctypes
import queue
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, Event, Stream
from numpy.typing import NDArray

from tilewright.runtime.driver import Current, check

LANES = 4
"""Threads of each direction, each with a stream and a buffer. On an H200's host four fill faster than PCIe moves."""

PIECE_BYTES = 8 * 2**20
"""Bytes that a thread copies at a time."""

STAGED_BYTES = 2**20
"""Smaller arrays are loaded by the driver, in the order of the work on the GPU."""

Wait = Callable[[], None]
"""Returns when a copy has been made, or when the GPU's own stream waits for it."""


class HostStaging:
    """Copies to and from one GPU. May be used from several threads.

    Arrays have two dimensions or one, and neighbours in memory along the last; on the GPU they have no gaps.
    """

    def __init__(self, device: Device, current: Current, own: Stream) -> None:
        self._current, self._own = current, own
        self._to_gpu, self._to_host = _Lanes(device, current), _Lanes(device, current)
        with current:
            self._loads, self._stores = device.create_stream(), device.create_stream()

    def load(self, pointer: int, array: NDArray[Any], after: Event | None = None) -> Wait:
        """Start to copy an array to the GPU's memory, once an event is reached.

        Work on the engine's stream that is started when the function has returned sees it.
        """
        if array.nbytes == 0:
            return _done
        if is_pinned(array):
            copied = self._directly(self._loads, pointer, array, after, to_host=False)
            return partial(self._in_context, partial(self._own.wait, copied))
        if array.nbytes < STAGED_BYTES:  # the engine's stream has reached the event when it comes to this
            dense = np.ascontiguousarray(array)
            with self._current:
                check(driver.cuMemcpyHtoDAsync(pointer, dense.ctypes.data, dense.nbytes, self._own.handle))
            return _done
        return self._to_gpu.start(pointer, array, after, to_host=False)

    def store(self, array: NDArray[Any], pointer: int, after: Event) -> Wait:
        """Start to copy the GPU's memory to an array, once an event is reached; the function waits for all of it."""
        if array.nbytes == 0:
            return _done
        if is_pinned(array):
            copied = self._directly(self._stores, pointer, array, after, to_host=True)
            return partial(self._in_context, copied.sync)
        return self._to_host.start(pointer, array, after, to_host=True)

    def _directly(self, stream: Stream, pointer: int, array: NDArray[Any], after: Event | None, to_host: bool) -> Event:
        """Start a copy of a pinned array; the event of its end."""
        with self._current:
            if after is not None:
                stream.wait(after)
            _copy_lines(pointer, array, to_host, stream)
            return stream.record()

    def _in_context(self, act: Wait) -> None:
        with self._current:
            act()


def pieces(array: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """An array in pieces of at most `PIECE_BYTES`, as bytes, each with its offset where there are no gaps."""
    if array.flags.c_contiguous:
        memory = array.reshape(-1).view(np.uint8)
        for start in range(0, memory.nbytes, PIECE_BYTES):
            yield start, memory[start : start + PIECE_BYTES]
        return
    lines = array.view(np.uint8)
    count, length = lines.shape
    if length > PIECE_BYTES:
        for line in range(count):
            for start in range(0, length, PIECE_BYTES):
                yield line * length + start, lines[line, start : start + PIECE_BYTES]
        return
    height = PIECE_BYTES // length
    for line in range(0, count, height):
        yield line * length, lines[line : line + height]


def is_pinned(array: NDArray[Any]) -> bool:
    """Whether copy engines can read and write an array's memory themselves."""
    first = array.ctypes.data
    last = first + sum((size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True))
    return _is_pinned(first) and _is_pinned(last)


def _is_pinned(address: int) -> bool:
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    status, kind = driver.cuPointerGetAttribute(attribute, address)
    host = int(driver.CUmemorytype.CU_MEMORYTYPE_HOST)
    return bool(status == driver.CUresult.CUDA_SUCCESS and int(kind or 0) == host)


def _copy_lines(pointer: int, array: NDArray[Any], to_host: bool, stream: Stream) -> None:
    """Start a copy between pinned memory and a GPU's."""
    lines = array.reshape(1, -1) if array.ndim == 1 or array.flags.c_contiguous else array
    count, length = lines.shape[0], lines.shape[1] * lines.itemsize
    copy = driver.CUDA_MEMCPY2D()
    host, gpu = driver.CUmemorytype.CU_MEMORYTYPE_HOST, driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    pitch = lines.strides[0] if count > 1 else length
    if to_host:
        copy.srcMemoryType, copy.srcDevice, copy.srcPitch = gpu, pointer, length
        copy.dstMemoryType, copy.dstHost, copy.dstPitch = host, lines.ctypes.data, pitch
    else:
        copy.srcMemoryType, copy.srcHost, copy.srcPitch = host, lines.ctypes.data, pitch
        copy.dstMemoryType, copy.dstDevice, copy.dstPitch = gpu, pointer, length
    copy.WidthInBytes, copy.Height = length, count
    check(driver.cuMemcpy2DAsync(copy, stream.handle))


def _done() -> None:
    """There is nothing to wait for."""


class _Lanes:
    """Threads of one direction, and what they copy through."""

    def __init__(self, device: Device, current: Current) -> None:
        self._current = current
        self._free: queue.SimpleQueue[_Lane] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(LANES, thread_name_prefix="tilewright-staging")
        with current:
            for _ in range(LANES):
                self._free.put(_Lane(device, current))

    def start(self, pointer: int, array: NDArray[Any], after: Event | None, to_host: bool) -> Wait:
        """Start to copy an array in pieces; the function waits for all of them."""
        moves = [
            self._threads.submit(self._move, pointer + offset, piece, after, to_host) for offset, piece in pieces(array)
        ]

        def finish() -> None:
            wait(moves)
            for move in moves:
                move.result()

        return finish

    def _move(self, pointer: int, piece: NDArray[np.uint8], after: Event | None, to_host: bool) -> None:
        lane = self._free.get()
        try:
            with self._current:
                lane.move(pointer, piece, after, to_host)
        finally:
            self._free.put(lane)


class _Lane:
    def __init__(self, device: Device, current: Current) -> None:
        self._stream: Stream = device.create_stream()
        pointer = int(check(driver.cuMemHostAlloc(PIECE_BYTES, 0)))
        self._pointer = pointer
        self._buffer = np.ctypeslib.as_array((ctypes.c_uint8 * PIECE_BYTES).from_address(pointer))
        weakref.finalize(self, _free, current, pointer).atexit = False  # at exit the driver frees everything itself

    def move(self, pointer: int, piece: NDArray[np.uint8], after: Event | None, to_host: bool) -> None:
        """Copy a piece by way of the buffer, and wait for it."""
        staged = self._buffer[: piece.nbytes].reshape(piece.shape)
        if not to_host:
            staged[...] = piece
        if after is not None:
            self._stream.wait(after)
        if to_host:
            check(driver.cuMemcpyDtoHAsync(self._pointer, pointer, piece.nbytes, self._stream.handle))
        else:
            check(driver.cuMemcpyHtoDAsync(pointer, self._pointer, piece.nbytes, self._stream.handle))
        self._stream.sync()
        if to_host:
            piece[...] = staged


def _free(current: Current, pointer: int) -> None:
    with current:
        driver.cuMemFreeHost(pointer)
