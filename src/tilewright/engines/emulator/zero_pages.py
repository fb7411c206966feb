"""Memory that takes room where it is touched: for a few lines of an array larger than this machine's memory."""

import mmap
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilewright.core.errors import MemoryFullError

_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
"""Python names it from 3.13 on."""


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
    """What is said where the address space has no room."""
    amount = f"{size / 2**30:,.0f} GiB" if size >= 2**30 else f"{size / 2**20:,.0f} MiB"
    return (
        f"the address space has no room for {amount} of which little is touched: there is a limit "
        f"to this process (ulimit -v), or to all of the system (vm.overcommit_memory=2)"
    )
