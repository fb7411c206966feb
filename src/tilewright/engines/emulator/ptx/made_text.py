"""Names in inline PTX that operands make: by numbers, "m64n%8k16" : "n"(N), and by strings, "max.%2" : "C"(KIND).

What an operand's value is, only the compiler knows, in each instance of a template. So C++ is written for each value
that makes PTX of the text, and the compiler takes the one whose value it is.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import product
from math import prod

from tilewright.engines.emulator.ptx.errors import UnknownError
from tilewright.engines.emulator.ptx.parse import Instruction, Program, parse
from tilewright.engines.emulator.ptx.statements import Statement, statements

_OPERAND = re.compile(r"%%|%(\d+)")
_WITHIN = re.compile(r"[\w.:$]")
_STRING = re.compile(r'(?:include|extern)\s*"[^"]*"|"([\w.:]+)"')
_LETTERS = re.compile(r"\{((?:\s*'[\w.:]'\s*,?)+)(?:\s*(?:0|'\\0')\s*,?)?\s*\}")
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
    found = {i for i, kind in enumerate(kinds) if kind == "C"}
    for one in _OPERAND.finditer(template):
        if one[1] and int(one[1]) < len(kinds) and kinds[int(one[1])] == "n":
            before, behind = template[max(one.start() - 1, 0) : one.start()], template[one.end() : one.end() + 1]
            if _WITHIN.match(before) or _WITHIN.match(behind):
                found.add(int(one[1]))
    return sorted(found)


def strings(text: str) -> set[str]:
    """The strings of a source that such operands may have, those given letter by letter too."""
    place, found = 0, set[str]()
    for begin, end in [*((one.begin, one.end) for one in statements(text)), (len(text), len(text))]:
        part, place = text[place:begin], end
        found |= {one[1] for one in _STRING.finditer(part) if one[1]}
        found |= {"".join(re.findall(r"'(.)'", one[1])) for one in _LETTERS.finditer(part)}
    return found


class Made:
    """A statement's PTX, names of which its `makers` are to fill in."""

    def __init__(self, statement: Statement, known: Collection[str]) -> None:
        """known: strings that they may have.

        Raises:
            UnknownError: the PTX is not understood, whatever they are; or there are too many.
        """
        of = makers(statement)
        self._operands = {i: one for i, one in enumerate(statement.operands or ()) if i in of}
        self._are_strings = [one.constraint.strip("=+&").startswith("C") for one in self._operands.values()]
        choices = [sorted(known) if is_string else _NUMBERS for is_string in self._are_strings]
        if prod(map(len, choices)) > _MOST:
            raise UnknownError(f"names that {len(of)} operands make")
        self.choices = tuple(product(*choices))
        """Values of the operands that are tried."""

        def mark(one: re.Match[str]) -> str:
            return f"simt_made_{one[1]}_" if one[1] and int(one[1]) in of else one[0]

        self._program = parse(_OPERAND.sub(mark, statement.template or ""))
        for one in self._program.instructions:
            if found := _MARK.search(repr(one.operands)):
                raise UnknownError(f"{_MARK.sub(_number, one.opcode)} with %{found[1]}, which is text, as an operand")
        self._made = tuple(one for one in self._program.instructions if _MARK.search(one.opcode))
        self._makes_kinds = any(map(_MARK.search, self._program.registers.values()))

    def names(self, values: Sequence[str]) -> tuple[Instruction, ...]:
        """The instructions whose names these values make."""
        return tuple(self._filled(self._made, values))

    def registers(self, values: Sequence[str]) -> dict[str, str]:
        """The kinds of registers, by name, with these values."""
        kinds = self._program.registers
        if not self._makes_kinds:
            return kinds
        return {name: self._fill(kind, values).lstrip(".") for name, kind in kinds.items()}

    def program(self, values: Sequence[str]) -> Program:
        """All of it, with these values."""
        return Program(tuple(self._filled(self._program.instructions, values)), self.registers(values))

    def condition(self, values: Sequence[str]) -> str:
        """Whether the operands have these values, in C++."""
        return " && ".join(
            f'simt::ptx::is_text({one.expression}, "{value}")' if is_string else f"({one.expression}) == {value}"
            for one, is_string, value in zip(self._operands.values(), self._are_strings, values, strict=True)
        )

    def _filled(self, instructions: Iterable[Instruction], values: Sequence[str]) -> Iterator[Instruction]:
        return (one._replace(opcode=self._fill(one.opcode, values)) for one in instructions)

    def _fill(self, name: str, values: Sequence[str]) -> str:
        for i, value in zip(self._operands, values, strict=True):
            name = name.replace(f"simt_made_{i}_", value)
        return name


def _number(mark: re.Match[str]) -> str:
    return f"%{mark[1]}"
