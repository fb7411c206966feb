"""Kernels that take tensor maps by pointer, which compilers get as kernels that take them by value.

What makes a map, on a GPU and here, is what fills in parameters; the pointer then leads to the parameter:

    __global__ void my_gemm(const CUtensorMap* map) {
    __global__ void my_gemm(const __grid_constant__ CUtensorMap map_of_map) { const CUtensorMap* map = &map_of_map;
"""

from tilewright.kernels.map_words import TYPE
from tilewright.kernels.signature import argument, heads, split, without_comments


def with_maps_by_value(text: str) -> str:
    """A source whose kernels take tensor maps by value alone; its lines stay where they are."""
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
                changes.append((at, at + len(part), f"{lines} const __grid_constant__ {TYPE} map_of_{name}"))
                pointers += f" {'const ' * one.const}{TYPE}* {one.name} = ({TYPE}*)&map_of_{one.name};"
            at += len(part)
        if head.body and pointers:
            changes.append((head.body, head.body, pointers))
    for begin, end, new in reversed(changes):
        text = text[:begin] + new + text[end:]
    return text
