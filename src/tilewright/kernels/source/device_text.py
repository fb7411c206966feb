"""Text of a user's source for compilers: the code that runs on the GPU, with the values that are asked for."""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

from tilewright.kernels.constants import constants
from tilewright.kernels.source.host_code import without_host_code
from tilewright.kernels.source.map_words import MAPS, TYPE
from tilewright.kernels.source.signature import argument, edited, heads, split, without_comments

_ARRAY = "template <typename Map, int COUNT> struct tilewright_maps { Map of[COUNT]; };\n"
"""A line ahead of sources with several maps behind a pointer."""


class DeviceText(NamedTuple):
    """A source's text, and lines that are to be ahead of it and behind it."""

    ahead: str
    text: str
    behind: str


def device_text(text: str, macros: Mapping[str, int | str]) -> DeviceText:
    """A source's text for these macros; its lines stay where they are.

    Left out is what only the host runs (`without_host_code`); tensor maps come by value (`with_maps_by_value`). The
    macros are #define lines ahead of it, but for those that the source has as constant variables. The values that the
    source itself gives them, as in `#define TS 16` or `constexpr int TS = 16;`, are replaced. Behind it the compiler is
    asked whether a header defines one anew.
    """
    arrays = frozenset(name.removeprefix(MAPS) for name in macros if name.startswith(MAPS))
    text = _on_gpu(text, arrays)
    own = [one for one in constants(without_comments(text)) if one.name in macros] if macros else []
    text = edited(text, ((one.begin, one.end, f"{'' if one.value else ' '}{macros[one.name]}") for one in own))
    variables = {one.name for one in own if not one.macro}
    defined = {name: value for name, value in sorted(macros.items()) if name not in variables}
    ahead = "".join(f"#define {name} {value}\n" for name, value in defined.items())
    asked = (f"\n{_question(name, value)}" for name, value in defined.items() if isinstance(value, int))
    return DeviceText(ahead + _ARRAY if arrays else ahead, text, "".join(asked))


@lru_cache
def _on_gpu(text: str, arrays: frozenset[str]) -> str:
    return with_maps_by_value(without_host_code(text), arrays)


def _question(name: str, value: int) -> str:
    return (
        f"#if defined({name}) && ({name} + 0) != {value}\n"
        f'#error "{name}={value} was asked for, and a header of the source defines {name} anew"\n#endif'
    )


def with_maps_by_value(text: str, arrays: Collection[str] = ()) -> str:
    """A source whose kernels take tensor maps by value alone; its lines stay where they are.

    What makes a map, on a GPU and here, is what fills in parameters; the pointer then leads to the parameter:

        __global__ void my_gemm(const CUtensorMap* map) {
        __global__ void my_gemm(const __grid_constant__ CUtensorMap map_of_map) { const CUtensorMap* map = &map_of_map;

    Several behind one pointer are a parameter that is an array of them.

    arrays: the pointers that lead to several maps. How many, macros say (`map_words.counts`).
    """
    if TYPE not in text:
        return text
    changes: list[tuple[int, int, str]] = []
    code = without_comments(text)
    for head in heads(code):
        at, pointers = head.begin, ""
        for i, part in enumerate(split(head.parameters)):
            at, one = code.index(part, at), argument(part)
            if one.type == TYPE and one.pointer:
                lines, name = "\n" * part.count("\n"), one.name or i
                several = one.name in arrays
                kind = f"tilewright_maps<{TYPE}, {MAPS}{name}>" if several else TYPE
                changes.append((at, at + len(part), f"{lines} const __grid_constant__ {kind} map_of_{name}"))
                of = f"map_of_{one.name}.of" if several else f"&map_of_{one.name}"
                pointers += f" {'const ' * one.const}{TYPE}* {one.name} = ({TYPE}*){of};"
            at += len(part)
        if head.body and pointers:
            changes.append((head.body, head.body, pointers))
    return edited(text, changes)
