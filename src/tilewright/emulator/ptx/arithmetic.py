"""Arithmetic, logic, comparisons and conversions."""

from tilewright.emulator.ptx.parse import Name, Pair
from tilewright.emulator.ptx.writer import TYPES, Writer, instruction

_SOURCES = {
    **dict.fromkeys(("mov", "neg", "abs", "not", "popc", "clz", "brev"), 1),
    **dict.fromkeys(("ex2", "lg2", "rcp", "sqrt", "rsqrt", "sin", "cos", "tanh"), 1),
    **dict.fromkeys(("add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr"), 2),
    **dict.fromkeys(("mad", "fma", "bfe", "prmt", "sad"), 3),
    **dict.fromkeys(("bfi", "lop3"), 4),
}
"""How many sources an instruction has. Each is a function of this name in inline_ptx.hpp, but for those below."""
_NAMES = {name: f"bit_{name}" for name in ("and", "or", "xor", "not")}
"""The others are words of C++."""

_HALVES = {
    **{name: f"__h{name}" for name in ("add", "sub", "mul", "fma", "neg", "abs", "min", "max")},
    "ex2": "h2exp2",
    "mad": "__hfma",
}
_NARROW = ("f16", "f16x2", "bf16", "bf16x2")
_FUNCTIONS = ("ex2", "lg2", "rcp", "sqrt", "rsqrt", "sin", "cos", "tanh", "div")


@instruction(*_SOURCES)
def plain(w: Writer) -> str:
    """One result of one type."""
    name = w.instruction.opcode.partition(".")[0]
    count = _SOURCES[name]
    kinds = w.types() or ["b32"]
    kind, of = kinds[0], TYPES[kinds[0]]
    if kind in _NARROW and name != "mov":
        return _of_halves(w, name, kind, count)
    if kind in ("f32", "f64"):
        w.ignore("rn", *(("approx", "full") if name in _FUNCTIONS else ()))
        flush, clamp = w.take("ftz"), w.take("sat")
    else:
        flush = clamp = ""
    part = w.take("lo", "hi", "wide") if name in ("mul", "mad") else ""
    if kind[0] != "f" and name in ("mul", "mad") and not part:
        raise w.unknown()
    w.done(count + 1)
    result, *sources = w.operands
    if name == "mov" and any(hasattr(one, "parts") for one in w.operands):
        return _moved(w, kind)
    if name == "mov":
        return w.put(result, w.value(sources[0], kind))
    as_kinds = [kind] * count
    if name in ("shl", "shr"):
        as_kinds[1] = "u32"
    elif name == "bfe":
        as_kinds[1:] = ["u32", "u32"]
    elif name == "bfi":
        as_kinds[2:] = ["u32", "u32"]
    elif part == "wide" and name == "mad":
        as_kinds[2] = f"{kind[0]}{2 * int(kind[1:])}"
    function = f"simt::ptx::{_NAMES.get(name, name)}{part and f'_{part}'}"
    value = f"{function}<{of}>({', '.join(map(w.value, sources, as_kinds))})"
    if clamp:
        value = f"simt::ptx::clamped({value})"
    return w.put(result, f"simt::ptx::flushed({value})" if flush else value)


def _of_halves(w: Writer, name: str, kind: str, count: int) -> str:
    if name not in _HALVES:
        raise w.unknown()
    w.ignore("rn", "ftz")
    w.done(count + 1)
    two = "2" if kind.endswith("x2") and name != "ex2" else ""
    sources = ", ".join(w.value(one, kind) for one in w.operands[1:])
    return w.put(w.operands[0], f"{_HALVES[name]}{two}({sources})")


def _moved(w: Writer, kind: str) -> str:
    """Registers to the parts of a wider one, or from them."""
    result, source = w.operands
    if parts := getattr(result, "parts", None):
        bits = int(kind[1:]) // len(parts)
        of = f"b{bits}"
        value = w.value(source, kind)
        return " ".join(w.put(one, f"simt::ptx::part<{TYPES[of]}>({value}, {i * bits})") for i, one in enumerate(parts))
    parts = w.parts(source)
    bits = int(kind[1:]) // len(parts)
    whole = TYPES[kind]
    joined = " | ".join(
        f"static_cast<{whole}>(static_cast<{whole}>({w.value(one, f'b{bits}')}) << {i * bits})"
        for i, one in enumerate(parts)
    )
    return w.put(result, f"static_cast<{whole}>({joined})")


_COMPARED = {
    **{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="},
    **{"lo": "<", "ls": "<=", "hi": ">", "hs": ">="},
}
_UNORDERED = {f"{name}u": sign for name, sign in _COMPARED.items() if len(name) == 2 and name[0] in "enlg"}


@instruction("setp", "set")
def compare(w: Writer) -> str:
    """A predicate of two values, and with a third that one of them holds."""
    sign = w.take(*_COMPARED, *_UNORDERED)
    also = w.take("and", "or", "xor")
    w.ignore("ftz")
    kinds = w.types()
    kind = kinds[-1] if kinds else ""
    if not sign or not kind:
        raise w.unknown()
    w.done(4 if also else 3)
    a, b = (w.value(one, kind) for one in w.operands[1:3])
    holds = f"{a} {_COMPARED.get(sign) or _UNORDERED[sign]} {b}"
    if sign in _UNORDERED:
        holds = f"({holds} || {a} != {a} || {b} != {b})"
    if also:
        joined = {"and": "&&", "or": "||", "xor": "!="}[also]
        holds = f"(({holds}) {joined} {w.value(w.operands[3], 'pred')})"
    if w.instruction.opcode.startswith("set."):
        all_bits = "1.0f" if kinds[0] == "f32" else f"{TYPES[kinds[0]]}(~0u)"
        return w.put(w.operands[0], f"({holds}) ? {all_bits} : 0")
    first = w.operands[0]
    if isinstance(first, Pair):
        puts = f"{w.put(first.first, 'simt_ptx_holds')} {w.put(first.second, '!simt_ptx_holds')}"
        return f"{{ const bool simt_ptx_holds = {holds}; {puts} }}"
    return w.put(first, f"({holds})")


@instruction("selp")
def select(w: Writer) -> str:
    """One of two values, by a predicate."""
    (kind,) = w.types() or ["b32"]
    w.done(4)
    result, a, b, holds = w.operands
    return w.put(result, f"{w.value(holds, 'pred')} ? {w.value(a, kind)} : {w.value(b, kind)}")


@instruction("shf")
def funnel(w: Writer) -> str:
    """A shift of two registers."""
    side, mode = w.take("l", "r"), w.take("wrap", "clamp")
    w.types()
    w.done(4)
    function = f"__funnelshift_{side}{'c' if mode == 'clamp' else ''}"
    return w.put(w.operands[0], f"{function}({', '.join(map(w.value, w.operands[1:]))})")


_TO_INTEGER = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


@instruction("cvt")
def convert(w: Writer) -> str:
    """From one type to another."""
    if w.take("tf32"):
        w.ignore("rna", "f32")
        w.done(2)
        return w.put(w.operands[0], f"simt::rounded_to_tf32({w.value(w.operands[1])})")
    if w.take("e4m3x2"):
        return _float8(w)
    kinds = w.types()
    if len(kinds) != 2:
        raise w.unknown()
    to, of = kinds
    if to.endswith("x2"):
        w.ignore("rn")
        w.done(3)
        values = ", ".join(
            f"{'__float2half_rn' if to == 'f16x2' else '__float2bfloat16_rn'}({w.value(one, of)})"
            for one in reversed(w.operands[1:])
        )
        return w.put(w.operands[0], f"simt::ptx::pair({values})")
    whole = w.take(*_TO_INTEGER)
    flush, clamp = w.take("ftz"), w.take("sat")
    w.ignore("rn", *(("rz",) if to == "f64" else ()))
    w.done(2)
    value = w.value(w.operands[1], of)
    from_float, to_float = "f" in of, "f" in to
    if from_float and not to_float and not whole:
        raise w.unknown()
    if whole:
        value = f"{_TO_INTEGER[whole]}({'double' if of == 'f64' else 'simt::HostFloat'}({value}))"
    if from_float and not to_float:
        value = f"simt::integer<{TYPES[to]}>({value})"
    elif to.endswith("f16"):
        value = f"simt::ptx::to_half<{TYPES[to]}>({value})"
    elif clamp and not to_float:
        raise w.unknown("(its .sat)")
    else:
        value = f"static_cast<{TYPES[to]}>({value})"
    if clamp:
        value = f"simt::ptx::clamped({value})"
    return w.put(w.operands[0], f"simt::ptx::flushed({value})" if flush and to == "f32" else value)


def _float8(w: Writer) -> str:
    w.ignore("rn", "satfinite")
    kinds = w.types()
    if kinds == ["f16x2"]:
        w.done(2)
        return w.put(w.operands[0], f"simt::ptx::halves_of_e4m3({w.value(w.operands[1], 'u16')})")
    if kinds != ["f32"]:
        raise w.unknown()
    w.done(3)
    upper, lower = (f"to_e4m3({w.value(one, 'f32')}).bits" for one in w.operands[1:])
    return w.put(w.operands[0], f"static_cast<unsigned short>({upper} << 8 | {lower})")


@instruction("cvta")
def to_window(w: Writer) -> str:
    """A generic address to one in shared or global memory, or back."""
    to, space = w.take("to"), w.take("shared", "shared::cta", "global")
    (kind,) = w.types() or ["u64"]
    w.done(2)
    value = w.value(w.operands[1], kind)
    if space.startswith("shared"):
        if to:
            value = f"simt_shared_address(simt_thread(), simt::ptx::at({value}))"
        else:
            at = f"simt_at_shared(simt_thread(), {w.call('shared_memory')}, unsigned({value}))"
            value = f"reinterpret_cast<unsigned long long>({at})"
    return w.put(w.operands[0], value)


@instruction("mapa")
def in_block(w: Writer) -> str:
    """An address in the shared memory of another block of the cluster."""
    space = w.take("shared::cluster")
    (kind,) = w.types()
    w.done(3)
    result, address, rank = w.operands
    if isinstance(address, Name) and not address.name.startswith("simt_ptx_"):
        raise w.unknown()
    if space:
        return w.put(result, f"simt_shared_address_in_block({w.value(address, kind)}, {w.value(rank)})")
    pointer = f"simt::ptx::at({w.value(address, kind)})"
    there = f"simt_in_block(simt_thread(), {w.call('in_block')}, {pointer}, {w.value(rank)})"
    return w.put(result, f"reinterpret_cast<unsigned long long>({there})")
