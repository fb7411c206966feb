"""Launches of kernels that are no matrix products: what each parameter is, in words that a source or a command gives.

    // tilewright: grid=rows block=256 x=float32[rows,cols] y=out:float32[rows,cols] rows=1024 cols=512
    __global__ void softmax(const float* x, float* y, int rows, int cols)

| word | |
| --- | --- |
| x=float32[rows,cols] | a buffer that is read: random, normal, or of integers 0 to 99 |
| x=int32[n]:0..255 | the same, uniform from 0 to 255, both included where they are integers |
| y=out:float32[n] | a buffer that is written, and that holds nothing before |
| y=inout:float32[n] | random, may be written |
| y=zeros:uint32[256] | zeros, may be written |
| rows=1024 | a parameter that is a number; an integer may follow from others, as in n=rows*cols |
| weights=float32[9] | constant memory of the source, as host code fills it; zeros behind what is given |
| TILE=32 | a macro of the source, in capitals, or an argument of its template |
| maps=map:x(64,32) | tensor maps among the parameters: see `map_words`. Buffers of maps alone have words too |
| grid=, block=, shared=, cluster=, entry= | as for a matrix product, of integer parameters and macros |
| reference=file.py:function | the same in NumPy: called with the parameters that it names, it returns what is written |
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, cast

import ml_dtypes  # noqa: F401 - teaches NumPy the name bfloat16
import numpy as np

from tilewright.core.errors import ConfigError, DtypeError, KernelNotFoundError, nearest
from tilewright.kernels.source.expressions import Expression
from tilewright.kernels.source.lines import (
    Extents,
    Known,
    Said,
    arguments_of,
    cluster_of,
    expressions,
    read,
    said_of,
    split_words,
    template_arguments,
    typed,
    with_values,
)
from tilewright.kernels.source.map_words import TYPE, arrays_of_maps, counts, map_words, maps_behind
from tilewright.kernels.source.signature import DTYPES, IN_C, Argument, Signature, constant_memory
from tilewright.kernels.support import VECTOR_BYTES
from tilewright.kernels.tensor_box import TensorBox

Role = Literal["in", "out", "inout", "zeros"]
ROLES: tuple[Role, ...] = ("in", "out", "inout", "zeros")

_NUMBER = r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_BUFFER = re.compile(rf"(?:(\w+):)?(\w+)\[([^\[\]]*)\](?::({_NUMBER})\.\.({_NUMBER}))?")
_KNOWN = ("grid", "block", "shared", "entry", "reference", "maps", "cluster")
_AS_IN = "x=float32[1024,512] y=out:float32[1024,512] rows=1024"
_MOST_BYTES = 2**31
"""Of all buffers together."""


class Range(NamedTuple):
    """What elements are drawn from."""

    low: float
    high: float


@dataclass(frozen=True)
class Buffer:
    """Memory that a pointer is given."""

    name: str
    """Of the parameter."""
    role: Role
    dtype: str
    """NumPy's name of the element type."""
    shape: tuple[int, ...]
    """Elements along each dimension; they lie without gaps, the last dimension's next to each other."""
    drawn: Range | None = None
    """None: normal, or integers 0 to 99."""

    @property
    def bytes(self) -> int:
        """Of all elements."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        role = "" if self.role == "in" else f"{self.role}:"
        return f"{role}{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Number:
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
    """Of the parameter, as in 'map', or with its number behind a pointer, as in 'maps[0]'."""
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
    """Of the parameter."""
    maps: tuple[Map, ...]


@dataclass(frozen=True)
class Unit:
    """A kernel as compilers get it."""

    file: Path
    """Its source."""
    kernel: str
    """Its name in the source."""
    entry: str
    """The name with a template's arguments."""
    macros: Mapping[str, int | str]
    """Macros of the source; arguments of a template are not among them."""

    @property
    def name(self) -> str:
        """As messages have it: 'softmax.cu:softmax'."""
        return f"{self.file}:{self.entry}"


@dataclass(frozen=True, kw_only=True)
class Launch(Unit):
    """A kernel and all that it is launched with."""

    arguments: tuple[Buffer | Number | Maps, ...]
    """In the order of its parameters."""
    template: Mapping[str, str]
    """Arguments of the template, by the names of its parameters."""
    grid: tuple[int, int, int]
    """Blocks along x, y and z."""
    block: tuple[int, int, int]
    """Threads of a block along x, y and z."""
    shared_bytes: int
    """Dynamic shared memory of a block."""
    reference: str = ""
    """'path.py:function', or '' where there is none."""
    by_maps: tuple[Buffer, ...] = ()
    """Memory that only tensor maps reach."""
    constants: tuple[Buffer, ...] = ()
    """What the source's constant memory holds, of which something is said."""
    cluster: int = 1
    """Blocks of a cluster, along x."""

    @property
    def unit(self) -> Unit:
        """The kernel as compilers get it."""
        return Unit(self.file, self.kernel, self.entry, self.defines)

    @cached_property
    def maps(self) -> tuple[Map, ...]:
        """All tensor maps of the arguments."""
        return tuple(one for argument in self.arguments if isinstance(argument, Maps) for one in argument.maps)

    @cached_property
    def defines(self) -> dict[str, int | str]:
        """What compilers get as macros: the source's, and how many maps pointers lead to."""
        return {**self.macros, **counts([one.name for one in self.maps])}

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """The arguments that are memory, and what only maps reach."""
        return (*(one for one in self.arguments if isinstance(one, Buffer)), *self.by_maps)

    @property
    def given(self) -> tuple[Buffer | Number | Map, ...]:
        """All that has a word: memory that only maps reach, constant memory, numbers, buffers and maps."""
        plain = (one for one in self.arguments if not isinstance(one, Maps))
        return (*self.by_maps, *self.constants, *plain, *self.maps)

    @property
    def blocks(self) -> int:
        """Blocks in the grid."""
        return math.prod(self.grid)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return math.prod(self.block)


def is_launch(place: str, words: Mapping[str, str] | None = None) -> bool:
    """Whether a source's own words, or these, say buffers, so that its kernel is taken for no matrix product.

    place: a file, as `read_launch` takes it. False of what cannot be read.
    """
    return any(_BUFFER.fullmatch(value) for value in {**said_by(place), **(words or {})}.values())


def said_by(place: str) -> dict[str, str]:
    """The words of a source's lines; none of what cannot be read."""
    try:
        return said_of(*read(place)).words
    except (KernelNotFoundError, ConfigError):
        return {}


def read_unit(place: str, words: Mapping[str, str], defines: Mapping[str, str]) -> Unit:
    """A kernel of which only the code is of interest: how it is launched need not be said.

    Args:
        place, defines: as `read_launch` takes them.
        words: values of macros among them; others do not matter.

    Raises:
        KernelNotFoundError: there is no such file or kernel.
        ConfigError: an argument of its template is missing.
    """
    said = said_of(*read(place), words)
    parameters = {one.name for one in said.signature.arguments}
    macros = {
        word: value
        for word, value in said.words.items()
        if word not in parameters and _is_macro(said.signature, word, value)
    }
    given = {**macros, **defines}
    known = Known(said.text, _numbers(given))
    unit = _unit(said, given, known)
    if "[" not in (maps := said.words.get("maps", "")):
        return unit
    maps_of = map_words(said.signature, maps, {**known.names, **_numbers(said.words)})
    return replace(unit, macros={**unit.macros, **counts(maps_of)})


def _unit(said: Said, macros: Mapping[str, str], known: Known) -> Unit:
    """macros: those of the source, and arguments of the template by name."""
    signature = said.signature
    values: dict[str, int | str] = {**macros, **_numbers(macros)}
    template = template_arguments(signature, said.template, {**known.names, **values})
    kept = {name: value for name, value in values.items() if name not in signature.template}
    return Unit(said.file, signature.name, signature.name + with_values(template, {**known.names, **values}), kept)


def read_launch(place: str, args: str = "", defines: Mapping[str, str] | None = None, **words: str) -> Launch:
    """The launch that a source's lines and these words say; a word that is given replaces the source's.

    Args:
        place: the source file; behind a colon which of its kernels, where there are several.
        args: words of parameters and macros, as in 'x=float32[1024] y=out:float32[1024] n=1024'.
        defines: macros, or arguments of its template, by name; they replace words of these names.
        words: grid, block, shared, reference; '' for one that is not given.

    Raises:
        KernelNotFoundError: there is no such file or kernel.
        ConfigError: a parameter is missing, or a word is not understood; the message has what it got and what it takes.
        DtypeError: an element type is none, or not that of the pointer.
    """
    given = {word: value for word, value in words.items() if value}
    of_source = said_of(*read(place), split_words(args, "--args") | given)
    file, text, signature, said, template = of_source
    defines = defines or {}
    parameters = {one.name: one for one in signature.arguments}
    arrays = arrays_of_maps(said.get("maps", ""))
    in_constants = {one: kind for one, kind in constant_memory(text).items() if one in said and one not in parameters}
    sizes = _sizes((*arrays, *in_constants), said) - parameters.keys()
    others = {*_KNOWN, *parameters, *defines, *arrays, *in_constants, *sizes}
    macros = {word: value for word, value in said.items() if word not in others}
    _check_macros(signature, macros)
    known = Known(text, _numbers({**macros, **defines}))
    unit = _unit(of_source, {**macros, **defines}, known)
    signature = typed(signature, template, {**known.texts, **defines})
    for parameter in signature.arguments:
        if parameter.name not in said and parameter.type != TYPE:
            raise ConfigError(
                f"nothing says what {parameter.name} of {signature.name} is: write above it, or give as --args, its "
                f"parameters, as in\n// tilewright: {_AS_IN}"
            )
    integers = {one.name: said[one.name] for one in signature.arguments if not one.pointer and _is_integer(one)}
    integers |= {name: said[name] for name in sizes}
    values = _integers(signature, integers, known.names)
    plain = {
        one.name: _argument(signature, one, said[one.name], values) for one in signature.arguments if one.type != TYPE
    }
    by_maps = tuple(_by_map(signature, name, said, values) for name in arrays if name not in plain)
    constants = tuple(_in_constants(signature, name, kind, said, values) for name, kind in in_constants.items())
    buffers = {one.name: one for one in (*plain.values(), *by_maps) if isinstance(one, Buffer)}
    maps = _maps(signature, said.get("maps", ""), buffers, values)
    arguments = tuple(
        plain[one.name] if one.type != TYPE else Maps(one.name, tuple(maps[of] for of in maps_behind(one.name, maps)))
        for one in signature.arguments
    )
    if (size := sum(one.bytes for one in buffers.values())) > _MOST_BYTES:
        raise ConfigError(f"buffers of {signature.name} may have {_MOST_BYTES:,} bytes together, got {size:,}")
    for word in ("grid", "block"):
        if word not in said:
            raise ConfigError(
                f"nothing says how {signature.name} is launched: write above it, or give as --grid and --block,\n"
                f"// tilewright: grid=ceil(n/256) block=256"
            )
    grid, block = (Extents(word, said[word], values)(values) for word in ("grid", "block"))
    (shared,) = expressions("shared", said.get("shared", "0"), values)[:1]
    reference = said.get("reference", "")
    if reference and not words.get("reference"):  # as the source says it, from where that lies
        reference = str(file.parent / reference)
    return Launch(
        file=file,
        kernel=signature.name,
        entry=unit.entry,
        arguments=arguments,
        macros=unit.macros,
        template=arguments_of(signature.template, unit.entry),
        grid=grid,
        block=block,
        shared_bytes=shared(values),
        reference=reference,
        by_maps=by_maps,
        constants=constants,
        cluster=cluster_of(said, signature, values)(values),
    )


def _sizes(arrays: Iterable[str], said: Mapping[str, str]) -> set[str]:
    """Words that the shapes of arrays of maps follow from, which need be no parameters."""
    shapes = (_BUFFER.fullmatch(said.get(name, "")) for name in arrays)
    return {word for shape in shapes if shape for word in re.findall(r"[a-z_]\w*", shape[3]) if word in said}


def _is_macro(signature: Signature, name: str, value: str) -> bool:
    """Whether a word is a macro of the source, or an argument of its template."""
    return (name.isupper() or name in signature.template) and value.partition(":")[0].isdecimal()


def _check_macros(signature: Signature, words: Mapping[str, str]) -> None:
    """Raise ConfigError where a word that is no parameter of the kernel is no macro either."""
    known = (*(one.name for one in signature.arguments), *_KNOWN, *signature.template)
    for name, value in words.items():
        if not _is_macro(signature, name, value):
            raise ConfigError(
                f"{name}={value} is nothing that {signature.name} takes: there are {', '.join(known)}, and macros of "
                f"the source in capitals, which are integers{nearest(name, known, listed=True)}"
            )


def _numbers(macros: Mapping[str, str]) -> dict[str, int]:
    """Those that are integers; a matrix product's line may have values to try behind one."""
    first = {name: value.partition(":")[0] for name, value in macros.items()}
    return {name: int(value) for name, value in first.items() if value.isdecimal()}


def _is_integer(argument: Argument) -> bool:
    return "int" in IN_C.get(argument.type, "")


def _integers(signature: Signature, words: Mapping[str, str], macros: Mapping[str, int]) -> dict[str, int]:
    """The values of integer parameters, which may follow from each other, and from macros and constants."""
    values = {name: value for name, value in macros.items() if name not in words}
    waiting = {name: _whole(signature, name, text) for name, text in words.items()}
    for name, expression in waiting.items():
        expression.check_names({**macros, **{other: 0 for other in words if other != name}})
    while waiting:
        ready = [name for name, expression in waiting.items() if expression.names <= values.keys()]
        if not ready:
            raise ConfigError(
                f"{' and '.join(waiting)} of {signature.name} follow from each other: give one as a number"
            )
        values |= {name: waiting.pop(name)(values) for name in ready}
    return values


def _whole(signature: Signature, name: str, text: str) -> Expression:
    if _BUFFER.fullmatch(text):
        raise ConfigError(f"{name} of {signature.name} is an integer, got {text}: it takes a number, as in {name}=1024")
    return Expression(text, f"{name} of {signature.name}")


def _argument(signature: Signature, argument: Argument, text: str, values: Mapping[str, int]) -> Buffer | Number:
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
        return Number(argument.name, dtype, value)
    try:
        return Number(argument.name, dtype, float(text))
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


def _in_constants(
    signature: Signature, name: str, kind: str, said: Mapping[str, str], values: Mapping[str, int]
) -> Buffer:
    """What a variable of these elements in constant memory is said to hold."""
    subject = f"{name}, constant memory of {signature.name},"
    found = _buffer(subject, Argument(kind, name, True, True), said[name], values)
    if found.role != "in":
        raise ConfigError(f"{subject} is read alone, got {found.role}")
    return found


def _maps(signature: Signature, text: str, buffers: Mapping[str, Buffer], values: Mapping[str, int]) -> dict[str, Map]:
    """The tensor maps of the parameters, by their names."""
    found = {}
    for name, said in map_words(signature, text, values).items():
        subject = f"{name} of {signature.name}"
        if said.array not in buffers:
            raise ConfigError(
                f"{subject} is a tensor map of {said.array}, which is no buffer: {', '.join(buffers)} are"
            )
        if said.dtype:
            raise ConfigError(f"{subject} has the element type of {said.array}: leave dtype={said.dtype} out")
        of, box = buffers[said.array], said.box(values)
        extents = ",".join(map(str, of.shape))
        item, line = np.dtype(of.dtype).itemsize, of.shape[-1]
        box.check(item)
        if (line * item % VECTOR_BYTES and box.dimensions > 1) or (line % box.line and box.panel):
            whole = f"{box.panel} elements" if box.panel else f"{VECTOR_BYTES} bytes"
            raise ConfigError(
                f"{subject} needs lines of {said.array} that are multiples of {whole}, got {line} {of.dtype}"
            )
        if said.part is not None and (len(of.shape) < 2 or said.part >= of.shape[0]):
            raise ConfigError(f"{subject} is of {said.array}[{said.part}], which {said.array}[{extents}] has not")
        found[name] = Map(name, said.array, box, said.part)
    return found


def _buffer(subject: str, argument: Argument, text: str, values: Mapping[str, int]) -> Buffer:
    found = _BUFFER.fullmatch(text)
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
