"""Names of a source that begin as the emulator's own do, with `simt` in any case: compilers get them with another
beginning, so that no name can be both.
"""

import re

from tilewright.kernels.source.signature import edited, without_comments

_OURS = re.compile(r"\b(?=simt)", re.IGNORECASE)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*", re.MULTILINE)
_BEGIN = "__source_"
"""Which sources may not have: C++ keeps names with two underscores for itself."""


def renamed(text: str) -> str:
    """A source, a part of one or a name, in which no name is the emulator's; its lines stay where they are."""
    if "simt" not in text.lower():
        return text
    code = _INCLUDE.sub(lambda found: " " * len(found[0]), without_comments(text))
    return edited(text, ((found.start(), found.start(), _BEGIN) for found in _OURS.finditer(code)))


def as_written(words: str) -> str:
    """Words about such a source, with the source's own names."""
    return words.replace(_BEGIN, "")
