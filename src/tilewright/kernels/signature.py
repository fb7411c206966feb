"""What a CUDA C++ source says of its kernels: names and parameters."""

import re
from typing import NamedTuple

_NO_CODE = re.compile(
    r"""
    (?P<number> \b[0-9][0-9a-zA-Z.]*(?:'[0-9a-zA-Z]+)+ )  # its apostrophes begin no character
    | //(?:\\\n|[^\n])* | /\*.*?\*/
    | R"(?P<mark>[^()\s\\]*)\(.*?\)(?P=mark)"
    | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
    """,
    re.VERBOSE | re.DOTALL,
)
_QUALIFIERS = re.compile(r"\b(const|volatile|restrict|__restrict__|__restrict|__grid_constant__|struct)\b")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
NAMESPACE_HEAD = re.compile(r"\bnamespace\b[\w:\s]*$|\bextern\s*$")
"""How code ends ahead of a brace that holds declarations; strings are blank, as after extern "C"."""
FUNCTION_HEAD = re.compile(r"\)(?:\s|\b(?:const|volatile|noexcept|override|final|mutable)\b|&|->[^;{}]*)*$")
"""The same of a function's body."""
_BEFORE_NAME = re.compile(r"\b(?:__launch_bounds__|__cluster_dims__|__attribute__)\s*\(")


class Argument(NamedTuple):
    """A parameter of a kernel."""

    type: str
    """Without qualifiers and without the star of a pointer, as in 'unsigned int'."""
    name: str
    pointer: bool
    const: bool
    """Whether what a pointer points to is not written."""


class Signature(NamedTuple):
    """A kernel as its source declares it."""

    name: str
    arguments: tuple[Argument, ...]
    template: tuple[str, ...] = ()
    """Names of a template's parameters."""


def without_comments(text: str) -> str:
    """A source whose comments and literals are blanks; its lines stay where they are."""
    return _NO_CODE.sub(lambda found: found[0] if found["number"] else blank(found), text)


def without_directives(code: str) -> str:
    """A source without comments whose lines for the preprocessor are blanks too."""
    return _DIRECTIVE.sub(blank, code)


def blank(found: re.Match[str]) -> str:
    """Spaces in the place of what was found, on the same lines."""
    return re.sub(r"[^\n]", " ", found[0])


def signatures(text: str) -> list[Signature]:
    """The kernels that a source defines, in its order."""
    code, found = without_comments(text), []
    for start in re.finditer(r"\b__global__\b", code):
        head = code[start.end() :]
        while bounds := _BEFORE_NAME.search(head, 0, _first(head, ";{")):
            head = head[: bounds.start()] + head[closing(head, bounds.end() - 1) + 1 :]
        named = re.search(r"(\w+)\s*\(", head)
        if named is None:
            continue
        end = closing(head, named.end() - 1)
        if head[end + 1 :].lstrip().startswith("{"):
            parts = split(head[named.end() : end])
            found.append(Signature(named[1], tuple(map(_argument, parts)), _template(code[: start.start()])))
    return found


def _template(before: str) -> tuple[str, ...]:
    """Names of the parameters of the template that a text ends with, if it does."""
    head = re.search(r"\btemplate\s*<([^<>;{}]*)>[^;{}]*$", before)
    return tuple(_argument(part).name for part in split(head[1])) if head else ()


def _argument(text: str) -> Argument:
    declared = text.partition("=")[0].strip()
    array = declared.endswith("]")
    declared = declared.partition("[")[0].strip()
    before, _, after = declared.partition("*")
    pointer = "*" in declared or array
    words = _QUALIFIERS.sub(" ", before if "*" in declared else declared).split()
    name = _QUALIFIERS.sub(" ", after).replace("*", " ").split()[-1:] if "*" in declared else words[-1:]
    kind = " ".join(words if "*" in declared else words[:-1])
    return Argument(kind, name[0] if name else "", pointer, bool(re.search(r"\bconst\b", before)))


def split(text: str) -> list[str]:
    """The parts between commas that no bracket holds."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "(<[{") - (letter in ")>]}")
        if letter == "," and not depth:
            parts.append(text[start:place])
            start = place + 1
    return [part for part in (*parts, text[start:]) if part.strip()]


def closing(text: str, opening: int) -> int:
    """Where the bracket or brace that is opened at `opening` is closed; the text's end where it is not."""
    first, depth = text[opening : opening + 1], 0
    last = {"(": ")", "{": "}", "<": ">"}.get(first, "")
    for place in range(opening, len(text)):
        depth += (text[place] == first) - (text[place] == last)
        if not depth:
            return place
    return len(text)


def _first(text: str, letters: str) -> int:
    """Where the first of these letters is, or the end."""
    return min((place for letter in letters if (place := text.find(letter)) >= 0), default=len(text))
