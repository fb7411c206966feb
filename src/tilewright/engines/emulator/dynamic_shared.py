"""Rewrites `extern __shared__ T name[];`, which a host's compiler takes for memory that is defined elsewhere.

Within a function it becomes a pointer to the block's dynamic shared memory. One outside of functions becomes such a
pointer in each function that says the name and has no parameter of that name.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tilewright.kernels.signature import blank, without_comments

_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)

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

_NAMESPACE = re.compile(r"\bnamespace\b[\w:\s]*$|\bextern\s*$")
_CLASS = re.compile(r"\b(?:class|struct|union)\b")
_FUNCTION = re.compile(r"\)(?:\s|\b(?:const|volatile|noexcept|override|final|mutable)\b|&|->[^;{}]*)*$")


class _Declaration(NamedTuple):
    begin: int
    end: int
    name: str
    pointer: str
    """What takes its place within a function."""


@dataclass
class _Function:
    """One that is in no other function."""

    head: str
    """What comes before its body, back to the last statement."""
    begin: int
    """Behind its opening brace."""
    end: int = 0
    declared: set[str] = field(default_factory=set)
    """In its body."""


def with_pointers(source: str) -> str:
    """The source with pointers for all arrays of dynamic shared memory. Lines, comments and strings stay."""
    if "__shared__" not in source or "extern" not in source:
        return source
    code = without_comments(source)
    declarations = list(map(_declaration, _DECLARATION.finditer(code)))
    if not declarations:
        return source
    functions = list(_functions(_DIRECTIVE.sub(blank, code)))
    around = [next((one for one in functions if one.begin <= place.begin < one.end), None) for place in declarations]
    for one, function in zip(declarations, around, strict=True):
        if function is not None:
            function.declared.add(one.name)
    edits = []
    for one, function in zip(declarations, around, strict=True):
        lines = "\n" * source.count("\n", one.begin, one.end)
        edits.append((one.begin, one.end, (one.pointer if function else "") + lines))
        if function is None:
            users = (later for later in functions if later.begin > one.end and _uses(later, code, one.name))
            edits += [(user.begin, user.begin, one.pointer) for user in users]
    for begin, end, text in sorted(edits, reverse=True):
        source = source[:begin] + text + source[end:]
    return source


def _declaration(match: re.Match[str]) -> _Declaration:
    written = f"{match['before'] or ''} {match['type']}"
    element = " ".join(re.sub(_ALIGNMENT, " ", written).split())
    extents = "".join(match["extents"].split())
    pointer = f" [[maybe_unused]] {element} (*const {match['name']}){extents} = "
    return _Declaration(
        match.start(), match.end(), match["name"], f"{pointer}simt::dynamic_shared<{element}{extents}>();"
    )


def _functions(code: str) -> Iterator[_Function]:
    """Functions in namespaces and classes, from code without comments, strings and directives."""
    outside: list[bool] = []
    """Of the braces that are open, whether each is that of a namespace or of a class."""
    current: _Function | None = None
    last = 0
    for match in re.finditer(r"[{};]", code):
        if match[0] == "{":
            head = code[last : match.start()]
            function = _FUNCTION.search(head) is not None
            if function and current is None and all(outside):
                current, depth = _Function(head, match.end()), len(outside)
            outside.append(not function and (_NAMESPACE.search(head) or _CLASS.search(head)) is not None)
        elif match[0] == "}" and outside:
            outside.pop()
            if current is not None and len(outside) == depth:
                current.end = match.start()
                yield current
                current = None
        last = match.end()


def _uses(function: _Function, code: str, name: str) -> bool:
    word = re.compile(rf"\b{name}\b")
    body = code[function.begin : function.end]
    return name not in function.declared and not word.search(function.head) and word.search(body) is not None
