"""Sources whose inline PTX macros make, as the compiler's preprocessor leaves them: which text is of which file."""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from tilewright.engines.emulator.ptx.statements import statements
from tilewright.kernels.signature import without_comments

_MARKER = re.compile(r'^#(?: |line )(?P<line>\d+) "(?P<file>[^"\n]*)"[ \d]*\n', re.MULTILINE)
_BEHIND_PRELUDE = re.compile(r'^# \d+ "<command[- ]line>" 2\n', re.MULTILINE)
_WORD = re.compile(
    r"^[ \t]*#[ \t]*define\b.*\b(?:asm|__asm__|__asm)\b(?:[ \t]|\bvolatile\b|\b__volatile__\b)*$", re.MULTILINE
)
"""A macro that is the statement's begin alone."""


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
    """Of what a preprocessor wrote, what comes behind the headers that it was given by option."""
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
