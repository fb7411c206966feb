"""Matrices larger than this machine's memory: the same random elements again and again, or what few pages hold.

Only pages that are written take memory of their own. The elements come back after a prime number of pages: no leading
dimension that tiles like is a multiple of it, nor is 2^32, so that an index which has lost its high bits finds others.
"""

import ctypes
import mmap
import os
import tempfile
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilewright.core.errors import MemoryFullError
from tilewright.core.problem import Layout
from tilewright.runtime.base import Matrix

_PAGES = 2039
_PERIOD = _PAGES * mmap.PAGESIZE
"""Bytes."""

_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
"""Python names it from 3.13 on."""

_FIXED = 0x10
"""MAP_FIXED, which replaces what is mapped at an address."""
_FAILED = ctypes.c_void_p(-1).value


class Repeating:
    """Elements of one type, uniformly random in [-1, 1), in a file that is mapped again and again.

    Args:
        dtype: of the elements.
        seed: the same seed gives the same ones.
    """

    def __init__(self, dtype: str, seed: int = 0) -> None:
        self._item = np.dtype(dtype).itemsize
        random = np.random.default_rng(seed)
        self.elements = (random.random(_PERIOD // self._item, dtype=np.float32) * 2 - 1).astype(dtype, copy=False)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 it lives as long as this does
        self._file.write(self.elements.tobytes())
        self._file.flush()

    def matrix(self, layout: Layout, rows: int, cols: int, page: int = 0) -> Matrix:
        """A matrix whose elements begin at a page of the file. As many bytes as indices of 32 bits reach before and
        behind it are nobody's.

        Raises:
            MemoryFullError: the address space has no room for it.
        """
        size = layout.extent(rows, cols, 1) * self._item
        slack = 2**32 * self._item
        memory = zeros(size + _PERIOD + 2 * slack)
        begin = memory.ctypes.data + slack
        at, offset = 0, page * mmap.PAGESIZE
        while at < size:
            piece = _PERIOD - offset
            _map(begin + at, piece, self._file.fileno(), offset)
            at, offset = at + piece, 0
        return Matrix(begin, rows, cols, layout.ld, self.elements.dtype.name, memory, layout.order)

    def block(
        self, layout: Layout, rows: NDArray[np.int64], cols: NDArray[np.int64], page: int = 0
    ) -> NDArray[np.float64]:
        """The elements in some rows and columns of such a matrix, as nothing has changed them."""
        by_row, by_col = (layout.ld, 1) if layout.order == "row" else (1, layout.ld)
        at = rows[:, np.newaxis] * by_row + cols * by_col + page * (mmap.PAGESIZE // self._item)
        found: NDArray[np.float64] = self.elements[at % len(self.elements)].astype(np.float64)
        return found


def _map(address: int, size: int, file: int, offset: int) -> None:
    """Map a part of a file at an address, so that what is written there is nobody else's."""
    to_memory = ctypes.CDLL(None, use_errno=True).mmap
    to_memory.restype = ctypes.c_void_p
    to_memory.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
    if to_memory(address, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | _FIXED, file, offset) == _FAILED:
        raise MemoryFullError(f"{no_room(size)}: {os.strerror(ctypes.get_errno())}")


def zeros(size: int) -> NDArray[np.uint8]:
    """This many bytes, which hold 0 and begin at a page.

    Raises:
        MemoryFullError: the address space has no room for them.
    """
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    except (OSError, ValueError) as error:
        raise MemoryFullError(no_room(size)) from error
    return np.frombuffer(memory, np.uint8)


@lru_cache
def has_room() -> bool:
    """Whether the address space has room for matrices of a bit more than 2^32 elements, and what is kept of them."""
    try:
        zeros(2**40)
    except MemoryFullError:
        return False
    return True


def no_room(size: int) -> str:
    """Message where the address space has no room."""
    amount = f"{size / 2**30:,.0f} GiB" if size >= 2**30 else f"{size / 2**20:,.0f} MiB"
    return (
        f"the address space has no room for {amount} of which little is touched: there is a limit "
        f"to this process (ulimit -v), or to all of the system (vm.overcommit_memory=2)"
    )
