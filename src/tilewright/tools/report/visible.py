"""Text of other people on a terminal: what a terminal would obey is shown instead."""

import unicodedata
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Unicode categories of control characters, of what changes the direction of text, of bytes that are no UTF-8 in names
of files, and of ends of lines that are no newline."""


def visible(text: str) -> str:
    r"""A text whose control characters are shown, as in '\x1b[31m'; newlines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape").decode()


class PlainConsole(Console):
    """A console that reads no markup, and shows control characters of all that it prints."""

    def __init__(self, stderr: bool = False, highlight: bool = True) -> None:
        super().__init__(stderr=stderr, highlight=highlight, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich's."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)


def visible_text(text: str | Text) -> Text:
    """Text with styles that a terminal does not obey; text with control characters has one style for the whole."""
    if isinstance(text, str):
        return Text(visible(text))
    shown = visible(text.plain)
    return text if shown == text.plain else Text(shown, text.style)
