"""Finds inline PTX, which a host's compiler can make nothing of."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from tilewright.kernels.signature import without_comments

_STATEMENT = re.compile(r"\b(?:asm|__asm__)\b(?:\s*(?:volatile|__volatile__)\b)?\s*\(")
_INSTRUCTION = re.compile(r'[\s"{]*(?:\\[nt][\s"{]*)*(?:@!?\w+\s+)?(\.?[a-z][\w.:]*)')


class InlinePtx(NamedTuple):
    """A statement with PTX."""

    line: int
    instruction: str
    """Its first one, as in 'mov.u32'."""


def inline_ptx(source: str) -> Iterator[InlinePtx]:
    """The statements of a source that have some; not those that only keep the compiler from moving accesses."""
    for statement in _STATEMENT.finditer(without_comments(source)):
        if found := _INSTRUCTION.match(source, statement.end()):
            yield InlinePtx(source.count("\n", 0, statement.start()) + 1, found[1])
