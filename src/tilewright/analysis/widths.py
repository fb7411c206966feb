"""How wide the compiler made a kernel's accesses to shared memory, line by line of its source.

A source that reads neighbouring words one by one need not do so on a GPU: where the compiler sees that they lie on a
vector's boundary it makes one load of 8 or 16 bytes of them. The machine code tells.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tilewright.analysis.sass import Instruction, SourceLine

_WORD = 4
_WIDTHS = {"64": 8, "128": 16}


class Widths(NamedTuple):
    """The widest load and the widest store of shared memory, in bytes a lane; 0 where there is none."""

    load: int = 0
    store: int = 0


def shared_widths(code: Iterable[Instruction]) -> Mapping[SourceLine | None, Widths]:
    """Widest accesses of each source line; under None, of the whole kernel."""
    widest: dict[SourceLine | None, Widths] = {None: Widths()}
    for instruction in code:
        if instruction.name not in ("LDS", "STS"):
            continue
        width = max((_WIDTHS.get(modifier, _WORD) for modifier in instruction.modifiers), default=_WORD)
        for line in (instruction.source, None):
            load, store = widest.get(line, Widths())
            if instruction.name == "LDS":
                load = max(load, width)
            else:
                store = max(store, width)
            widest[line] = Widths(load, store)
    return widest
