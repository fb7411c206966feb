"""Tensor maps that kernels of sources take, as words describe them: `maps=map_a:A(BM,BK,swizzle=128B),map_b:B(BN,BK)`.

    __global__ void my_gemm(const __grid_constant__ CUtensorMap map_a, const CUtensorMap* map_b, ...)

| behind the array, in parentheses | |
| --- | --- |
| BM,BK | the box: lines of the array as it lies in memory, and elements of a line, which may follow from parameters |
| BB,BM,BK | one to five extents: where the array has more dimensions, its first ones are one |
| swizzle=128B | or 64B, 32B or none: none if left out |
| panel=64 | the box is of panels of 64 elements: the map's third dimension, one more, counts those of a line |
| dtype=bfloat16 | the element type, where no pointer tells; tf32 for float32 that the copy engine rounds |

Several maps may lie behind a pointer: `maps=maps[0]:A(BM,BK),maps[1]:B(BN,BK)`, and one of each matrix of an array,
`maps=maps[0:groups]:x(BM,BK)`: maps[i] is of x[i].
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from tilewright.core.errors import ConfigError, nearest
from tilewright.kernels.source.expressions import Expression
from tilewright.kernels.source.signature import Signature, split
from tilewright.kernels.tensor_box import DIMENSIONS, TensorBox

TYPE = "CUtensorMap"
"""The parameters' type in C++."""

MAPS = "TILEWRIGHT_MAPS_"
"""How the macros begin that have the numbers of maps behind pointers: of all but those to a single one."""
MOST = 255
"""Maps that a kernel's parameters have room for, 32,764 bytes."""

_MAP = re.compile(r"(\w+)(?:\[([^\[\]]*)\])?:(\w+)\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_SWIZZLES = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
_OPTIONS = ("swizzle", "panel", "dtype")
_AS_IN = "maps=map_a:A(64,64,swizzle=128B)"


class MapWord(NamedTuple):
    """A tensor map as a word describes it."""

    array: str
    extents: tuple[Expression, ...]
    swizzle: int
    panel: int
    dtype: str
    """'' where it is not said."""
    part: int | None = None
    """Which of the array's matrices it is of; None: of all."""

    def box(self, values: Mapping[str, int]) -> TensorBox:
        """The box, for these values of parameters."""
        *outer, rows, cols = (0, *(of(values) for of in self.extents))[-max(2, len(self.extents)) :]
        return TensorBox(rows, cols, self.swizzle, self.panel, tuple(reversed(outer)))


def arrays_of_maps(text: str) -> list[str]:
    """The arrays that such a word names, in its order."""
    return list(dict.fromkeys(re.findall(r"[\w\]]:(\w+)\(", text)))


def maps_behind(parameter: str, names: Collection[str]) -> list[str]:
    """Names of the maps that a parameter leads to: 'map', or 'maps[0]' and further ones, in their order."""
    return [name for name in names if name.partition("[")[0] == parameter]


def counts(names: Collection[str]) -> dict[str, int]:
    """The macros that say how many maps pointers lead to, by the maps' names."""
    pointers = dict.fromkeys(name.partition("[")[0] for name in names if "[" in name)
    return {MAPS + pointer: len(maps_behind(pointer, names)) for pointer in pointers}


def map_words(signature: Signature, text: str, known: Mapping[str, int | str]) -> dict[str, MapWord]:
    """Descriptions of a kernel's tensor maps, by its parameters: 'map', or 'maps[0]' and further ones of a pointer.

    Args:
        signature: the kernel's.
        text: the word's value, '' where it is not there.
        known: names that boxes may follow from.

    Raises:
        ConfigError: the word is not understood, names other parameters, or leaves some out.
    """
    parameters = [one.name for one in signature.arguments if one.type == TYPE]
    found: dict[str, MapWord] = {}
    for part in split(text):
        if (match := _MAP.fullmatch(part.strip())) is None:
            raise ConfigError(f"maps must read PARAMETER:ARRAY(LINES,ELEMENTS), as in {_AS_IN}, got {part.strip()!r}")
        name, numbers, array, box = match.groups()
        if name not in parameters:
            raise ConfigError(f"maps has {name!r}: {signature.name} has no such tensor map{nearest(name, parameters)}")
        word = _map_word(array, box, known)
        of = {name: word} if numbers is None else dict(_numbered(name, numbers, word, known))
        if again := found.keys() & of.keys():
            raise ConfigError(f"maps says twice what {min(again)} of {signature.name} is of")
        found |= of
    for one in signature.arguments:
        if one.type == TYPE and not (one.pointer or one.grid_constant):
            raise ConfigError(
                f"the tensor map {one.name} of {signature.name} must be a parameter of the type "
                f"const __grid_constant__ {TYPE}, or a pointer to one: no copy of a map is one"
            )
    pointers = [one.name for one in signature.arguments if one.type == TYPE and one.pointer]
    for name in parameters:
        behind = maps_behind(name, found)
        if not behind:
            raise ConfigError(
                f"nothing says what the tensor map {name} of {signature.name} is of: write above it its array, and a "
                f"box of lines and elements, as in\n// tilewright: {_AS_IN.replace('map_a', name)}"
            )
        wanted = [f"{name}[{i}]" for i in range(len(behind))]
        if behind != [name] and (name not in pointers or sorted(behind) != sorted(wanted)):
            what = f"leads to {', '.join(behind)}: without gaps these are" if name in pointers else "is no pointer, to"
            raise ConfigError(f"{name} of {signature.name} {what} {', '.join(wanted)}")
        if len(behind) > MOST:
            raise ConfigError(f"{name} of {signature.name} may lead to {MOST} tensor maps, got {len(behind)}")
    return {one: found[one] for name in parameters for one in sorted(maps_behind(name, found), key=_number)}


def _number(name: str) -> int:
    return int(name.partition("[")[2].rstrip("]") or 0)


def _numbered(name: str, text: str, word: MapWord, known: Mapping[str, int | str]) -> Iterator[tuple[str, MapWord]]:
    """The map of a number, or those from one to before another, each of a matrix of the array."""
    values = {one: value for one, value in known.items() if isinstance(value, int)}
    bounds = [Expression(one, f"maps of {name}") for one in text.split(":")]
    for bound in bounds:
        bound.check_names(values)
    first, end = bounds[0](values), bounds[-1](values)
    if len(bounds) == 1:
        yield f"{name}[{first}]", word
    elif len(bounds) == 2 and 0 <= first < end:
        for i in range(first, end):
            yield f"{name}[{i}]", word._replace(part=i - first)
    else:
        raise ConfigError(f"maps of {name} may have a number, or two as in {name}[0:4], got {name}[{text}]")


def _map_word(array: str, text: str, known: Mapping[str, int | str]) -> MapWord:
    box: list[Expression] = []
    options: dict[str, str] = {}
    for part in split(text):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals:
            box.append(Expression(part, "maps"))
            box[-1].check_names(known)
        elif name in _OPTIONS:
            options[name] = value
        else:
            raise ConfigError(f"maps takes {', '.join(_OPTIONS)} of {array}, got {name!r}{nearest(name, _OPTIONS)}")
    swizzle, panel = options.get("swizzle", "none"), options.get("panel", "0")
    least, most = (2, DIMENSIONS - 1) if panel != "0" else (1, DIMENSIONS)
    if not least <= len(box) <= most:
        raise ConfigError(
            f"the box of {array} must have {least} to {most} extents, the last one of elements of a line, as in "
            f"{array}(64,64), got {array}({text})"
        )
    if swizzle not in _SWIZZLES:
        raise ConfigError(f"the swizzle of {array} must be one of {', '.join(_SWIZZLES)}, got {swizzle}")
    if not panel.isdecimal():
        raise ConfigError(f"the panel of {array} must be a number of elements, got {panel}")
    return MapWord(array, tuple(box), _SWIZZLES[swizzle], int(panel), options.get("dtype", ""))
