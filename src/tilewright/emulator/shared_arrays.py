"""Shapes of `__shared__` arrays from a kernel's source, so that findings name elements and not bytes."""

import re
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import NamedTuple

from tilewright.kernels.constants import aliases, values_of, whole
from tilewright.kernels.source.signature import without_comments
from tilewright.runtime.included import included

_INCLUDE = Path(__file__).parents[1] / "kernels" / "include"

_ITEM_BYTES = {
    **dict.fromkeys(("bool", "char", "signed char", "unsigned char", "int8_t", "uint8_t"), 1),
    **dict.fromkeys(("short", "unsigned short", "ushort", "int16_t", "uint16_t", "half", "__half", "__nv_bfloat16"), 2),
    **dict.fromkeys(("int", "unsigned", "unsigned int", "uint", "int32_t", "uint32_t", "float", "half2", "__half2"), 4),
    **dict.fromkeys(("double", "long long", "unsigned long long", "ulong", "size_t", "float2", "int2", "uint2"), 8),
    **dict.fromkeys(("float4", "int4", "uint4"), 16),
}

_ALIGNMENT = r"(?:__align__|alignas)\s*\(([^()]*)\)"
_DECLARATION = re.compile(
    rf"(?<!extern )\b__shared__\s+(?P<type>(?:{_ALIGNMENT}|[\w:\s])+?)"
    r"(?P<names>\b[A-Za-z_]\w*\s*\[[^;={}]*\])\s*;"
)
_ARRAY = re.compile(r"([A-Za-z_]\w*)\s*((?:\[[^\[\]]*\]\s*)+)(?:,|$)")


class SharedArray(NamedTuple):
    """An array of elements in shared memory."""

    item_bytes: int
    extents: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return self.item_bytes * prod(self.extents)

    def element(self, name: str, offset: int) -> str:
        """The element that begins at, or holds, a byte from the array's first on, as in 'As[4][17]'."""
        number, byte = divmod(offset, self.item_bytes)
        index: list[int] = []
        for extent in reversed(self.extents[1:]):
            number, position = divmod(number, extent)
            index.insert(0, position)
        words = name + "".join(f"[{position}]" for position in (number, *index))
        words = f"byte {byte} of {words}" if byte else words
        inside = 0 <= offset < self.bytes
        return words if inside else f"{words}, outside of its {' x '.join(map(str, self.extents))} elements"


def shared_arrays(source: Path, macros: Mapping[str, int | str]) -> dict[str, list[SharedArray]]:
    """The arrays that a source and its headers declare with `__shared__`, by name: several where functions have arrays
    of one name. What is not understood (a class's elements, an extent that a template gives) is left out.

    Args:
        source: a `.cu` file.
        macros: that it is compiled with.
    """
    code = _code(source)
    constants = values_of(code, macros)
    found: dict[str, list[SharedArray]] = {}
    for one in code:
        for name, array in _declared(one, constants):
            found.setdefault(name, []).append(array)
    return found


def alignments(source: Path, macros: Mapping[str, int | str]) -> dict[str, int]:
    """Alignment of arrays in bytes, as a source and its headers declare them with `__shared__`, by name: the least
    where functions have arrays of one name. Arrays whose types or alignment are not understood are left out. Arguments
    as for `shared_arrays`."""
    code = _code(source)
    constants = values_of(code, macros)
    known = {name: kind for one in code for name, kind in aliases(one).items()}
    found: dict[str, int | None] = {}
    for match in (match for one in code for match in _DECLARATION.finditer(one)):
        element = _element(match["type"])
        asked = [whole(one, constants) for one in re.findall(_ALIGNMENT, match["type"])]
        item_bytes = _ITEM_BYTES.get(constants.get(element, known.get(element, element)))
        bound = max((one for one in (item_bytes, *asked) if one), default=0) if item_bytes and all(asked) else None
        for name, _ in _ARRAY.findall(match["names"]):
            before = found.get(name, bound)
            found[name] = None if bound is None or before is None else min(bound, before)
    return {name: bound for name, bound in found.items() if bound is not None}


def array_of(arrays: Mapping[str, Iterable[SharedArray]], name: str, extent: int) -> SharedArray | None:
    """The array of this name and number of bytes; None where there is none, or more than one can be meant."""
    fitting = {array for array in arrays.get(name, ()) if array.bytes == extent}
    return fitting.pop() if len(fitting) == 1 else None


def _code(source: Path) -> list[str]:
    """A source and the headers that it includes, without comments."""
    text = source.read_text(encoding="utf-8", errors="replace")
    headers = (header for _, header in included(text, source.parent, _INCLUDE))
    return [without_comments(one) for one in (text, *headers)]


def _element(declared: str) -> str:
    """The type of an array's elements, without alignment, as in 'unsigned int'."""
    return " ".join(re.sub(_ALIGNMENT, " ", declared).split())


def _declared(code: str, constants: Mapping[str, str]) -> Iterator[tuple[str, SharedArray]]:
    for match in _DECLARATION.finditer(code):
        element = _element(match["type"])
        item_bytes = _ITEM_BYTES.get(constants.get(element, element))
        for name, extents in _ARRAY.findall(match["names"]):
            values = [whole(one, constants) for one in re.findall(r"\[([^\[\]]*)\]", extents)]
            if item_bytes and all(values):
                yield name, SharedArray(item_bytes, tuple(value for value in values if value))
