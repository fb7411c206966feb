"""Names that a source gives to values of its own: whole numbers, as macros and constants, and types."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tilewright.core.errors import ConfigError
from tilewright.kernels.source.expressions import Expression

_KINDS = r"(?:unsigned|signed|short|int|long|uint|u?int\d+_t|size_t|bool|float|double|auto)"
_CONSTANT = re.compile(
    rf"\b(?:(?:static|inline|__device__)\s+)*(?:constexpr|const)\s+(?:(?:static|inline|constexpr|const)\s+)*{_KINDS}"
    rf"(?:\s+{_KINDS})*\s+(?:const\s+)?(?P<declared>\w+\s*=[^;{{}}]+);"
    r"|^[ \t]*#[ \t]*define[ \t]+(?P<macro>\w+)(?P<text>[ \t][^\n]*|)$",
    re.MULTILINE,
)
_DECLARED = re.compile(r"(\w+)\s*=\s*((?:[^,()]|\((?:[^()]|\([^()]*\))*\))+)(?:,|$)")


_ALIAS = re.compile(r"\btypedef\s+([\w\s]+?)\s+(\w+)\s*;|\busing\s+(\w+)\s*=\s*([\w\s]+?)\s*;")


class Constant(NamedTuple):
    """A name, and where its value is."""

    name: str
    value: str
    begin: int
    end: int
    macro: bool


def constants(code: str) -> Iterable[Constant]:
    """Constants of a source without comments, wherever they are: macros without parameters, and constant integers."""
    for found in _CONSTANT.finditer(code):
        if found["macro"]:
            yield _constant(found["macro"], found["text"], found.start("text"), macro=True)
            continue
        for one in _DECLARED.finditer(found["declared"]):
            yield _constant(one[1], one[2], found.start("declared") + one.start(2), macro=False)


def aliases(code: str) -> dict[str, str]:
    """Names of types that a source without comments declares, and the types, as in `typedef __nv_bfloat16 bf16;`."""
    return {one[2] or one[3]: one[1] or one[4] for one in _ALIAS.finditer(code)}


def _constant(name: str, text: str, begin: int, macro: bool) -> Constant:
    value = text.strip()
    begin += len(text) - len(text.lstrip()) if value else 0
    return Constant(name, value, begin, begin + len(value), macro)


def values_of(code: Iterable[str], given: Mapping[str, int | str]) -> dict[str, str]:
    """The values of constants as sources write them, by name, but of those that are defined in several ways.

    Args:
        code: of sources, without comments.
        given: values that replace those of the sources.
    """
    found: dict[str, set[str]] = {}
    for one in code:
        for constant in constants(one):
            found.setdefault(constant.name, set()).add(constant.value)
    unique = {name: values.pop() for name, values in found.items() if len(values) == 1}
    return {**unique, **{name: str(value) for name, value in given.items()}}


def whole(text: str, values: Mapping[str, str], within: frozenset[str] = frozenset()) -> int | None:
    """A positive whole number, as C++ works it out from such values; None where that is not understood.

    within: names that it must not follow from.
    """
    try:
        expression = Expression(re.sub(r"/+", "//", re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text)), "extent")
        found = {}
        for name in expression.names:
            known = name not in within and name in values
            value = whole(values[name], values, within | {name}) if known else None
            if value is None:
                return None
            found[name] = value
        return expression(found)
    except ConfigError:
        return None
