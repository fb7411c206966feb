"""Copies between the host's arrays and a GPU's memory: through pinned buffers that several threads fill and empty, or
directly where an array is pinned itself.

A copy from ordinary memory is one thread's work in the driver. Here a few threads copy pieces into pinned buffers, from
where the copy engines take them; others empty such buffers, so both directions go on at once, and a copy that waits for
its product holds up none of the other direction.

Driver API: "Memory Management" (cuMemHostAlloc, cuMemcpy2DAsync), "Unified Addressing" (cuPointerGetAttribute).
CUDA C++ Best Practices Guide: "Asynchronous and Overlapping Transfers with Computation".
"""

import ctypes
import queue
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from cuda.bindings import driver
from cuda.bindings.driver import cuMemcpyDtoHAsync, cuMemcpyHtoDAsync, cuMemFreeHost, cuMemHostAlloc
from cuda.core import Device, Event, Stream
from numpy.typing import NDArray

from tilewright.engines.driver import Current, check

LANES = 4
"""Threads of each direction, each with a stream and a buffer. On an H200's host four fill faster than PCIe moves."""

PIECE_BYTES = 8 * 2**20
"""Bytes that a thread copies at a time."""

STAGED_BYTES = 2**20
"""Smaller arrays are loaded by the driver, in the order of the work on the GPU."""

Wait = Callable[[], None]
"""Returns when a copy has been made, or when the GPU's own stream waits for it."""


class Staging:
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
            return self._directly(self._loads, pointer, array, after, to_host=False)
        if array.nbytes < STAGED_BYTES:  # the engine's stream has reached the event when it comes to this
            dense = np.ascontiguousarray(array)
            with self._current:
                check(cuMemcpyHtoDAsync(pointer, dense.ctypes.data, dense.nbytes, self._own.handle))
            return _done
        return Transfer(
            self._to_gpu.threads.submit(self._move, False, pointer + offset, piece, after)
            for offset, piece in pieces(array)
        ).wait

    def store(self, array: NDArray[Any], pointer: int, after: Event) -> Wait:
        """Start to copy the GPU's memory to an array, once an event is reached; the function waits for all of it."""
        if array.nbytes == 0:
            return _done
        if is_pinned(array):
            return self._directly(self._stores, pointer, array, after, to_host=True)
        return Transfer(
            self._to_host.threads.submit(self._move, True, pointer + offset, piece, after)
            for offset, piece in pieces(array)
        ).wait

    def _move(self, to_host: bool, pointer: int, piece: NDArray[np.uint8], after: Event | None) -> None:
        lanes = self._to_host if to_host else self._to_gpu
        lane = lanes.free.get()
        try:
            with self._current:
                if to_host:
                    lane.store(piece, pointer, after)
                else:
                    lane.load(pointer, piece, after)
        finally:
            lanes.free.put(lane)

    def _directly(self, stream: Stream, pointer: int, array: NDArray[Any], after: Event | None, to_host: bool) -> Wait:
        with self._current:
            if after is not None:
                stream.wait(after)
            _copy_lines(pointer, array, to_host, stream)
            done = stream.record()
        if to_host:
            return lambda: _reached(done, self._current)

        def ordered() -> None:
            with self._current:
                self._own.wait(done)

        return ordered


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
    return bool(
        status == driver.CUresult.CUDA_SUCCESS and int(kind or 0) == int(driver.CUmemorytype.CU_MEMORYTYPE_HOST)
    )


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


def _reached(event: Event, current: Current) -> None:
    with current:
        event.sync()


def _done() -> None:
    """There is nothing to wait for."""


class _Lanes:
    """Threads of one direction, and what they copy through."""

    def __init__(self, device: Device, current: Current) -> None:
        self.free: queue.SimpleQueue[_Lane] = queue.SimpleQueue()
        self.threads = ThreadPoolExecutor(LANES, thread_name_prefix="tilewright-staging")
        with current:
            for _ in range(LANES):
                self.free.put(_Lane(device, current))


class _Lane:
    def __init__(self, device: Device, current: Current) -> None:
        self._stream: Stream = device.create_stream()
        pointer = int(check(cuMemHostAlloc(PIECE_BYTES, 0)))
        self._pointer = pointer
        self._buffer = np.ctypeslib.as_array((ctypes.c_uint8 * PIECE_BYTES).from_address(pointer))
        weakref.finalize(self, _free, current, pointer).atexit = False  # at exit the driver frees everything itself

    def load(self, pointer: int, piece: NDArray[np.uint8], after: Event | None) -> None:
        self._buffer[: piece.nbytes].reshape(piece.shape)[...] = piece
        if after is not None:
            self._stream.wait(after)
        check(cuMemcpyHtoDAsync(pointer, self._pointer, piece.nbytes, self._stream.handle))
        self._stream.sync()

    def store(self, piece: NDArray[np.uint8], pointer: int, after: Event | None) -> None:
        if after is not None:
            self._stream.wait(after)
        check(cuMemcpyDtoHAsync(self._pointer, pointer, piece.nbytes, self._stream.handle))
        self._stream.sync()
        piece[...] = self._buffer[: piece.nbytes].reshape(piece.shape)


def _free(current: Current, pointer: int) -> None:
    with current:
        cuMemFreeHost(pointer)
