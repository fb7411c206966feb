"""Statements of a C++ source that hold PTX: asm("template" : outputs : inputs : clobbers)."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from tilewright.kernels.signature import closing, without_comments

_STATEMENT = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s|\\\n|\bvolatile\b|__volatile__|__volatile\b)*\(")
_PIECE = re.compile(
    r"""(?P<blank> (?:\s | \\\n | //[^\n]* | /\*.*?\*/)+ )
    | R"(?P<mark>[^()\s\\]*)\((?P<raw>.*?)\)(?P=mark)" | "(?P<text>(?:\\.|[^"\\])*)" """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "\n": ""}
_BLANK = r"(?:\s|\\\n|//[^\n]*|/\*.*?\*/)*"
_OPERAND = re.compile(rf'{_BLANK}"(?P<constraint>[^"]*)"{_BLANK}\((?P<expression>.*)\){_BLANK}', re.DOTALL)
_BREAK = re.compile(r"\\?\n")
_BRACKETS_AND = {separator: re.compile(rf"[()\[\]{{}}{separator}]") for separator in ":,"}


class Operand(NamedTuple):
    """A C++ expression that a statement reads or writes."""

    constraint: str
    """Its kind of register, as in 'r' or 'n'; behind '=' where it is written, '+' where it is read as well."""
    expression: str


class Statement(NamedTuple):
    """One that has PTX."""

    begin: int
    end: int
    """Where it lies in the source, without the semicolon."""
    line: int
    template: str | None
    """Its PTX; None where that is made of more than literals."""
    operands: tuple[Operand, ...] | None
    """Outputs and then inputs; None where they are not understood."""
    breaks: str
    """The ends of its lines, in a macro with the backslashes before them."""


def statements(source: str) -> Iterator[Statement]:
    """The statements of a source that have PTX, or only keep the compiler from moving accesses."""
    code = without_comments(source)
    for found in _STATEMENT.finditer(code):
        end = closing(code, found.end() - 1)
        sections = list(_parts(code, found.end(), end, ":"))
        operands = [
            _OPERAND.fullmatch(source, *part)
            for section in sections[1:3]
            for part in _parts(code, *section, ",")
            if source[slice(*part)].strip("\\\n\t ")
        ]
        yield Statement(
            found.start(),
            end + 1,
            source.count("\n", 0, found.start()) + 1,
            _literal(source[slice(*sections[0])]),
            tuple(Operand(one["constraint"], _joined(one["expression"])) for one in operands if one)
            if all(operands)
            else None,
            "".join(_BREAK.findall(source, found.start(), end)),
        )


def _parts(code: str, begin: int, end: int, separator: str) -> Iterator[tuple[int, int]]:
    """Where the parts lie between the separators that no bracket holds."""
    depth = 0
    for one in _BRACKETS_AND[separator].finditer(code, begin, end):
        if one[0] != separator:
            depth += 1 if one[0] in "([{" else -1
        elif not depth:
            yield begin, one.start()
            begin = one.end()
    yield begin, end


def _literal(text: str) -> str | None:
    """What literals that follow one another say together."""
    said, place = [], 0
    while place < len(text):
        piece = _PIECE.match(text, place)
        if piece is None:
            return None
        if piece["blank"] is None:
            said.append(piece["raw"] if piece["text"] is None else _ESCAPE.sub(_plain, piece["text"]))
        place = piece.end()
    return "".join(said)


def _plain(escape: re.Match[str]) -> str:
    return _ESCAPED.get(escape[1], escape[1])


def _joined(expression: str) -> str:
    """An expression on one line, without comments."""
    pieces = re.sub(r"//[^\n]*|/\*.*?\*/", " ", expression, flags=re.DOTALL) if "/" in expression else expression
    return " ".join(_BREAK.sub(" ", pieces).split())
