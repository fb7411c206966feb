"""Parameters of a kernel that is no matrix product, as words say them: buffers, numbers and tensor maps.

| word of such a kernel | |
| --- | --- |
| x=float32[rows,cols] | a buffer that is read: random, normal, or of integers 0 to 99 |
| x=int32[n]:0..255 | a buffer that is drawn uniformly from 0 to 255, both included where they are integers |
| y=out:float32[n] | a buffer that is written, and that holds nothing before |
| y=inout:float32[n] | random, may be written |
| y=zeros:uint32[256] | zeros, may be written |
| rows=1024 | a parameter that is a number; an integer may follow from others, as in n=rows*cols |
| weights=float32[9] | constant memory of the source, as host code fills it; zeros behind what is given |
| reference=file.py:function | NumPy's way: called with the parameters that it names, it returns what is written |

Buffers that only tensor maps reach have words too, and numbers that these follow from.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import ml_dtypes  # noqa: F401 - teaches NumPy the name bfloat16
import numpy as np

from tilewright.core.errors import ConfigError, DtypeError, nearest
from tilewright.kernels.source.expressions import Expression
from tilewright.kernels.source.lines import expressions
from tilewright.kernels.source.map_words import TYPE, MapWord, arrays_of_maps, maps_behind
from tilewright.kernels.source.signature import DTYPES, IN_C, Argument, Signature
from tilewright.kernels.support import VECTOR_BYTES
from tilewright.kernels.tensor_box import TensorBox

Role = Literal["in", "out", "inout", "zeros"]
ROLES: tuple[Role, ...] = ("in", "out", "inout", "zeros")

_NUMBER = r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
BUFFER = re.compile(rf"(?:(\w+):)?(\w+)\[([^\[\]]*)\](?::({_NUMBER})\.\.({_NUMBER}))?")
"""How a word's value says a buffer."""
_AS_IN = "x=float32[1024,512] y=out:float32[1024,512] rows=1024"
_MOST_BYTES = 2**31
"""Bytes that all buffers of a launch may have together."""


class Range(NamedTuple):
    """A range that elements are drawn from."""

    low: float
    high: float


@dataclass(frozen=True)
class Buffer:
    """Memory that a pointer is given."""

    name: str
    """The parameter's."""
    role: Role
    dtype: str
    """NumPy's name of the element type."""
    shape: tuple[int, ...]
    """Elements along each dimension; they lie without gaps, the last dimension's next to each other."""
    drawn: Range | None = None
    """None: normal, or integers 0 to 99."""

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        role = "" if self.role == "in" else f"{self.role}:"
        return f"{role}{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class NumberArgument:
    """A parameter that is a number."""

    name: str
    dtype: str
    """NumPy's name of its type."""
    value: float | int

    def __str__(self) -> str:
        return f"{self.value}"


@dataclass(frozen=True)
class Map:
    """A tensor map."""

    name: str
    """The parameter's, as in 'map', or with its number behind a pointer, as in 'maps[0]'."""
    array: str
    """The buffer that it is of."""
    box: TensorBox
    part: int | None = None
    """Which of the buffer's matrices it is of, along its first dimension; None: of all of it."""

    def __str__(self) -> str:
        swizzle = f",swizzle={self.box.swizzle}B" if self.box.swizzle else ""
        panel = f",panel={self.box.panel}" if self.box.panel else ""
        of = self.array if self.part is None else f"{self.array}[{self.part}]"
        return f"{of}({','.join(map(str, self.box.of_array))}{swizzle}{panel})"


@dataclass(frozen=True)
class Maps:
    """A parameter that is one tensor map, or a pointer to several."""

    name: str
    """The parameter's."""
    maps: tuple[Map, ...]


class LaunchContents(NamedTuple):
    """Buffers, numbers and maps that a kernel is launched with."""

    arguments: tuple[Buffer | NumberArgument | Maps, ...]
    """In the order of its parameters."""
    by_maps: tuple[Buffer, ...]
    """Memory that only tensor maps reach."""
    constants: tuple[Buffer, ...]
    """The source's constant memory, as far as something is said of it."""

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The arguments that are memory, and what only maps reach."""
        return (*(one for one in self.arguments if isinstance(one, Buffer)), *self.by_maps)

    @property
    def said(self) -> tuple[Buffer | NumberArgument | Map, ...]:
        """All that has a word: memory that only maps reach, constant memory, numbers, buffers and maps."""
        plain = (one for one in self.arguments if not isinstance(one, Maps))
        maps = (one for argument in self.arguments if isinstance(argument, Maps) for one in argument.maps)
        return (*self.by_maps, *self.constants, *plain, *maps)


def contents_of(
    signature: Signature,
    words: Mapping[str, str],
    values: Mapping[str, int],
    maps: Mapping[str, MapWord],
    memory: Mapping[str, str],
) -> LaunchContents:
    """Buffers, numbers and maps that a kernel is launched with, as words say it.

    Args:
        signature: the kernel's.
        words: what is said of it.
        values: integers that extents follow from.
        maps: what is said of its tensor maps.
        memory: constant memory that has a word, and C++ types of its elements.

    Raises:
        ConfigError: nothing is said of a parameter, or what is said does not go with it.
        DtypeError: an element type is none, or not that of the pointer.
    """
    plain = [one for one in signature.arguments if one.type != TYPE]
    for one in plain:
        if one.name not in words:
            raise _unsaid(signature, one.name)
    values_of = {one.name: _argument(signature, one, words[one.name], values) for one in plain}
    arrays = arrays_of_maps(words.get("maps", ""))
    by_maps = tuple(_by_map(signature, name, words, values) for name in arrays if name not in values_of)
    constants = tuple(_in_constants(signature, name, kind, words[name], values) for name, kind in memory.items())
    buffers = {one.name: one for one in (*values_of.values(), *by_maps) if isinstance(one, Buffer)}
    boxes = {name: _map(signature, name, said, buffers, values) for name, said in maps.items()}
    if (size := sum(one.bytes for one in buffers.values())) > _MOST_BYTES:
        raise ConfigError(f"buffers of {signature.name} may have {_MOST_BYTES:,} bytes together, got {size:,}")
    arguments = tuple(
        Maps(one.name, tuple(boxes[name] for name in maps_behind(one.name, boxes)))
        if one.type == TYPE
        else values_of[one.name]
        for one in signature.arguments
    )
    return LaunchContents(arguments, by_maps, constants)


def _unsaid(signature: Signature, name: str) -> ConfigError:
    return ConfigError(
        f"nothing says what {name} of {signature.name} is: write above it, or give as --args, its parameters, as in\n"
        f"// tilewright: {_AS_IN}"
    )


def sizes_of(arrays: Iterable[str], words: Mapping[str, str]) -> set[str]:
    """Words that the shapes of arrays follow from, which need be no parameters."""
    shapes = (BUFFER.fullmatch(words.get(name, "")) for name in arrays)
    return {word for shape in shapes if shape for word in re.findall(r"[a-z_]\w*", shape[3]) if word in words}


def integers(
    signature: Signature, words: Mapping[str, str], others: Iterable[str], known: Mapping[str, int]
) -> dict[str, int]:
    """The values of integer parameters of which something is said, and of other words: they may follow from each
    other, and from known values.

    Raises:
        ConfigError: one is no whole number, or follows from what is not known.
    """
    names = [one.name for one in signature.arguments if not one.pointer and _is_integer(one) and one.name in words]
    waiting = {name: _whole(signature, name, words[name]) for name in (*names, *others)}
    values = {name: value for name, value in known.items() if name not in waiting}
    parameters = {one.name for one in signature.arguments}
    for name, expression in waiting.items():
        if unsaid := expression.names & parameters - words.keys():
            raise _unsaid(signature, min(unsaid))
        expression.check_names({**known, **{other: 0 for other in waiting if other != name}})
    while waiting:
        ready = [name for name, expression in waiting.items() if expression.names <= values.keys()]
        if not ready:
            raise ConfigError(
                f"{' and '.join(waiting)} of {signature.name} follow from each other: give one as a number"
            )
        values |= {name: waiting.pop(name)(values) for name in ready}
    return values


def _is_integer(argument: Argument) -> bool:
    return "int" in IN_C.get(argument.type, "")


def _whole(signature: Signature, name: str, text: str) -> Expression:
    if BUFFER.fullmatch(text):
        raise ConfigError(f"{name} of {signature.name} is an integer, got {text}: it takes a number, as in {name}=1024")
    return Expression(text, f"{name} of {signature.name}")


def _argument(
    signature: Signature, argument: Argument, text: str, values: Mapping[str, int]
) -> Buffer | NumberArgument:
    subject = f"{argument.name} of {signature.name}"
    if argument.pointer:
        return _buffer(subject, argument, text, values)
    dtype = IN_C.get(argument.type)
    if dtype is None:
        raise DtypeError(f"{subject} has the type {argument.type}: parameters may be pointers, {', '.join(IN_C)}")
    if _is_integer(argument):
        value, limits = values[argument.name], np.iinfo(dtype)
        if not limits.min <= value <= limits.max:
            raise ConfigError(
                f"{subject} is of type {argument.type}, which holds {limits.min} to {limits.max}, got {value}"
            )
        return NumberArgument(argument.name, dtype, value)
    try:
        return NumberArgument(argument.name, dtype, float(text))
    except ValueError:
        raise ConfigError(f"{subject} is of type {argument.type} and takes a number, got {text}") from None


def _by_map(signature: Signature, name: str, said: Mapping[str, str], values: Mapping[str, int]) -> Buffer:
    """A buffer of this name that no pointer is given."""
    if name not in said:
        raise ConfigError(
            f"maps of {signature.name} has {name!r}, which is no parameter: write what it is, as in "
            f"{name}=float32[1024,512]"
        )
    return _buffer(f"{name} of {signature.name}", Argument("", name, True, False), said[name], values)


def _in_constants(signature: Signature, name: str, kind: str, text: str, values: Mapping[str, int]) -> Buffer:
    """Contents of a variable in constant memory, whose elements have this type in C++."""
    subject = f"{name}, constant memory of {signature.name},"
    found = _buffer(subject, Argument(kind, name, True, True), text, values)
    if found.role != "in":
        raise ConfigError(f"{subject} is read alone, got {found.role}")
    return found


def _map(
    signature: Signature, name: str, said: MapWord, buffers: Mapping[str, Buffer], values: Mapping[str, int]
) -> Map:
    """The tensor map of this name."""
    subject = f"{name} of {signature.name}"
    if said.array not in buffers:
        raise ConfigError(f"{subject} is a tensor map of {said.array}, which is no buffer: {', '.join(buffers)} are")
    if said.dtype:
        raise ConfigError(f"{subject} has the element type of {said.array}: leave dtype={said.dtype} out")
    of, box = buffers[said.array], said.box(values)
    item, line = np.dtype(of.dtype).itemsize, of.shape[-1]
    box.check(item)
    if (line * item % VECTOR_BYTES and box.dimensions > 1) or (line % box.line and box.panel):
        whole = f"{box.panel} elements" if box.panel else f"{VECTOR_BYTES} bytes"
        raise ConfigError(f"{subject} needs lines of {said.array} that are multiples of {whole}, got {line} {of.dtype}")
    if said.part is not None and (len(of.shape) < 2 or said.part >= of.shape[0]):
        extents = ",".join(map(str, of.shape))
        raise ConfigError(f"{subject} is of {said.array}[{said.part}], which {said.array}[{extents}] has not")
    return Map(name, said.array, box, said.part)


def _buffer(subject: str, argument: Argument, text: str, values: Mapping[str, int]) -> Buffer:
    found = BUFFER.fullmatch(text)
    if found is None:
        raise ConfigError(
            f"{subject} is a pointer, got {text}: it takes an element type and a shape, as in "
            f"{argument.name}=float32[1024,512], or behind one of {', '.join(f'{role}:' for role in ROLES)}"
        )
    if argument.type.endswith("*"):
        raise ConfigError(f"{subject} points to pointers: buffers are of numbers")
    role, dtype, shape, low, high = found.groups()
    role = role or "in"
    if role not in ROLES:
        raise ConfigError(f"{subject} may be one of {', '.join(ROLES)}, got {role}{nearest(role, ROLES, listed=True)}")
    if dtype not in DTYPES:
        raise DtypeError(
            f"{subject} may have elements {', '.join(DTYPES)}, got {dtype}{nearest(dtype, DTYPES, listed=True)}"
        )
    takes = IN_C.get(argument.type, dtype)
    if takes != dtype and not (argument.type == "char" and dtype == "uint8"):
        raise DtypeError(f"{subject} points to {argument.type}, which is {takes}, got {dtype}")
    extents = (
        tuple(of(values) for of in expressions(f"the shape of {subject}", f"({shape})", values))
        if shape.strip()
        else ()
    )
    if not extents or min(extents) < 1:
        raise ConfigError(f"the shape of {subject} must have extents of 1 and more, got [{shape}]")
    drawn = Range(float(low), float(high)) if low else None
    if drawn and drawn.low > drawn.high:
        raise ConfigError(f"{subject} must be drawn from the smaller to the larger number, got {low}..{high}")
    if drawn and role in ("out", "zeros"):
        raise ConfigError(f"{subject} is {role}, of which nothing is drawn, got {low}..{high}")
    return Buffer(argument.name, cast(Role, role), dtype, extents, drawn)
