"""Matrices in shared memory and in registers, and their products."""

import re

from tilewright.emulator.ptx.parse import Numbered, RegisterGroup
from tilewright.emulator.ptx.writer import Writer, call, instruction

_FACTORS = {"f16": "half", "bf16": "bfloat16", "tf32": "tf32"} | {one: one for one in ("e4m3", "e5m2", "s8", "u8")}
_FLOAT8, _INT8 = {"e4m3", "e5m2"}, {"s8", "u8"}
_SUMS = {"f32": "float", "f16": "unsigned", "s32": "int"}
"""The C++ type of a register of sums: of one, or of two of 16 bits."""


_OF_WARPS = ("sync", "aligned")
_PRODUCTS = "simt_{0}_products(simt_thread(), {{call:{0}_products}}"

call("wgmma.fence", 0, "simt_fence_sums(simt_thread());", *_OF_WARPS)
call("wgmma.commit_group", 0, _PRODUCTS.format("commit") + ");", *_OF_WARPS)
call("wgmma.wait_group", 1, _PRODUCTS.format("wait") + ", {0});", *_OF_WARPS)


def _go_together(a: str, b: str) -> bool:
    """Whether there are products of factors of these types."""
    return a == b or {a, b} in (_FLOAT8, _INT8)


def _sums_of(factor: str) -> tuple[str, ...]:
    """The types that sums of a factor's products may have."""
    return ("s32",) if factor in _INT8 else ("f32", "f16")


def _depth(factor: str) -> int:
    """Elements along k of one instruction's products."""
    return {"f16": 16, "bf16": 16, "tf32": 8}.get(factor, 32)


def _small_matrices(w: Writer) -> tuple[int, str]:
    """How many matrices of 8 x 8 elements of 16 bits, and whether they are transposed, as C++ says it."""
    count, transposed = w.take("x1", "x2", "x4"), w.take("trans")
    w.ignore("sync", "aligned", "m8n8", "shared", "shared::cta", "b16")
    w.done(2)
    if not count:
        raise w.unknown()
    return int(count[1]), "true" if transposed else "false"


@instruction("ldmatrix")
def load(w: Writer) -> str:
    """One, two or four matrices from shared memory."""
    count, transposed = _small_matrices(w)
    parts = w.parts(w.operands[0], count)
    if w.of_ours:  # whose registers are neighbours in an array
        words = f"reinterpret_cast<unsigned (&)[{count}]>({w.register(parts[0])})"
        row = f"static_cast<const unsigned*>({w.shared(w.operands[1])})"
        return f"simt::load_matrices<{transposed}>({words}, {row}, {w.call('load_matrices')});"
    words = " ".join(w.put(one, f"simt_ptx_words[{i}]") for i, one in enumerate(parts))
    return (
        f"{{ unsigned simt_ptx_words[{count}]; simt::ptx::load_matrices<{transposed}>"
        f"({w.call('load_matrices')}, simt_ptx_words, {w.shared_number(w.operands[1])}); {words} }}"
    )


@instruction("stmatrix")
def store(w: Writer) -> str:
    """Matrices of 8 x 8, from registers to shared memory."""
    count, transposed = _small_matrices(w)
    words = ", ".join(map(w.value, w.parts(w.operands[1], count)))
    return (
        f"{{ const unsigned simt_ptx_words[{count}] = {{{words}}}; simt::ptx::store_matrices<{transposed}>"
        f"({w.call('store_matrices')}, simt_ptx_words, {w.shared_number(w.operands[0])}); }}"
    )


@instruction("mma.sync")
def multiply(w: Writer) -> str:
    """A warp's product of fragments."""
    shape = next((one for one in w.modifiers if re.fullmatch(r"m16n8k\d+", one)), "")
    kinds = [one for one in w.modifiers if one in _FACTORS or one in _SUMS]
    if not shape or len(kinds) != 4 or kinds[3] != kinds[0] or not set(kinds[1:3]) <= set(_FACTORS):
        raise w.unknown()
    if kinds[0] not in _sums_of(kinds[1]):
        raise w.unknown()
    if not _go_together(*kinds[1:3]):
        raise w.unknown(f"of {kinds[1]} and {kinds[2]}")
    depth, whole = int(shape.partition("k")[2]), _depth(kinds[1])
    if depth not in (whole, whole // 2) or (depth < whole and kinds[1] in _FLOAT8) or depth > whole:
        raise w.unknown()
    w.ignore("aligned", shape, "row", "col", *kinds)
    w.done(4)
    words = 2 if kinds[0] == "f16" else 4
    d, a, b, c = (
        w.parts(one, count)
        for one, count in zip(w.operands, (words, 4 * depth // whole, 2 * depth // whole, words), strict=True)
    )
    sums = ", ".join(w.value(one, kinds[0] if words == 4 else "u32") for one in c)
    factors = (", ".join(map(w.value, one)) for one in (a, b))
    results = " ".join(w.put(one, f"simt_ptx_sums[{i}]") for i, one in enumerate(d))
    kind = _SUMS[kinds[0]]
    given = "{}, simt_ptx_sums, {{{}}}, {{{}}}".format(w.call("multiply_fragments"), *factors)
    return (
        f"{{ {kind} simt_ptx_sums[{words}] = {{{sums}}}; simt::ptx::multiply_fragments("
        f"{given}, simt::FactorType::{_FACTORS[kinds[1]]}, simt::FactorType::{_FACTORS[kinds[2]]}); {results} }}"
    )


@instruction("wgmma.mma_async")
def multiply_async(w: Writer) -> str:
    """A warpgroup's product."""
    kinds = [one for one in w.modifiers if one in _FACTORS or one in _SUMS]
    if len(kinds) != 3 or not set(kinds[1:]) <= set(_FACTORS):  # of most names that operands are tried to make
        raise w.unknown()
    if kinds[0] == "f16" or kinds[0] not in _sums_of(kinds[1]):
        raise w.unknown()
    shape = next((one for one in w.modifiers if re.fullmatch(r"m64n\d+k\d+", one)), "")
    if not shape:
        raise w.unknown()
    if not _go_together(*kinds[1:]):
        raise w.unknown(f"of {kinds[1]} and {kinds[2]}")
    columns, depth = map(int, shape[4:].split("k"))
    if depth != _depth(kinds[1]):
        raise w.unknown()
    w.ignore("sync", "aligned", shape, *kinds)
    w.done(4, 4 if kinds[0] == "s32" else 8)
    sums, a, b, adds, *rest = w.operands
    parts = w.parts(sums, columns // 2)
    if not all(isinstance(one, Numbered) for one in parts):
        raise w.unknown("whose sums are not the statement's operands")
    places = ", ".join(f"&{w.register(one)}" for one in parts)
    call = w.call("multiply_async")
    registers = isinstance(a, RegisterGroup)
    of_a = "0" if registers else w.value(a, "u64")
    in_registers = "nullptr"
    if isinstance(a, RegisterGroup):
        names = [w.register(one) for one in w.parts(a, 4)]
        if not all(isinstance(one, Numbered) for one in a.parts):
            raise w.unknown("whose A is not the statement's operands")
        w.by_place.update(one.number for one in a.parts if isinstance(one, Numbered))
        in_registers = f"simt::ptx::together<unsigned>({call}, {{{', '.join(f'&{name}' for name in names)}}})"
    signs = [w.value(one, "s32") for one in rest[:2]]
    across = [w.value(one, "s32") for one in rest[2:]]
    across_a, across_b = [*(["0"] if registers else []), *across, "0", "0"][:2]
    types = [f"simt::FactorType::{_FACTORS[one]}" for one in kinds[1:]]
    return (
        f"simt::ptx::multiply_async({call}, simt::ptx::together<{_SUMS[kinds[0]]}>({call}, {{{places}}}), {columns}, "
        f"{in_registers}, {{{of_a}, {across_a} != 0, {types[0]}}}, "
        f"{{{w.value(b, 'u64')}, {across_b} != 0, {types[1]}}}, {w.value(adds, 'pred')}, {{{', '.join(signs)}}});"
    )
