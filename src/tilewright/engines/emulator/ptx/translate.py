"""Makes C++ of a source's inline PTX, which a host's compiler can make nothing of."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tilewright.engines.emulator.ptx import arithmetic, copies, matrices, memory, waiting
from tilewright.engines.emulator.ptx.errors import UnknownError
from tilewright.engines.emulator.ptx.expanded import Segment, segments
from tilewright.engines.emulator.ptx.parse import Instruction, Name, Program, parse
from tilewright.engines.emulator.ptx.statements import Statement, statements
from tilewright.engines.emulator.ptx.writer import HANDLERS, TYPES, Writer

INSTRUCTIONS = (arithmetic, copies, matrices, memory, waiting)
"""Modules that have entered theirs."""

_STORED = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}


class Translated(NamedTuple):
    """Texts without inline PTX, whose lines stay where they are."""

    texts: tuple[str, ...]
    unknown: tuple[str, ...]
    """What is not known, with its place. Only code that is compiled makes an error of it."""

    @property
    def ahead(self) -> str:
        """What is to be ahead of the texts."""
        return "".join(f'__attribute__((error("no such PTX"))) void {_mark(i)}();\n' for i in range(len(self.unknown)))

    def reason(self, words: str) -> str | None:
        """Why a compiler refuses the texts, if it is this; from its words."""
        found = next((one for i, one in enumerate(self.unknown) if _mark(i) in words), None)
        return found and f"{found}. Of PTX it knows {', '.join(sorted(HANDLERS))}"


def translated(files: Iterable[tuple[str, str]]) -> Translated:
    """Sources, given by name and text, with C++ in the place of inline PTX."""
    unknown: list[str] = []
    texts = [_without_ptx(text, [Segment(name, 1, 0, len(text))], unknown) for name, text in files]
    return Translated(tuple(texts), tuple(unknown))


def translated_expanded(text: str, files: Mapping[str, str]) -> Translated:
    """The same of what a preprocessor made of a source, in the lines of these files: names by what it calls them."""
    unknown: list[str] = []
    own = (one._replace(file=files[one.file]) for one in segments(text) if one.file in files)
    return Translated((_without_ptx(text, own, unknown),), tuple(unknown))


def _without_ptx(text: str, parts: Iterable[Segment], unknown: list[str]) -> str:
    if "asm" not in text:
        return text
    pieces, place = [], 0
    for part in parts:
        for one in statements(text[part.begin : part.end]):
            try:
                written = _statement(one)
            except UnknownError as error:
                written = f"{_mark(len(unknown))}()"
                at = f"{part.file}:{part.line + one.line - 1}"
                unknown.append(f"which does not know the inline PTX at {at}: {error}")
            pieces += [text[place : part.begin + one.begin], written, one.breaks]
            place = part.begin + one.end
    return "".join([*pieces, text[place:]])


def _mark(number: int) -> str:
    return f"simt_ptx_unknown_{number}_"


def _statement(statement: Statement) -> str:
    """C++ in its place, on one line."""
    if statement.template is None:
        raise UnknownError("text that is no literal")
    if not statement.template.strip():
        return 'asm volatile("" ::: "memory")'
    if statement.operands is None:
        raise UnknownError("operands that are no expressions in parentheses")
    program = parse(statement.template)
    written = [one.constraint[:1] in ("=", "+") for one in statement.operands]
    by_place: set[int] = set()
    body = [_instruction(one, written, program, by_place) for one in program.instructions]
    labels = [_label(one.operands[0]) for one in program.instructions if one.opcode == ":"]
    lines = [f"__label__ {', '.join(labels)};"] if labels else []
    for i, operand in enumerate(statement.operands):
        constraint = operand.constraint.strip("=+&")
        if constraint[:1] not in tuple("rlfdhn"):
            raise UnknownError(f"an operand of the kind {operand.constraint!r}")
        if written[i]:
            lines.append(f"auto&& simt_ptx_{i} = {operand.expression};")
        elif i in by_place:
            lines.append(f"const auto& simt_ptx_{i} = {operand.expression};")
        else:
            lines.append(f"const auto simt_ptx_{i} = simt::ptx::input<'{constraint[0]}'>({operand.expression});")
    for name, kind in program.registers.items():
        kind = _STORED.get(kind, kind)
        if kind not in TYPES:
            raise UnknownError(f".reg .{kind}")
        lines.append(f"{TYPES[kind]} {name} = 0;")
    return f"do {{ {' '.join([*lines, *body])} }} while (0)"


def _instruction(one: Instruction, written: list[bool], program: Program, by_place: set[int]) -> str:
    if one.opcode == ":":
        return f"{_label(one.operands[0])}:;"
    parts = one.opcode.split(".")
    if parts[0] == "bra":
        made = f"goto {_label(one.operands[0])};"
        writer = Writer(one, [], written, program.registers, by_place)
    else:
        length = next((n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in HANDLERS), 0)
        if not length:
            raise UnknownError(one.opcode)
        writer = Writer(one, parts[length:], written, program.registers, by_place)
        made = HANDLERS[".".join(parts[:length])](writer)
    return made if one.guard is None else f"if ({writer.value(one.guard, 'pred')}) {{ {made} }}"


def _label(operand: object) -> str:
    if not isinstance(operand, Name):
        raise UnknownError("a branch to no label")
    return f"simt_ptx_at_{operand.name.replace('$', '_')}"
