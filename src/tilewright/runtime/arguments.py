"""A kernel's parameters as bytes, the same for both engines and the launcher: one template, and where in it lies what
is only known when a call comes.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from tilewright.core.hardware import round_up
from tilewright.core.problem import UNSCALED, Layout, Problem
from tilewright.kernels.kernel import UNDIVIDED, Division, Kernel
from tilewright.kernels.support import VECTOR_BYTES
from tilewright.runtime.plan import Slot

MAP_BYTES = 128
"""Size of a tensor map, as CUtensorMap."""

# A parameter: its members, each with its type (i: int, q: long long, f: float, p: pointer, t: tensor map) and what it
# holds. Structs are those of kernels/include/operands.cuh. A pointer, a map and a float are filled in by the call.
# Behind a name may stand `#` and a number, where several are alike; several joined by `+` are one parameter.
_PARAMETERS = {
    "M": "i:m",
    "N": "i:n",
    "K": "i:k",
    "alpha": "f:alpha",
    "beta": "f:beta",
    "A_data": "p:A",
    "lda": "i:lda",
    "B_data": "p:B",
    "ldb": "i:ldb",
    "D_data": "p:D",
    "ldd": "i:ldd",
    **{f"{name}64": f"q:{name.lower()}" for name in ("M", "N", "K", "lda", "ldb", "ldd")},
    "sizes": "i:m i:n i:k i:batch i:whole i:workers i:share i:longer i:step_a i:step_b",
    "A": "p:A q:batch_stride_a i:lda",
    "B": "p:B q:batch_stride_b i:ldb",
    "A_map": "t:A",
    "B_map": "t:B",
    "D_map": "t:D",
    "output": "p:D p:C p:bias q:batch_stride_d q:batch_stride_c i:ldd i:ldc f:alpha f:beta",
    "workspace": "p:workspace p:counters",
    "sums": "p:workspace",
    "scales": "p:scale_a p:scale_b i:step_a i:step_k_a i:scaled_rows i:step_b i:step_k_b i:scaled_cols",
    "counters": "p:counters",
    "offsets": "p:offsets",
    "zero32": "i:zero",
    "zero64": "q:zero",
    "complex_alpha": "f:alpha_re f:alpha_im",
    "products": "p:products",
    **{
        f"copy_{x}": f"p:from_{x} p:to_{x} p:scales_{x} p:range_{x} p:non_finite_{x} q:matrix_stride_{x} "
        f"i:lines_{x} i:length_{x} i:matrices_{x} i:across_{x} i:ld_from_{x} i:ld_copy_{x} i:along_k_{x}"
        for x in "ab"
    },
}
_OFTEN_NULL = frozenset(
    f"{name}_{x}" for name in ("from", "to", "scales", "range", "non_finite", "scale") for x in "ab"
) | {"alpha_re", "alpha_im"}
"""Addresses that launches without copies, or of factors without scales, have no memory for; parts of a real alpha."""

CopyNumbers = tuple[int, int, int, int, int, int, int, int]
"""Numbers of a copy that a launch makes of A or B, besides addresses, in the order of the members."""

_NO_COPY: CopyNumbers = (0, 0, 0, 0, 0, 0, 0, 0)
_SIZES = {"i": 4, "f": 4, "q": 8, "p": 8, "t": MAP_BYTES}
_ALIGNMENTS = _SIZES | {"t": 64}
_CODES = {"t": f"{MAP_BYTES}s"}
"""As `struct` has these types, where its letter is another."""
_KINDS = {"p": "pointer", "f": "scalar", "t": "map"}


class _Member(NamedTuple):
    offset: int
    type: str
    what: str


class ParameterLayout(NamedTuple):
    """How a kernel's parameters lie in memory."""

    offsets: tuple[int, ...]
    """Offset of each parameter."""
    sizes: tuple[int, ...]
    """Bytes of each parameter."""
    members: tuple[_Member, ...]
    bytes: int
    known: struct.Struct
    """All of them as bytes, with zeros for the addresses and scalars, which only a call knows."""
    values: tuple["_Values", ...]
    """Functions that give the other values, one parameter after the other."""
    slots: tuple[Slot, ...]
    """Slots that only a call fills, where addresses are those of the operands."""


class AddressSource(NamedTuple):
    """Where an address comes from when a call does: an operand's, or memory of the launch's own; and what is added."""

    name: str
    shift: int = 0


def pack(
    kernel: Kernel,
    problem: Problem,
    sources: Mapping[str, AddressSource],
    maps: Mapping[str, bytes],
    division: Division = UNDIVIDED,
    copies: Sequence[CopyNumbers] = (),
) -> tuple[bytes, tuple[Slot, ...]]:
    """The parameters of a launch, but for what only a call knows; and where that goes.

    Args:
        kernel: what is launched.
        problem: its sizes, leading dimensions and strides.
        sources: where addresses come from, by the kernel's name for them ('A'), where that is not the operand.
        maps: templates of tensor maps, for 'A', 'B' and 'D', where the kernel takes some; a blank one needs none.
        division: how the tiles are divided, `Schedule.division`.
        copies: what the launch is given copies of A and B, if it makes some.
    """
    shape = shape_of(kernel.arguments)
    known: list[Any] = []
    for values in shape.values:
        known += values(problem, division, copies, maps)
    template = shape.known.pack(*known)
    usual, elsewhere = _slots(kernel.arguments, tuple(sources), tuple(maps))
    if not elsewhere:
        return template, usual
    slots = list(usual)
    for number, offset, kind, name in elsewhere:
        slots[number] = tuple.__new__(Slot, (offset, kind, *sources[name]))  # twice as quick as Slot(...)
    return template, tuple(slots)


@lru_cache
def _slots(
    arguments: tuple[str, ...], sources: tuple[str, ...], maps: tuple[str, ...]
) -> tuple[tuple[Slot, ...], tuple[tuple[int, int, str, str], ...]]:
    """Slots that only a call fills in a launch with these tensor maps, as if addresses were those of the operands; and
    of the slots whose addresses come from elsewhere the number, offset, kind and name.

    Left out are null addresses and blank maps: the kernel uses those of A and B only where k > 0, that of D where
    ALIGNED. And beta where that is among the sources: it is 0, whatever a call has.
    """
    slots = tuple(
        slot
        for slot in shape_of(arguments).slots
        if (slot.source in maps if slot.kind == "map" else slot.source in sources or slot.source not in _OFTEN_NULL)
        and not (slot.source == "beta" and "beta" in sources)
    )
    return slots, tuple(
        (number, slot.offset, slot.kind, slot.source) for number, slot in enumerate(slots) if slot.source in sources
    )


_Values = Callable[[Problem, Division, Sequence[CopyNumbers], Mapping[str, bytes]], tuple[int, ...] | tuple[bytes, ...]]
"""Function that gives a parameter's numbers, or its template of a tensor map."""


def _sizes(p: Problem, division: Division, *_: object) -> tuple[int, ...]:
    return p.m, p.n, p.k, p.batch, *division, 1 if p.a.batch_stride else 0, 1 if p.b.batch_stride else 0


def _output(p: Problem, *_: object) -> tuple[int, ...]:
    c, d = p.addend, p.d
    ldd = _ld(d, p.m, p.n)
    return d.batch_stride or 0, c.batch_stride or 0, ldd, ldd if c is d else _ld(c, p.m, p.n)


def _scales(p: Problem, *_: object) -> tuple[int, ...]:
    if p.scaling == UNSCALED:
        return 0, 0, 0, 0, 0, 0
    of_each = [(one.step, one.step_k, one.sides) if one else (0, 0, 0) for one in p.scaling]
    return *of_each[0], *of_each[1]


_VALUES: dict[str, _Values] = {
    "M": lambda p, *_: (p.m,),
    "N": lambda p, *_: (p.n,),
    "K": lambda p, *_: (p.k,),
    "lda": lambda p, *_: (_ld(p.a, p.m, p.k),),
    "ldb": lambda p, *_: (_ld(p.b, p.k, p.n),),
    "ldd": lambda p, *_: (_ld(p.d, p.m, p.n),),
    "zero32": lambda *_: (0,),
    "zero64": lambda *_: (0,),
    "sizes": _sizes,
    "A": lambda p, *_: (p.a.batch_stride or 0, _ld(p.a, p.m, p.k)),
    "B": lambda p, *_: (p.b.batch_stride or 0, _ld(p.b, p.k, p.n)),
    "A_map": lambda p, division, copies, maps: (maps.get("A", b""),),
    "B_map": lambda p, division, copies, maps: (maps.get("B", b""),),
    "D_map": lambda p, division, copies, maps: (maps.get("D", b""),),
    "output": _output,
    "scales": _scales,
    "copy_a": lambda p, division, copies, maps: copies[0] if copies else _NO_COPY,
    "copy_b": lambda p, division, copies, maps: copies[1] if copies else _NO_COPY,
}
"""Values of parameters that are known before a call, in the order of their members; blank maps end in zeros."""
_VALUES |= {f"{name}64": _VALUES[name] for name in ("M", "N", "K", "lda", "ldb", "ldd")}


def _ld(layout: Layout, rows: int, cols: int) -> int:
    """A leading dimension. Of a single line, which counts as aligned whatever it is, a multiple of
    `VECTOR_BYTES`: kernels compute addresses of lines that do not exist, aligned though nothing is read there.
    """
    order, ld, _ = layout
    return ld if (rows if order == "row" else cols) > 1 else round_up(ld, VECTOR_BYTES)


@lru_cache
def shape_of(arguments: tuple[str, ...]) -> ParameterLayout:
    """How parameters of these names lie in memory: as a C++ compiler lays out a struct of them."""
    end, offsets, sizes, members = 0, [], [], []
    for name in arguments:
        fields = [field.split(":") for part in _parts(name) for field in _PARAMETERS[part].split()]
        alignment = max(_ALIGNMENTS[kind] for kind, _ in fields)
        start = end = round_up(end, alignment)
        for kind, what in fields:
            end = round_up(end, _ALIGNMENTS[kind])
            members.append(_Member(end, kind, what))
            end += _SIZES[kind]
        end = round_up(end, alignment)
        offsets.append(start)
        sizes.append(end - start)
    known = [member for member in members if member.type not in ("p", "f")]
    slots = tuple(Slot(offset, _KINDS[kind], what) for offset, kind, what in members if kind in _KINDS)
    values = tuple(_VALUES[part] for name in arguments for part in _parts(name) if part in _VALUES)
    lies = tuple(offsets), tuple(sizes), tuple(members), end
    return ParameterLayout(*lies, _with_gaps(known, end), values, slots)


def _parts(name: str) -> list[str]:
    return name.partition("#")[0].split("+")


def _with_gaps(members: Sequence[_Member], size: int) -> struct.Struct:
    """Struct of these members alone, in parameters of this size in bytes."""
    end, layout = 0, "="
    for offset, kind, _ in members:
        layout += f"{offset - end}x{_CODES.get(kind, kind)}"
        end = offset + _SIZES[kind]
    return struct.Struct(f"{layout}{size - end}x")
