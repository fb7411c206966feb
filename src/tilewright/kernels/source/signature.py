"""Kernels that a CUDA C++ source declares: names and parameters."""

import re
from collections.abc import Iterable, Iterator
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
"""How code ends ahead of a brace that holds a function's body."""
_CONSTANT_MEMORY = re.compile(r"\b__constant__\s+((?:\w+\s+)+)(\w+)\s*(?:\[[^\]]*\]\s*)*;")
_BEFORE_NAME = re.compile(r"\b(?:__launch_bounds__|__cluster_dims__|__attribute__)\s*\(")


DTYPES = (
    "float16", "bfloat16", "float32", "float64", "bool", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip
"""Element types of buffers."""

IN_C = {
    "half": "float16", "__half": "float16", "nv_bfloat16": "bfloat16", "__nv_bfloat16": "bfloat16",
    "float": "float32", "double": "float64", "bool": "bool", "char": "int8", "signed char": "int8",
    "unsigned char": "uint8", "uchar": "uint8", "short": "int16", "unsigned short": "uint16", "ushort": "uint16",
    "int": "int32", "unsigned": "uint32", "unsigned int": "uint32", "uint": "uint32", "long": "int64",
    "unsigned long": "uint64", "ulong": "uint64", "long long": "int64", "unsigned long long": "uint64",
    "long long int": "int64", "unsigned long long int": "uint64", "size_t": "uint64", "ptrdiff_t": "int64",
    **{f"{name}_t": name for name in DTYPES if "int" in name},
}  # fmt: skip
"""Element types by what C++ calls them."""


class Argument(NamedTuple):
    """A parameter of a kernel."""

    type: str
    """Without qualifiers and without the star of a pointer, as in 'unsigned int'; of a pointer to pointers 'float*'."""
    name: str
    pointer: bool
    const: bool
    """Whether what a pointer points to is not written."""
    grid_constant: bool = False
    """Whether its address may be taken."""


class Signature(NamedTuple):
    """A kernel as its source declares it."""

    name: str
    arguments: tuple[Argument, ...]
    template: tuple[str, ...] = ()
    """Names of a template's parameters."""
    cluster: str = ""
    """Blocks of a cluster along x, y and z, as `__cluster_dims__` has them."""


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
    return [
        Signature(one.name, tuple(map(argument, split(one.parameters))), _template(one.before), one.cluster)
        for one in heads(without_comments(text))
        if one.body
    ]


def constant_memory(text: str) -> dict[str, str]:
    """The variables in constant memory that a source declares, one a statement, and the types of their elements."""
    found = _CONSTANT_MEMORY.findall(without_comments(text))
    return {name: " ".join(word for word in kind.split() if word != "static") for kind, name in found}


class Head(NamedTuple):
    """A kernel's declaration in a source."""

    name: str
    before: str
    """The source ahead of it."""
    parameters: str
    begin: int
    """Where these begin."""
    body: int
    """Where its body begins, behind the brace; 0 where it has none."""
    cluster: str = ""
    """The arguments of `__cluster_dims__`, if it is there."""


def heads(code: str) -> Iterator[Head]:
    """The declarations of kernels in a source without comments."""
    for start in re.finditer(r"\b__global__\b", code):
        head, at, cluster = code[start.end() :], start.end(), ""
        while bounds := _BEFORE_NAME.search(head, 0, _first(head, ";{")):
            end = closing(head, bounds.end() - 1) + 1
            if bounds[0].startswith("__cluster_dims__"):
                cluster = head[bounds.end() : end - 1]
            head = head[: bounds.start()] + " " * (end - bounds.start()) + head[end:]
        if (named := re.search(r"(\w+)\s*\(", head)) is None:
            continue
        end = closing(head, named.end() - 1)
        brace = re.compile(r"\s*\{").match(head, end + 1)
        parameters = head[named.end() : end]
        body = at + brace.end() if brace else 0
        yield Head(named[1], code[: start.start()], parameters, at + named.end(), body, cluster)


def _template(before: str) -> tuple[str, ...]:
    """Names of the parameters of the template that a text ends with, if it does."""
    head = re.search(r"\btemplate\s*<([^<>;{}]*)>[^;{}]*$", before)
    return tuple(argument(part).name for part in split(head[1])) if head else ()


def argument(text: str) -> Argument:
    """A parameter as a list of parameters has it."""
    declared = text.partition("=")[0].strip()
    array = declared.endswith("]")
    declared = declared.partition("[")[0].strip()
    before, _, after = declared.partition("*")
    pointer = "*" in declared or array
    words = _QUALIFIERS.sub(" ", before if "*" in declared else declared).split()
    name = _QUALIFIERS.sub(" ", after).replace("*", " ").split()[-1:] if "*" in declared else words[-1:]
    kind = " ".join(words if "*" in declared else words[:-1]) + "*" * (declared.count("*") + array - 1)
    const = bool(re.search(r"\bconst\b", before))
    return Argument(kind, name[0] if name else "", pointer, const, "__grid_constant__" in declared)


def split(text: str) -> list[str]:
    """The parts between commas that no bracket holds."""
    parts, depth, start = [], 0, 0
    for position, letter in enumerate(text):
        depth += (letter in "(<[{") - (letter in ")>]}")
        if letter == "," and not depth:
            parts.append(text[start:position])
            start = position + 1
    return [part for part in (*parts, text[start:]) if part.strip()]


def edited(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """A text with other words in some places, each given by its begin and its end."""
    pieces, position = [], 0
    for begin, end, instead in sorted(edits):
        pieces += [text[position:begin], instead]
        position = end
    return "".join([*pieces, text[position:]])


def closing(text: str, opening: int) -> int:
    """Where the bracket or brace that is opened at `opening` is closed; the text's end where it is not."""
    first, depth = text[opening : opening + 1], 0
    last = {"(": ")", "{": "}", "<": ">"}.get(first, "")
    for position in range(opening, len(text)):
        depth += (text[position] == first) - (text[position] == last)
        if not depth:
            return position
    return len(text)


def _first(text: str, letters: str) -> int:
    """Where the first of these letters is, or the end."""
    return min((position for letter in letters if (position := text.find(letter)) >= 0), default=len(text))
