"""Makes C++ of a source's inline PTX, which a host's compiler can make nothing of."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from tilewright.emulator.dynamic_shared import functions
from tilewright.emulator.ptx import arithmetic, copies, matrices, memory, waiting
from tilewright.emulator.ptx.made_text import condition, makers, strings, ways
from tilewright.emulator.ptx.parse import Name, PtxInstruction, PtxProgram, UnknownError, parse
from tilewright.emulator.ptx.statements import AsmOperand, Segment, Statement, segments, statements
from tilewright.emulator.ptx.writer import HANDLERS, HELD, POINTER, TYPES, Writer
from tilewright.kernels.source.signature import edited, without_comments, without_directives

INSTRUCTIONS = (arithmetic, copies, matrices, memory, waiting)
"""Modules that have entered theirs."""

_CALL = re.compile(r"SIMT_PTX_CALL\((\w+), .*?\)")
"""Call of the runtime that stands for an instruction, as a writer has it."""
_SHARED_ADDRESS = re.compile(r"shared_address\((.*)\)")
_STORED = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}
_OF_LITERALS = (
    "NVRTC takes nothing else either: choose between statements by `if constexpr`, or insert text by the constraint "
    '"C" of a constexpr array of char'
)


class Translated(NamedTuple):
    """Texts without inline PTX, whose lines stay where they are."""

    texts: tuple[str, ...]
    unknown: tuple[str, ...]
    """Unknown instructions, with their place. Only code that is compiled makes an error of them."""

    @property
    def ahead(self) -> str:
        """Declarations that have to be ahead of the texts."""
        return "".join(f'__attribute__((error("no such PTX"))) void {_mark(i)}();\n' for i in range(len(self.unknown)))

    def reason(self, words: str) -> str | None:
        """Why a compiler refuses the texts, if it is this; from its words."""
        return next((one for i, one in enumerate(self.unknown) if _mark(i) in words), None)


def translated(files: Iterable[tuple[str, str]]) -> Translated:
    """Sources, given by name and text, with C++ in the place of inline PTX."""
    unknown: list[str] = []
    wholes = {name: (text, [Segment(name, 1, 0, len(text))]) for name, text in files}
    known = _strings(wholes.values())
    texts = [_without_ptx(*whole, unknown, known) for whole in wholes.values()]
    return Translated(tuple(texts), tuple(unknown))


def translated_expanded(text: str, files: Mapping[str, str]) -> Translated:
    """Translate a preprocessor's output of a source, in the lines of these files, whose names are those in the
    output."""
    unknown: list[str] = []
    own = [one._replace(file=files[one.file]) for one in segments(text) if one.file in files]
    return Translated((_without_ptx(text, own, unknown, _strings([(text, own)])),), tuple(unknown))


def translated_header(text: str) -> str:
    """A header of ours: what its functions carry out is called, for messages, where they are, by their names."""
    code = without_comments(text)
    edits = []
    for one in statements(text):
        if one.template and one.template.strip():
            operands = tuple(map(_as_pointer, one.operands or ()))
            written, reason = _any_statement(one._replace(operands=operands), set, "")
            assert not reason, reason
            edits.append((one.begin, one.end, _CALL.sub(r"SIMT_FUNCTION_CALL(\1)", written) + one.breaks))
    for function in functions(without_directives(code)):
        if any(function.begin < begin < function.end and "SIMT_FUNCTION_CALL" in made for begin, _, made in edits):
            end = code.rindex(")", 0, function.begin)
            comma = "" if code[:end].rstrip().endswith("(") else ", "
            edits.append((end, end, f"{comma}SIMT_LOCATION"))
    return edited(text, sorted(edits))


def _as_pointer(operand: AsmOperand) -> AsmOperand:
    found = _SHARED_ADDRESS.fullmatch(operand.expression)
    return AsmOperand("P", found[1]) if found else operand


def _strings(texts: Iterable[tuple[str, list[Segment]]]) -> Callable[[], Collection[str]]:
    """Strings of these parts of texts, found once they are asked for."""
    parts = list(texts)
    return lru_cache(
        lambda: {one for text, own in parts for part in own for one in strings(text[part.begin : part.end])}
    )


def _without_ptx(text: str, parts: Iterable[Segment], unknown: list[str], known: Callable[[], Collection[str]]) -> str:
    if "asm" not in text:
        return text
    edits = []
    for part in parts:
        for one in statements(text[part.begin : part.end]):
            mark = f"{_mark(len(unknown))}()"
            written, reason = _any_statement(one, known, mark)
            if reason:
                at = f"{part.file}:{part.line + one.line - 1}"
                hint = _OF_LITERALS if one.template is None else f"Of PTX it knows {', '.join(sorted(HANDLERS))}"
                unknown.append(f"which does not know the inline PTX at {at}: {reason}. {hint}")
            edits.append((part.begin + one.begin, part.begin + one.end, written + one.breaks))
    return edited(text, edits)


def _mark(number: int) -> str:
    return f"simt_ptx_unknown_{number}_"


def _any_statement(statement: Statement, known: Callable[[], Collection[str]], mark: str) -> tuple[str, str]:
    """C++ in its place, on one line, and what of it is not known, or ''; a call for that, in its place, is `mark`."""
    try:
        if statement.template is None:
            raise UnknownError("its text is no string literal")
        if not statement.template.strip():
            return 'asm volatile("" ::: "memory")', ""
        if statement.operands is None:
            raise UnknownError("operands that are no expressions in parentheses")
        if makers(statement):
            return _with_made_text(statement, known(), mark)
        by_place: set[int] = set()
        body = _body(parse(statement.template), statement.operands, by_place)
        return f"do {{ {_operands(statement.operands, by_place)} {{ {body} }} }} while (0)", ""
    except UnknownError as error:
        return mark, str(error)


def _with_made_text(statement: Statement, known: Collection[str], mark: str) -> tuple[str, str]:
    """C++ for a statement whose text operands make: a branch for each of their values that makes PTX of it."""
    assert statement.template is not None and statement.operands is not None
    operands, by_place = statement.operands, set[int]()
    held, branches = _held(operands), []

    def is_known(one: PtxInstruction, kinds: Mapping[str, str]) -> bool:
        with suppress(UnknownError):
            return bool(_instruction(one, held, kinds, set()))
        return False

    for way in ways(statement, known, is_known):
        with suppress(UnknownError):
            branches.append(
                f"if constexpr ({condition(operands, way.values)}) {{ {_body(way.program, operands, by_place)} }}"
            )
    body = " else ".join([*branches, f"{mark};"])
    of = makers(statement)
    names = " and ".join(f"%{i}, {operands[i].expression}," for i in of)
    said = f"{statement.template.strip()!r}, in which {names} make{'s' * (len(of) == 1)} what there is not"
    return f"do {{ {_operands(operands, by_place)} {body} }} while (0)", said


def _held(operands: Sequence[AsmOperand]) -> list[str | None]:
    return [None if one.constraint[:1] in ("=", "+") else HELD.get(one.constraint[:1], "") for one in operands]


def _operands(operands: Sequence[AsmOperand], by_place: set[int]) -> str:
    """Declarations of them; by_place: those of the inputs that are needed where they lie."""
    lines = []
    for i, (operand, held) in enumerate(zip(operands, _held(operands), strict=True)):
        constraint = operand.constraint.strip("=+&")
        if constraint == "C":
            continue
        if constraint[:1] not in HELD:
            raise UnknownError(f"an operand of the kind {operand.constraint!r}")
        if held == POINTER:
            lines.append(f"void* const simt_ptx_{i} = simt::ptx::pointer({operand.expression});")
        elif held is None:
            lines.append(f"auto&& simt_ptx_{i} = {operand.expression};")
        elif i in by_place:
            lines.append(f"const auto& simt_ptx_{i} = {operand.expression};")
        else:
            lines.append(f"const auto simt_ptx_{i} = simt::ptx::input<'{constraint[0]}'>({operand.expression});")
    return " ".join(lines)


def _body(program: PtxProgram, operands: Sequence[AsmOperand], by_place: set[int]) -> str:
    """C++ for PTX; by_place: where it notes what `_operands` takes."""
    held = _held(operands)
    body = [_instruction(one, held, program.registers, by_place) for one in program.instructions]
    labels = [_label(one.operands[0]) for one in program.instructions if one.opcode == ":"]
    lines = [f"__label__ {', '.join(labels)};"] if labels else []
    for name, kind in program.registers.items():
        kind = _STORED.get(kind, kind)
        if kind not in TYPES:
            raise UnknownError(f".reg .{kind}")
        lines.append(f"{TYPES[kind]} {name} = 0;")
    return " ".join([*lines, *body])


def _instruction(one: PtxInstruction, held: list[str | None], registers: Mapping[str, str], by_place: set[int]) -> str:
    if one.opcode == ":":
        return f"{_label(one.operands[0])}:;"
    parts = one.opcode.split(".")
    if parts[0] == "bra":
        made = f"goto {_label(one.operands[0])};"
        writer = Writer(one, [], held, registers, by_place)
    else:
        length = _known_length(one.opcode)
        if not length:
            raise UnknownError(one.opcode)
        writer = Writer(one, parts[length:], held, registers, by_place)
        made = HANDLERS[".".join(parts[:length])](writer)
    return made if one.guard is None else f"if ({writer.value(one.guard, 'pred')}) {{ {made} }}"


@lru_cache(maxsize=8192)
def _known_length(opcode: str) -> int:
    """How many of the name's parts say which instruction it is; 0 where none is known."""
    parts = opcode.split(".")
    return next((n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in HANDLERS), 0)


def _label(operand: object) -> str:
    if not isinstance(operand, Name):
        raise UnknownError("a branch to no label")
    return f"simt_ptx_at_{operand.name.replace('$', '_')}"
