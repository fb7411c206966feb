"""Inline PTX that operands make: names by numbers, "m64n%8k16" : "n"(N), and any part by strings, "max.%2" : "C"(KIND).

What an operand's value is, only the compiler knows, in each instance of a template. So C++ is written for each value
that makes PTX of the text, and the compiler takes the one whose value it is.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from tilewright.engines.emulator.ptx.errors import UnknownError
from tilewright.engines.emulator.ptx.parse import Instruction, Program, parse
from tilewright.engines.emulator.ptx.statements import Operand, Statement, statements

_OPERAND = re.compile(r"%%|%(\d+)")
_WITHIN = re.compile(r"[\w.:$]")
_STRING = re.compile(r'(?:include|extern)\s*"[^"]*"|"((?:\\.|[^"\\\n])*)"')
_LETTERS = re.compile(r"\{((?:\s*'[^'\\]'\s*,?)+)(?:\s*(?:0|'\\0')\s*,?)?\s*\}")
_NO_TEXT = re.compile(r"%\d|\\")
"""What no such string has: operands are not filled in there."""
_OF_NAME = re.compile(r"[\w.:$]*")
_NUMBERS = tuple(map(str, (*range(17), *range(24, 257, 8))))
"""That names of instructions have: sizes, counts, columns of a product."""
_MARK = re.compile(r"simt_made_(\d+)_")
"""What stands for an operand in a name."""
_MOST = 4096
"""Ways to fill in a statement that are tried."""


def makers(statement: Statement) -> list[int]:
    """The statement's operands whose values are part of its names."""
    template, operands = statement.template or "", statement.operands or ()
    kinds = [one.constraint.strip("=+&")[:1] for one in operands]
    within = _within_names(template)
    return [i for i, kind in enumerate(kinds) if kind == "C" or (kind == "n" and i in within)]


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

    condition: str
    """Whether the operands have these values, in C++."""
    program: Program
    named: tuple[Instruction, ...]
    """The instructions whose names numbers made."""


def ways(statement: Statement, known: Collection[str]) -> Iterator[Way]:
    """A statement's PTX with all values of its `makers` that can be read; known: strings that they may have.

    Raises:
        UnknownError: there are too many values, or numbers make names of other things than instructions.
    """
    template, operands, of = statement.template or "", statement.operands or (), makers(statement)
    of_text = [i for i in of if operands[i].constraint.strip("=+&").startswith("C")]
    of_names = [i for i in of if i not in of_text]
    in_names = _within_names(template)
    choices = [sorted(one for one in known if i not in in_names or _OF_NAME.fullmatch(one)) for i in of_text]
    if prod(map(len, choices)) * len(_NUMBERS) ** len(of_names) > _MOST:
        raise UnknownError(f"text that {len(of)} operands make")
    for texts in product(*choices):
        filled = {i: f"simt_made_{i}_" for i in of_names} | dict(zip(of_text, texts, strict=True))
        try:
            program = parse(_filled(template, filled))
        except UnknownError:
            if of_text:
                continue
            raise
        said = [_is_text(operands[i].expression, text) for i, text in zip(of_text, texts, strict=True)]
        yield from _with_numbers(program, of_names, said, operands)


def _is_text(expression: str, text: str) -> str:
    return f'simt::ptx::is_text<decltype({expression})>({expression}, "{text}")'


def _filled(template: str, by_operand: Mapping[int, str]) -> str:
    return _OPERAND.sub(lambda one: by_operand.get(int(one[1]), one[0]) if one[1] else one[0], template)


def _with_numbers(program: Program, of: Sequence[int], said: list[str], operands: Sequence[Operand]) -> Iterator[Way]:
    """A program whose names have marks, with all values of these operands in their place."""
    for one in program.instructions:
        if found := _MARK.search(repr(one.operands)):
            raise UnknownError(f"{_MARK.sub(_number, one.opcode)} with %{found[1]}, which is text, as an operand")
    marked = [bool(_MARK.search(one.opcode)) for one in program.instructions]
    makes_kinds = any(map(_MARK.search, program.registers.values()))
    for values in product(_NUMBERS, repeat=len(of)):
        by_operand = dict(zip(of, values, strict=True))
        kinds = program.registers
        if makes_kinds:
            kinds = {name: _named(kind, by_operand) for name, kind in kinds.items()}
        instructions = tuple(
            one._replace(opcode=_named(one.opcode, by_operand)) if mark else one
            for one, mark in zip(program.instructions, marked, strict=True)
        )
        named = tuple(one for one, mark in zip(instructions, marked, strict=True) if mark)
        numbers = [f"({operands[i].expression}) == {value}" for i, value in zip(of, values, strict=True)]
        yield Way(" && ".join([*said, *numbers]), Program(instructions, kinds), named)


def _named(name: str, by_operand: Mapping[int, str]) -> str:
    return _MARK.sub(lambda mark: by_operand[int(mark[1])], name)


def _number(mark: re.Match[str]) -> str:
    return f"%{mark[1]}"
