"""The requests of a warp: instructions that its lanes carry out together, and what each lane accesses in them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.core.hardware import SECTOR_BYTES, ceil_div

BANKS = 32
BANK_BYTES = 4


@dataclass(frozen=True)
class Access:
    """What one lane reads or writes in one instruction."""

    lane: int
    address: int
    """First byte: within the matrix, or within the block's shared memory."""
    bytes: int
    row: int
    """Row of the first element in its matrix. In shared memory, of the element that lies there; -1: of none known."""
    col: int


@dataclass(frozen=True)
class Request:
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
