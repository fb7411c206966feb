"""Kernels that take tensor maps by pointer, which compilers get as kernels that take them by value.

What makes a map, on a GPU and here, is what fills in parameters; the pointer then leads to the parameter:

    __global__ void my_gemm(const CUtensorMap* map) {
    __global__ void my_gemm(const __grid_constant__ CUtensorMap map_of_map) { const CUtensorMap* map = &map_of_map;

Several behind one pointer are a parameter that is an array of them.
"""

from collections.abc import Collection

from tilewright.kernels.map_words import MAPS, TYPE
from tilewright.kernels.signature import argument, heads, split, without_comments

ARRAY = "template <typename Map, int COUNT> struct tilewright_maps { Map of[COUNT]; };\n"
"""What is to be ahead of sources with several maps behind a pointer."""


def with_maps_by_value(text: str, arrays: Collection[str] = ()) -> str:
    """A source whose kernels take tensor maps by value alone; its lines stay where they are.

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
    for begin, end, new in reversed(changes):
        text = text[:begin] + new + text[end:]
    return text
