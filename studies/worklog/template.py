"""Fills the worklog's words in with what they ask for between double braces, as in {{gflops naive}}."""

import inspect
import re
import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tilewright.core.errors import FigureError, RecordsError, nearest

Fill = Callable[..., str]

_SLOT = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)


def fill(text: str, fills: Mapping[str, Fill], name: str) -> str:
    """The text with each slot replaced by what the function of its first word makes of the others.

    Words are split as a shell's are, so that quotes hold them together. A line that grew too long is left so.

    Raises:
        RecordsError: a slot asks for what there is not; the message names the page.
    """

    def replaced(match: re.Match[str]) -> str:
        word, *arguments = shlex.split(match[1])
        if word not in fills:
            raise RecordsError(f"{name}: nothing is called {word!r}{nearest(word, fills)}")
        try:
            inspect.signature(fills[word]).bind(*arguments)
        except TypeError:
            raise RecordsError(f"{name}: {{{{{match[1]}}}}} has too few or too many words") from None
        try:
            return fills[word](*arguments)
        except (FigureError, LookupError, RecordsError) as error:
            raise RecordsError(f"{name}: {{{{{match[1]}}}}}: {error}") from error

    return _SLOT.sub(replaced, text)


def excerpt(source: Path, first: str, last: str) -> str:
    """The lines of a file from the first that holds one text to the next that holds another, as a Markdown block; and
    those behind that, as far as braces and parentheses are open.

    Raises:
        LookupError: there are no such lines, or what they open is not closed.
    """
    lines = source.read_text(encoding="utf-8").splitlines()
    start = _find(lines, first, 0, source)
    end = _find(lines, last, start, source)
    while (opened := open_brackets("\n".join(lines[start : end + 1]))) > 0 and end + 1 < len(lines):
        end += 1
    if opened:
        raise LookupError(f"{source.name}: braces and parentheses from line {start + 1} on do not balance")
    # Directives begin at the margin, however deep the code around them.
    chosen = lines[start : end + 1]
    code = iter(textwrap.dedent("\n".join(line for line in chosen if not line.startswith("#"))).split("\n"))
    body = "\n".join(line if line.startswith("#") else next(code) for line in chosen)
    return f"```cuda\n{body}\n```"


def open_brackets(code: str) -> int:
    """How many braces and parentheses a piece of code leaves open; less than 0 where it closes more than it opens."""
    code = re.sub(r"//.*|/\*.*?\*/", "", code)
    return sum(code.count(one) for one in "({") - sum(code.count(one) for one in ")}")


def _find(lines: Sequence[str], text: str, start: int, source: Path) -> int:
    for number in range(start, len(lines)):
        if text in lines[number]:
            return number
    raise LookupError(f"{source.name} has no line with {text!r} from line {start + 1} on")
