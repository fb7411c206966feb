"""Leaves out of a source what only the host runs: functions, and what they alone use, and headers for these.

nvcc compiles such a file for both; the compilers of kernels here take what runs on the GPU.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tilewright.kernels.source.signature import (
    FUNCTION_HEAD,
    NAMESPACE_HEAD,
    closing,
    split,
    without_comments,
    without_directives,
)

_ON_GPU = frozenset({"__global__", "__device__", "__constant__", "__shared__", "__managed__"})
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)", re.MULTILINE)
_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
"""Or a string, which may look as if it held one."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_CALL = re.compile(r"(?:(?P<scope>[A-Za-z_]\w*)\s*::\s*)?\b(?P<name>[A-Za-z_]\w*)\s*[(<]")
_SCOPE = re.compile(r"\b(?:namespace|class|struct)\s+(\w+)(?!\s*=)\b")
_TYPE = re.compile(
    r"\s*(?:class|struct|union|enum(?P<enum>))\b(?:\s+class\b)?(?:\s+(?:__align__|alignas)\s*\([^()]*\))?\s*(\w*)"
)
_TEMPLATE = re.compile(r"\s*template\s*(?=<)")
_AHEAD = re.compile(r"\b(?:__launch_bounds__|__cluster_dims__|__attribute__|__align__|alignas|decltype)\s*(?=\()")
_KEPT = re.compile(r"\s*(?:using\s+namespace|namespace|static_assert)\b")
"""Statements that say nothing that could be left out."""

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">\n]+)[">]', re.MULTILINE)
_FOR_HOSTS = re.compile(
    r"(?:iostream|fstream|sstream|iomanip|ostream|istream|iosfwd|string|vector|deque|list|map|set|unordered_map"
    r"|unordered_set|queue|stack|memory|chrono|random|numeric|thread|mutex|atomic|future|condition_variable|stdexcept"
    r"|exception|system_error|filesystem|regex|locale|optional|string_view|typeinfo|ctime|csignal|cerrno|clocale|locale\.h"
    r"|time\.h|errno\.h|signal\.h|unistd\.h|getopt\.h|pthread\.h|omp\.h|mpi\.h|nccl\.h|cuda\.h|cudaTypedefs\.h|cuda_profiler_api\.h"
    r"|cudaProfiler\.h|curand\.h|cufft\.h|nvrtc\.h|Windows\.h|windows\.h|sys/.*|cublas.*|cusparse.*|cusolver.*|cudnn.*"
    r"|nvtx3?/.*|nvToolsExt\.h|torch/.*|ATen/.*|c10/.*|pybind11/.*|thrust/(?:host|device)_vector\.h"
    r"|helper_(?:cuda|functions|timer|string|image|math_host)\.h|exception\.h)"
)
"""Headers that kernels have no use for: of C++'s library, of the system, of CUDA's libraries and samples."""


@dataclass
class _Item:
    """A declaration or definition outside of functions."""

    begin: int
    end: int
    names: frozenset[str]
    """That it declares; none where they are not understood."""
    on_gpu: bool
    """Whether it says that the GPU has it."""
    function: bool
    on_host: bool
    """Whether it says that only the host has it."""
    words: frozenset[str] = field(repr=False, default=frozenset())
    """Names that it has."""
    calls: frozenset[str] = field(repr=False, default=frozenset())
    """Names among `words` that a bracket follows, but for those in other namespaces, as in cg::reduce(...)."""


def without_host_code(text: str, functions_alone: bool = False) -> str:
    """A source without functions that neither run on the GPU nor are called from there, and without classes and
    variables that nothing else uses. Lines stay where they are. A source without such functions stays as it is, but for
    headers that only hosts use.

    functions_alone: classes and variables stay.
    """
    source = _read(text)
    used = source.used([one for one in source.items if one.on_gpu])
    host = [one for one in source.items if id(one) not in used]
    if any(one.function for one in host):
        for one in (one for one in host if one.function or not functions_alone):
            text = text[: one.begin] + re.sub(r"[^\n]", " ", text[one.begin : one.end]) + text[one.end :]
    for found in _INCLUDE.finditer(text):
        if _FOR_HOSTS.fullmatch(found[1]) and "#" in source.code[found.start() : found.end()]:
            text = text[: found.start()] + " " * len(found[0]) + text[found.end() :]
    return text


def reached(text: str, entry: str) -> str:
    """The text of a source's kernel, of what it uses, and so on, macros too; without comments, and all of it where that
    is not understood, as where macros paste names."""
    source = _read(text)
    kept = _COMMENT.sub(lambda found: found[0] if found[0].startswith('"') else " " * len(found[0]), text)
    found = source.used([one for one in source.items if one.function and entry in one.names])
    used = [one for one in source.items if id(one) in found]  # the kernel, the items that it names, and so on
    if not used:
        return kept
    named = {word for one in used for word in one.words}
    while more := {word for name in named & source.macros.keys() for word in source.macros[name]} - named:
        named |= more
    bodies = {one[1]: one.span(2) for one in _MACRO.finditer(source.code) if one[1] in named}
    if any("##" in kept[begin:end] for begin, end in bodies.values()):
        return kept
    parts = [(one.begin, one.end) for one in used] + list(bodies.values())
    return "\n".join(kept[begin:end] for begin, end in parts)


class DeviceCode(NamedTuple):
    """The code of a source and its headers that is for the GPU, or is used there."""

    lines: tuple[frozenset[int], ...]
    """Numbers of its lines in each of the texts, from 1 on."""
    words: Counter[str]
    """How often each name is there."""


def device_code(texts: Sequence[str]) -> DeviceCode | None:
    """The code for the GPU in these texts, a source's and its headers'; None where that is not understood."""
    source = _read("\n".join(texts))
    used = source.used([one for one in source.items if one.on_gpu])
    if not used:
        return None
    words, lines, first = Counter[str](), set[int](), 1
    for one in (one for one in source.items if id(one) in used):
        words.update(_WORD.findall(source.code[one.begin : one.end]))
        begin = source.code.count("\n", 0, one.begin) + 1
        lines.update(range(begin, begin + source.code.count("\n", one.begin, one.end) + 1))
    of_texts = []
    for text in texts:
        count = text.count("\n") + 1
        of_texts.append(frozenset(line - first + 1 for line in lines if first <= line < first + count))
        first += count
    return DeviceCode(tuple(of_texts), words)


class _ReadSource(NamedTuple):
    """A source, read."""

    code: str
    """It without comments."""
    macros: dict[str, frozenset[str]]
    """Names that the macros' bodies have."""
    items: list[_Item]
    """Its declarations."""

    def used(self, first: Iterable[_Item]) -> set[int]:
        """These items, those that they name, and so on; of functions that do not say that the GPU has them, those that
        they call."""
        waiting, used = list(first), set[int]()
        words, calls = set[str](), set[str]()
        while waiting:
            used |= set(map(id, waiting))
            for one in waiting:
                words |= one.words
                calls |= one.calls
            for name, body in self.macros.items():
                if name in words:
                    words |= body
                    calls |= body
            left = (one for one in self.items if id(one) not in used and not one.on_host)
            waiting = [one for one in left if one.names & (calls if one.function and not one.on_gpu else words)]
        return used


def _read(text: str) -> _ReadSource:
    code = without_comments(text)
    macros = {one[1]: frozenset(_WORD.findall(one[2])) for one in _MACRO.finditer(code)}
    return _ReadSource(code, macros, list(_items(without_directives(code), macros)))


def _items(code: str, macros: dict[str, frozenset[str]]) -> Iterator[_Item]:
    """The declarations of a source without comments and directives; none where its brackets do not match."""
    on_gpu = set(_ON_GPU)
    while more := {name for name, body in macros.items() if name not in on_gpu and body & on_gpu}:
        on_gpu |= more
    found: list[_Item] = []
    scopes = frozenset(_SCOPE.findall(code))
    start, position, outer = 0, 0, 0
    while position < len(code):
        letter = code[position]
        if letter == "(":
            position = closing(code, position)
        elif letter == ";":
            found.append(_item(code, start, position + 1, on_gpu, scopes))
            start = position + 1
        elif letter == "}":
            outer -= 1
            start = position + 1
        elif letter == "{":
            head = code[start:position]
            if NAMESPACE_HEAD.search(head):
                outer, start = outer + 1, position + 1
            else:
                position = closing(code, position)
                if FUNCTION_HEAD.search(head):
                    found.append(_item(code, start, position + 1, on_gpu, scopes))
                    start = position + 1
        position += 1
    matched = position == len(code) and not outer and not code[start:].strip()
    return iter(found if matched else [])


def _item(code: str, begin: int, end: int, on_gpu: set[str], scopes: frozenset[str]) -> _Item:
    """scopes: namespaces and classes of the source's own."""
    begin += len(code[begin:end]) - len(code[begin:end].lstrip())
    text = code[begin:end]
    head, brace, _ = text.partition("{")
    words = frozenset(_WORD.findall(text))
    function = bool(FUNCTION_HEAD.search(head if brace else head.rstrip(";"))) and "=" not in head.partition("(")[0]
    kept = bool(_KEPT.match(text)) or not words
    runs = kept or bool(on_gpu & (frozenset(_WORD.findall(head)) if function else words))
    return _Item(
        begin,
        end,
        _called(head) if function else _declared(text),
        runs,
        function,
        function and not runs and ("__host__" in head or "<<<" in text),
        words,
        frozenset(one["name"] for one in _CALL.finditer(text) if one["scope"] is None or one["scope"] in scopes),
    )


def _called(head: str) -> frozenset[str]:
    """A function's name, by what is ahead of its body."""
    while ahead := _AHEAD.search(head):  # attributes, which have brackets too
        head = head[: ahead.start()] + head[closing(head, ahead.end()) + 1 :]
    named = re.search(r"(\w+)\s*(?:<[^()]*>\s*)?\(", head)
    return frozenset({named[1]} if named else ())


def _declared(text: str) -> frozenset[str]:
    """The names that a class, an enum, a type's name or variables have."""
    if template := _TEMPLATE.match(text):
        text = text[closing(text, template.end()) + 1 :]
    words = _WORD.findall(text)
    if words[:1] == ["using"]:
        return frozenset(words[1:2])
    if words[:1] == ["typedef"]:
        return frozenset(words[-1:])
    if (kind := _TYPE.match(text)) and "{" in text and "=" not in text.partition("{")[0]:
        behind = text[closing(text, text.index("{")) :]
        return frozenset({kind[2], *_WORD.findall(behind), *(words if kind["enum"] is not None else ())})
    parts = (re.split(r"[=\[{(;]", part, maxsplit=1)[0] for part in split(text))
    return frozenset(word for part in parts for word in _WORD.findall(part)[-1:])
