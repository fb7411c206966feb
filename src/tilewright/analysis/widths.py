"""How wide the compiler made a kernel's accesses to shared memory, line by line of its source.

A source that reads neighbouring words one by one need not do so on a GPU: where the compiler sees that they lie on a
vector's boundary it makes one load of 8 or 16 bytes of them. The machine code shows which.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tilewright.analysis import instruction_mix
from tilewright.analysis.instruction_mix import access_widths, access_widths_by_line
from tilewright.analysis.sass import Instruction, SourceLine


class Widths(NamedTuple):
    """The widest load and the widest store of shared memory, in bytes a lane; 0 where there is none."""

    load: int = 0
    store: int = 0


def shared_widths(code: Iterable[Instruction]) -> Mapping[SourceLine | None, Widths]:
    """Widest accesses of each source line that has any; under None, of the whole kernel."""
    code = tuple(code)
    by_line = {line: _widest(found) for line, found in access_widths_by_line(code).items()}
    return {None: _widest(access_widths(code)), **{line: widths for line, widths in by_line.items() if any(widths)}}


def _widest(found: instruction_mix.Widths) -> Widths:
    load, store = (max(found.get(kind, {}), default=0) for kind in ("shared_load", "shared_store"))
    return Widths(load, store)
