"""Makes integers of a source know their exact values (runtime/index.hpp), where unsigned ones may wrap on their way to
an address: variables and parameters of functions, casts, and the built-in indices of threads. Subscripts look at them.

No compiler tells of an index that a wrap was not meant: a sanitizer of unsigned integers finds every hash.
"""

import re
from collections.abc import Iterator

from tilewright.emulator.dynamic_shared import functions
from tilewright.kernels.source.signature import closing, edited, split, without_comments, without_directives

_TYPE = (
    r"(?:unsigned\s+long\s+long\s+int|unsigned\s+long\s+long|unsigned\s+long\s+int|unsigned\s+long|unsigned\s+int"
    r"|unsigned|uint|ulong|(?:std::)?uint32_t|(?:std::)?uint64_t|(?:std::)?size_t)"
)
_DECLARATION = re.compile(rf"(?P<const>const\s+)?\b(?P<type>{_TYPE})\s+(?P<name>[A-Za-z_]\w*)\s*(?P<end>=(?!=)|[;,])")
_NEXT = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*(?P<end>=(?!=)|[;,])")
_PARAMETER = re.compile(rf"\s*(?:const\s+)?{_TYPE}\s+(?:const\s+)?(?P<name>[A-Za-z_]\w*)\s*")
_CAST = re.compile(rf"(?P<before>\(|\bstatic_cast\s*<)\s*(?P<type>{_TYPE})\s*(?P<after>[)>])(?=\s*[\w(])")
_RETURNED = re.compile(rf"\b(?P<type>{_TYPE})\s+[A-Za-z_]\w*\s*$")
_RETURN = re.compile(r"\breturn\b(?=\s*[^\s;])")
_LAMBDA = re.compile(r"\[[\s&=,\w]*\]\s*[({]")
_CALL = re.compile(rf"(?<![\w:<])(?P<type>{_TYPE})\s*(?=\((?!\s*[*&]))")
_BUILT_IN = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*[xyz]\b")
_REPLACED = (
    (_CAST, r"\g<before>simt::Index<\g<type>>\g<after>"),
    (_CALL, r"simt::Index<\g<type>>"),
    (_BUILT_IN, r"simt::known(\g<0>)"),
)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define\b(?:\\\n|[^\n])*", re.MULTILINE)
_KEYWORD = re.compile(r"\b(?:return|auto|delete|new|operator|case|else|do)$")
_NAME = re.compile(r"[A-Za-z_]\w*")
_KEYWORDS = frozenset(("const", "int", "long", "char", "short", "operator"))

_Edit = tuple[int, int, str]
"""Where text begins and ends, and what is to be there instead."""


def with_exact_values(text: str) -> str:
    """A source whose integers know their exact values; lines stay where they are."""
    code = without_comments(text)
    edits: list[_Edit] = []
    for function in functions(without_directives(code)):
        edits += _Body(code, function.head, function.begin, function.end).edits()
    for define in _DEFINE.finditer(code):
        edits += _subscripts(code, define.start(), define.end(), None)
    return edited(text, edits)


class _Body:
    """A function's, and what in it is an index or may become one."""

    def __init__(self, code: str, head: str, begin: int, end: int) -> None:
        self._code, self._begin, self._end = code, begin, end
        self._head, self._list = head, _last_list(head)
        parameters = head[self._list + 1 : head.rfind(")")]
        declared = (_PARAMETER.fullmatch(one) for one in split(parameters))
        self._parameters = {one["name"] for one in declared if one and not self._changes(one["name"])}
        built_in = {"threadIdx", "blockIdx", "blockDim", "gridDim"}
        self._words = set(re.findall(r"\w+", parameters)) | built_in
        """Names whose values no compiler knows."""
        self._exact = self._parameters | built_in
        """Names that know their exact values."""

    def edits(self) -> list[_Edit]:
        """Changes to the source, in no order."""
        declared = list(self._declarations())
        taken = [(begin, end) for begin, end, _ in declared]
        found = declared + list(self._returns())
        found += list(_subscripts(self._code, self._begin, self._end, self._exact))
        for pattern, instead in _REPLACED:
            found += [
                (one.start(), one.end(), one.expand(instead))
                for one in pattern.finditer(self._code, self._begin, self._end)
            ]
        for name in self._parameters:
            uses = re.compile(rf"(?<![\w.:>&]){name}\b(?!\s*[(:])")
            found += [
                (one.start(), one.end(), f"simt::known({name})")
                for one in uses.finditer(self._code, self._begin, self._end)
                if not any(begin <= one.start() < end for begin, end in taken)
            ]
        return found

    def _returns(self) -> Iterator[_Edit]:
        """Changes to a function that returns an index."""
        kind = _RETURNED.search(self._head[: self._list])
        if kind is None or _LAMBDA.search(self._code, self._begin, self._end):
            return
        begin = self._begin - 1 - len(self._head)
        name = " ".join(kind["type"].split())
        yield begin + kind.start("type"), begin + kind.end("type"), f"simt::Index<{name}>"
        for one in _RETURN.finditer(self._code, self._begin, self._end):
            yield one.end(), one.end(), f" simt::Start<{name}>() ="

    def _changes(self, name: str) -> bool:
        """Whether a parameter is changed or its address is taken."""
        changes = rf"(?<![\w.>]){name}\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))|(?:\+\+|--|(?<!&)&)\s*{name}\b"
        return re.search(changes, self._code[self._begin : self._end]) is not None

    def _declarations(self) -> Iterator[_Edit]:
        for one in _DECLARATION.finditer(self._code, self._begin, self._end):
            before = self._code[self._begin : one.start()].rstrip()
            loop = before.endswith("(") and re.search(r"\bfor\s*\($", before)
            if one["name"] in _KEYWORDS or not (loop or before[-1:] in ("", ";", "{", "}")):
                continue
            kind = " ".join(one["type"].split())
            variables: list[tuple[str, int, int]] = []
            each: re.Match[str] | None = one
            while each is not None:
                end = self._end_of_value(each.end()) if each["end"] == "=" else each.end() - 1
                variables.append((each["name"], each.end() if each["end"] == "=" else -1, end))
                each = _NEXT.match(self._code, end + 1) if self._code[end : end + 1] == "," else None
            values = " ".join(self._code[begin:end] for _, begin, end in variables if begin >= 0)
            if not values or (one["const"] and self._words.isdisjoint(re.findall(r"\w+", values))):
                continue  # inline PTX may write it, or it may be an array's extent
            names = {name for name, _, _ in variables}
            self._words |= names
            self._exact |= names
            yield one.start("type"), one.end("type"), f"simt::Index<{kind}>"
            yield from ((begin, begin, f" simt::Start<{kind}>() =") for _, begin, _ in variables if begin >= 0)

    def _end_of_value(self, begin: int) -> int:
        depth = 0
        for position in range(begin, self._end):
            letter = self._code[position]
            if not depth and letter in ",;)":
                return position
            depth += (letter in "([{") - (letter in ")]}")
        return self._end


def _subscripts(code: str, begin: int, end: int, words: set[str] | None) -> Iterator[_Edit]:
    """Changes to subscripts in a part of a source that may have such a value.

    words: the names of these; None where any may be one.
    """
    opened: list[int] = []
    for position in range(begin, end):
        if code[position] == "[":
            before = code[begin:position].rstrip()
            follows = before[-1:].isalnum() or before[-1:] in ("_", "]", ")")
            opened.append(position + 1 if follows and not _KEYWORD.search(before) else 0)
        elif code[position] == "]" and opened:
            inner = code[(first := opened.pop()) : position]
            if not first or not inner.strip() or inner.lstrip().startswith("[") or inner.strip() in ("&", "="):
                continue
            if words is not None and "(" not in inner and words.isdisjoint(_NAME.findall(inner)):
                continue  # what calls, casts and macros make is not known
            yield first, first, "simt::subscript("
            yield position, position, ")"


def _last_list(head: str) -> int:
    """Where the last list in parentheses of a function's head begins."""
    position = found = 0
    while (opening := head.find("(", position)) >= 0:
        found, position = opening, closing(head, opening) + 1
    return found
