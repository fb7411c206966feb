"""Mix of a kernel's instructions: counts by purpose, and the widths of its loads and stores."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tilewright.emulator.symbols import SourceLine
from tilewright.tools.explain.sass import Instruction

MULTIPLY_ADD, TENSOR, NEVER, OTHER = "fp32 multiply-add", "tensor cores", "never executed", "other"

_DATA = json.loads(Path(__file__).with_name("opcodes.json").read_text(encoding="utf-8"))
_OPCODES: Mapping[str, str] = _DATA["purposes"]
"""By purpose, the opcodes without modifiers."""
_ACCESSES: Mapping[str, str] = _DATA["accesses"]
"""By the opcode of a load or a store, what it accesses."""

_WARPGROUP_PRODUCTS = ("HGMMA", "IGMMA", "QGMMA", "BGMMA")

GROUPS: tuple[str, ...] = (*_OPCODES, NEVER, OTHER)
"""Purposes that instructions are counted by, in the order of tables."""

_GROUP_OF = {opcode: group for group, opcodes in _OPCODES.items() for opcode in opcodes.split()}

_BITS = re.compile(r"[US]?(8|16|32|64|128|256)")
"""Modifiers that give a width."""

Widths = dict[str, dict[int, int]]
"""Number of instructions by what they access (see `access_widths`) and by bytes that one thread moves."""


def group(instruction: Instruction) -> str:
    """The purpose of an instruction: one of `GROUPS`.

    Arithmetic that only sets a register counts as a move: the compiler moves with IMAD.MOV, and sets constants with
    an HFMA2 of zeros, to spread work over the pipelines.
    """
    if not instruction.executed:
        return NEVER
    name, operands = instruction.name, instruction.operands
    if (name == "IMAD" and instruction.modifiers[:1] == ("MOV",)) or (name == "HFMA2" and ", -RZ, RZ," in operands):
        return "moves, conversions"
    return _GROUP_OF.get(name, OTHER)


def count(code: Iterable[Instruction]) -> dict[str, dict[str, int]]:
    """Number of instructions by purpose and by opcode without modifiers; the most frequent opcodes first.

    Purposes are in the order of `GROUPS`; those that do not occur are left out.
    """
    found: dict[str, Counter[str]] = {}
    for instruction in code:
        found.setdefault(group(instruction), Counter())[instruction.name] += 1
    return {name: dict(found[name].most_common()) for name in GROUPS if name in found}


def multiply_adds(code: Iterable[Instruction]) -> tuple[int, int]:
    """Number of instructions on tensor cores, and of fp32 multiply-adds."""
    groups = [group(instruction) for instruction in code]
    return groups.count(TENSOR), groups.count(MULTIPLY_ADD)


class WarpgroupProducts(NamedTuple):
    """Products that warpgroups start and wait for (wgmma): what the tensor cores may work on meanwhile."""

    instructions: int
    groups: int
    """Groups of the instructions, each of which is waited for as a whole."""
    waits: tuple[int, ...]
    """How many groups may still be in flight after each wait, in the order of the code."""


def warpgroup_products(code: Iterable[Instruction]) -> WarpgroupProducts:
    """The products of warpgroups in some code, and the waits for them (HGMMA and its like, WARPGROUP.DEPBAR)."""
    instructions, groups, waits = 0, 0, []
    for instruction in code:
        if instruction.name in _WARPGROUP_PRODUCTS:
            instructions += 1
            groups += "gsb" in instruction.operands
        elif instruction.name == "WARPGROUP" and instruction.modifiers[:1] == ("DEPBAR",):
            waits.append(int(instruction.operands.rpartition(",")[2], 16))
    return WarpgroupProducts(instructions, groups, tuple(waits))


def access_widths(code: Iterable[Instruction]) -> Widths:
    """How wide the loads and stores of some code are: number of instructions by kind and by bytes that a thread moves.

    The kinds: global_load (LDG), global_store (STG), shared_load (LDS), shared_store (STS); async_copy (LDGSTS), which
    loads global memory and stores shared memory; matrix_load (LDSM) and matrix_store (STSM), of shared memory by a
    warp as one; local_load and local_store, which spilled registers and indexed arrays need; generic_load and
    generic_store (LD, ST), of which the compiler does not know whether memory is global or shared. Tensor maps' copies
    and atomics have no width.

    Where a source reads four neighbouring floats one by one and this has 16 bytes, the compiler merged the accesses.

    Returns:
        as in {'shared_load': {16: 64, 4: 9}}; kinds that do not occur are left out, the widest come first.
    """
    found: dict[str, Counter[int]] = {}
    for instruction in code:
        kind = _ACCESSES.get(instruction.name)
        if kind and instruction.executed:
            found.setdefault(kind, Counter())[_width(instruction)] += 1
    return {kind: dict(sorted(found[kind].items(), reverse=True)) for kind in _ACCESSES.values() if kind in found}


def access_widths_by_line(code: Iterable[Instruction]) -> dict[SourceLine, Widths]:
    """`access_widths` of the instructions of each source line, so that merged accesses of a line show.

    Merged accesses that come from several lines count for one of them. Unrolling and inlining repeat a
    line's instructions: widths are to be compared, not their numbers.
    """
    lines: dict[SourceLine, list[Instruction]] = {}
    for instruction in code:
        if instruction.source:
            lines.setdefault(instruction.source, []).append(instruction)
    widths = {line: access_widths(instructions) for line, instructions in sorted(lines.items())}
    return {line: found for line, found in widths.items() if found}


def shared_widths(code: Iterable[Instruction]) -> Mapping[SourceLine | None, Widths]:
    """`access_widths` of each source line that accesses shared memory; under None, of the whole kernel.

    A source that reads neighbouring words one by one need not do so on a GPU: where the compiler sees that they lie on
    a vector's boundary it makes one load of 8 or 16 bytes of them.
    """
    code = tuple(code)
    shared, by_line = {"shared_load", "shared_store"}, access_widths_by_line(code)
    widths: dict[SourceLine | None, Widths] = {None: access_widths(code)}
    return widths | {line: found for line, found in by_line.items() if found.keys() & shared}


def _width(instruction: Instruction) -> int:
    """Bytes that one thread moves."""
    modifiers = instruction.modifiers
    if instruction.name in ("LDSM", "STSM"):  # as in LDSM.16.M88.4: four 8 x 8 matrices of 16 bits, 4 bytes a lane each
        return 4 * (int(modifiers[-1]) if modifiers[-1] in ("2", "4") else 1)
    return next((int(bits[1]) // 8 for modifier in modifiers if (bits := _BITS.fullmatch(modifier))), 4)
