"""Statements of a C++ source that hold PTX: asm("template" : outputs : inputs : clobbers).

Where macros make the PTX, they are those of the text that the compiler's preprocessor leaves, which says of which file
each part is.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from tilewright.kernels.source.signature import closing, without_comments

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
_MARKER = re.compile(r'^#(?: |line )(?P<line>\d+) "(?P<file>[^"\n]*)"[ \d]*\n', re.MULTILINE)
_BEHIND_PRELUDE = re.compile(r'^# \d+ "<command[- ]line>" 2\n', re.MULTILINE)
_WORD = re.compile(
    r"^[ \t]*#[ \t]*define\b.*\b(?:asm|__asm__|__asm)\b(?:[ \t]|\bvolatile\b|\b__volatile__\b)*$", re.MULTILINE
)
"""A macro that is the statement's begin alone."""


class AsmOperand(NamedTuple):
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
    operands: tuple[AsmOperand, ...] | None
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
            tuple(AsmOperand(one["constraint"], _joined(one["expression"])) for one in operands if one)
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
    """Text of literals that follow one another."""
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


class Segment(NamedTuple):
    """Lines of one file that follow one another."""

    file: str
    line: int
    """The number of the first."""
    begin: int
    end: int
    """Where they lie in the text."""


def needs_macros(texts: Iterable[str]) -> bool:
    """Whether the PTX of a statement is more than literals, or a macro begins one."""
    return any(
        any(one.template is None for one in statements(text)) or _WORD.search(without_comments(text)) is not None
        for text in texts
        if "asm" in text
    )


def behind_prelude(preprocessed: str) -> str:
    """Part of a preprocessor's output behind the headers that it was given by option."""
    last = 0
    for marker in _BEHIND_PRELUDE.finditer(preprocessed):
        last = marker.end()
    return preprocessed[last:]


def segments(text: str) -> Iterator[Segment]:
    """The parts of a text that has lines as preprocessors write them, which say what the next is."""
    markers = list(_MARKER.finditer(text))
    for marker, end in zip(markers, [*(one.start() for one in markers[1:]), len(text)], strict=True):
        yield Segment(marker["file"], int(marker["line"]), marker.end(), end)


def lines_of(text: str, files: Collection[str]) -> dict[str, str]:
    """The texts of these files by name, each line where its number says."""
    found: dict[str, dict[int, str]] = {name: {} for name in files}
    for one in segments(text):
        if one.file in found:
            for i, line in enumerate(text[one.begin : one.end].split("\n"), one.line):
                found[one.file].setdefault(i, line)
    return {
        name: "\n".join(lines.get(i, "") for i in range(1, max(lines, default=0) + 1)) for name, lines in found.items()
    }
