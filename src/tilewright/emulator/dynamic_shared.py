"""Rewrites `extern __shared__ T name[];`, which a host's compiler takes for memory that is defined elsewhere.

Within a function it becomes a pointer to the block's dynamic shared memory. One outside of functions, in the source or
in a header of its own, becomes such a pointer in each function that says the name and has no parameter of that name.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from tilewright.kernels.source import signature
from tilewright.kernels.source.signature import edited, without_comments, without_directives

_ALIGNMENT = r"(?:__align__|alignas|__attribute__)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_DECLARATION = re.compile(
    rf"""
    \b(?: extern\b (?P<before> (?:\s+|volatile\b|const\b|{_ALIGNMENT})* ) __shared__\b
        | __shared__\s+extern\b )
    (?P<type> (?:{_ALIGNMENT}|[^;{{}}()\[\]=])+? )
    (?P<name> \b[A-Za-z_]\w* ) \s* \[\s*\] (?P<extents> (?:\s*\[[^\[\]]*\])* ) \s* (?:{_ALIGNMENT}\s*)? ;
    """,
    re.VERBOSE,
)

_CLASS = re.compile(r"\b(?:class|struct|union)\b")


class _Declaration(NamedTuple):
    begin: int
    end: int
    name: str
    pointer: str
    """Text that replaces the declaration within a function."""


@dataclass
class Function:
    """A function that is in no other function."""

    head: str
    """Text before the function's body, back to the last statement."""
    begin: int
    """Offset behind its opening brace."""
    end: int = 0
    declared: set[str] = field(default_factory=set)
    """Names that its body declares."""


@lru_cache(maxsize=8)
def with_pointers(*files: str) -> tuple[str, ...]:
    """The texts of a source and of its headers, with pointers for all arrays of dynamic shared memory.

    Lines, comments and strings stay.
    """
    parsed = [_File(text) if "__shared__" in text and "extern" in text else None for text in files]
    outside: dict[str, str] = {}
    for file in filter(None, parsed):
        outside |= {one.name: one.pointer for one in file.outside}
    if not any(file and file.declarations for file in parsed):
        return files
    users = [
        file or (_File(text) if any(name in text for name in outside) else None)
        for file, text in zip(parsed, files, strict=True)
    ]
    return tuple(file.with_pointers(outside) if file else text for file, text in zip(users, files, strict=True))


class _File:
    """A text, its declarations and functions."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.code = without_comments(text)
        self.declarations = list(map(_declaration, _DECLARATION.finditer(self.code)))
        self.functions = list(functions(without_directives(self.code)))
        self.outside = []
        """Declarations that are in no function."""
        for one in self.declarations:
            function = next((each for each in self.functions if each.begin <= one.begin < each.end), None)
            if function is None:
                self.outside.append(one)
            else:
                function.declared.add(one.name)

    def with_pointers(self, outside: Mapping[str, str]) -> str:
        """The text with them.

        outside: pointers by the names of arrays that are declared outside of functions, in this text or another.
        """
        edits = []
        for one in self.declarations:
            lines = "\n" * self.text.count("\n", one.begin, one.end)
            edits.append((one.begin, one.end, ("" if one in self.outside else one.pointer) + lines))
        own = {one.name: one.end for one in self.outside}
        for name, pointer in outside.items():
            later = (each for each in self.functions if each.begin > own.get(name, 0))
            users = (each for each in later if _uses(each, self.code, name))
            edits += [(user.begin, user.begin, pointer) for user in users]
        return edited(self.text, edits)


def _declaration(match: re.Match[str]) -> _Declaration:
    written = f"{match['before'] or ''} {match['type']}"
    element = " ".join(re.sub(_ALIGNMENT, " ", written).split())
    extents = "".join(match["extents"].split())
    pointer = f" [[maybe_unused]] {element} (*const {match['name']}){extents} = "
    pointer += f"simt::dynamic_shared<{element}{extents}>();"
    return _Declaration(match.start(), match.end(), match["name"], pointer)


def functions(code: str) -> Iterator[Function]:
    """Functions in namespaces and classes, from code without comments, strings and directives."""
    outside: list[bool] = []
    """For each open brace, whether it is that of a namespace or of a class."""
    current: Function | None = None
    last = 0
    for match in re.finditer(r"[{};]", code):
        if match[0] == "{":
            head = code[last : match.start()]
            function = signature.FUNCTION_HEAD.search(head) is not None
            if function and current is None and all(outside):
                current, depth = Function(head, match.end()), len(outside)
            outside.append(not function and (signature.NAMESPACE_HEAD.search(head) or _CLASS.search(head)) is not None)
        elif match[0] == "}" and outside:
            outside.pop()
            if current is not None and len(outside) == depth:
                current.end = match.start()
                yield current
                current = None
        last = match.end()


def _uses(function: Function, code: str, name: str) -> bool:
    word = re.compile(rf"\b{name}\b")
    body = code[function.begin : function.end]
    return name not in function.declared and not word.search(function.head) and word.search(body) is not None
