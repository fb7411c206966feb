"""Inline PTX that operands make: names by numbers, "m64n%8k16" : "n"(N), and any part by strings, "max.%2" : "C"(KIND).

What an operand's value is, only the compiler knows, in each instance of a template. So C++ is written for each value
that makes PTX of the text, and the compiler takes the one whose value it is.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from tilewright.emulator.ptx.parse import PtxInstruction, PtxProgram, UnknownError, parse
from tilewright.emulator.ptx.statements import AsmOperand, Statement, statements

_OPERAND = re.compile(r"%%|%(\d+)")
_WITHIN = re.compile(r"[\w.:$]")
_STRING = re.compile(r'(?:include|extern)\s*"[^"]*"|"((?:\\.|[^"\\\n])*)"')
_LETTERS = re.compile(r"\{((?:\s*'[^'\\]'\s*,?)+)(?:\s*(?:0|'\\0')\s*,?)?\s*\}")
_NO_TEXT = re.compile(r"%\d|\\")
"""Text that no such string has, since operands are not filled in there."""
_OF_NAME = re.compile(r"[\w.:$]*")
_LABEL = re.compile(r"(?<!:):(?!:)")
"""End of a label."""
_NUMBERS = tuple(map(str, (*range(17), *range(24, 257, 8))))
"""Numbers that names of instructions have: sizes, counts, columns of a product."""
_MARK = re.compile(r"simt_made_(\d+)_")
"""Name that stands for an operand within a name."""
_MOST = 4096
"""Ways to fill in a statement that are tried."""


def makers(statement: Statement) -> list[int]:
    """The statement's operands whose values are part of its names."""
    within = _within_names(statement.template or "")
    return [
        i
        for i, one in enumerate(statement.operands or ())
        if _is_text(one) or (_kind(one).startswith("n") and i in within)
    ]


def _within_names(template: str) -> set[int]:
    """The operands that are a part of names."""
    return {
        int(one[1])
        for one in _OPERAND.finditer(template)
        if one[1]
        and (
            _WITHIN.match(template[max(one.start() - 1, 0) : one.start()])
            or _WITHIN.match(template[one.end() : one.end() + 1])
        )
    }


def strings(text: str) -> set[str]:
    """The strings of a source that such operands may have, those given letter by letter too."""
    place, found = 0, {""}
    for begin, end in [*((one.begin, one.end) for one in statements(text)), (len(text), len(text))]:
        part, place = text[place:begin], end
        found |= {one[1] for one in _STRING.finditer(part) if one[1]}
        found |= {"".join(re.findall(r"'(.)'", one[1])) for one in _LETTERS.finditer(part)}
    return {one for one in found if not _NO_TEXT.search(one)}


class Way(NamedTuple):
    """A statement's PTX as some values of its `makers` fill it in."""

    values: dict[int, str]
    """By operand."""
    program: PtxProgram


def condition(operands: Sequence[AsmOperand], values: Mapping[int, str]) -> str:
    """Whether operands have these values, in C++."""
    return " && ".join(
        f'simt::ptx::is_text<decltype({one.expression})>({one.expression}, "{values[i]}")'
        if _is_text(one)
        else f"({one.expression}) == {values[i]}"
        for i, one in enumerate(operands)
        if i in values
    )


Known = Callable[[PtxInstruction, Mapping[str, str]], bool]
"""Whether there is such an instruction, with registers of these kinds."""


def ways(statement: Statement, texts: Collection[str], is_known: Known) -> Iterator[Way]:
    """A statement's PTX with all values of its `makers` that make instructions of their names.

    Args:
        statement: whose text operands make.
        texts: what its operands of text may be.
        is_known: asked of each instruction whose name they make.

    Raises:
        UnknownError: there are too many values, or numbers make names of other things than instructions.
    """
    template, operands, of = statement.template or "", statement.operands or (), makers(statement)
    in_names, of_text = _within_names(template), {i for i in of if _is_text(operands[i])}
    values: dict[int, Sequence[str]] = dict.fromkeys(of, _NUMBERS)
    for i in of_text:
        values[i] = sorted(one for one in texts if i not in in_names or _OF_NAME.fullmatch(one))
    if prod(map(len, values.values())) > _MOST:
        raise UnknownError(f"text that {len(of)} operands make")
    # What may be other things than parts of names is filled in before the PTX is read, which takes a while.
    before = {i for i in of if i not in in_names or any(map(_LABEL.search, values[i]))}
    while True:
        filled = {i: values[i] for i in of if i in before}
        programs = list(_programs(template, filled, set(of) - before, strict=not of_text))
        others = {mark for _, program in programs for mark in _marks_next_to_names(program)}
        for mark, opcode in others:
            if mark not in of_text:
                name = _MARK.sub(r"%\1", opcode)
                raise UnknownError(f"{name} with %{mark}, which is text, as an operand")
        elsewhere = {mark for mark, _ in others} if programs else of_text - before
        if not elsewhere:
            break
        before |= elsewhere
    for by_operand, program in programs:
        names = {i: values[i] for i in of if i not in before}
        yield from (way._replace(values=by_operand | way.values) for way in _with_names(program, names, is_known))


def _programs(
    template: str, before: Mapping[int, Sequence[str]], behind: Collection[int], strict: bool
) -> Iterator[tuple[dict[int, str], PtxProgram]]:
    """A text that is filled in by all values of some operands, and has marks for the others: what of it is PTX.

    Raises:
        UnknownError: it is strict, and something is none.
    """
    marks = {i: f"simt_made_{i}_" for i in behind}
    for texts in product(*before.values()):
        by_operand = dict(zip(before, texts, strict=True))
        try:
            yield by_operand, parse(_filled(template, by_operand | marks))
        except UnknownError:
            if strict:
                raise


def _filled(template: str, by_operand: Mapping[int, str]) -> str:
    return _OPERAND.sub(lambda one: by_operand.get(int(one[1]), one[0]) if one[1] else one[0], template)


def _marks_next_to_names(program: PtxProgram) -> Iterator[tuple[int, str]]:
    """The marks that are not in names of instructions or kinds, each with the name of its instruction."""
    for name in program.registers:
        yield from ((int(mark), ".reg") for mark in _MARK.findall(name))
    for one in program.instructions:
        yield from ((int(mark), one.opcode) for mark in _MARK.findall(repr((one.guard, one.operands))))


def _with_names(program: PtxProgram, values: Mapping[int, Sequence[str]], is_known: Known) -> Iterator[Way]:
    """A program whose names have marks, with all values of these operands in their place that make known ones."""
    marked = {i: one for i, one in enumerate(program.instructions) if _MARK.search(one.opcode)}
    makes_kinds = any(map(_MARK.search, program.registers.values()))
    for names in product(*values.values()):
        by_operand = dict(zip(values, names, strict=True))
        kinds = program.registers
        if makes_kinds:
            kinds = {name: _named(kind, by_operand) for name, kind in kinds.items()}
        named = {i: one._replace(opcode=_named(one.opcode, by_operand)) for i, one in marked.items()}
        if all(is_known(one, kinds) for one in named.values()):
            instructions = tuple(named.get(i, one) for i, one in enumerate(program.instructions))
            yield Way(by_operand, PtxProgram(instructions, kinds))


def _is_text(operand: AsmOperand) -> bool:
    """Whether it is part of the PTX as a string."""
    return _kind(operand).startswith("C")


def _kind(operand: AsmOperand) -> str:
    """Constraint of an operand, without whether it is read or written."""
    return operand.constraint.strip("=+&")


def _named(name: str, by_operand: Mapping[int, str]) -> str:
    return _MARK.sub(lambda mark: by_operand[int(mark[1])], name)
