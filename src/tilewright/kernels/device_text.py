"""What compilers get of anybody's source: what runs on the GPU, with the values that are asked for."""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from tilewright.kernels.constants import constants
from tilewright.kernels.host_code import without_host_code
from tilewright.kernels.map_pointers import ARRAY, with_maps_by_value
from tilewright.kernels.map_words import MAPS
from tilewright.kernels.signature import without_comments


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
    for one in reversed(own):
        text = f"{text[: one.begin]}{'' if one.value else ' '}{macros[one.name]}{text[one.end :]}"
    variables = {one.name for one in own if not one.macro}
    defined = {name: value for name, value in sorted(macros.items()) if name not in variables}
    ahead = "".join(f"#define {name} {value}\n" for name, value in defined.items())
    asked = (f"\n{_question(name, value)}" for name, value in defined.items() if isinstance(value, int))
    return DeviceText(ahead + ARRAY if arrays else ahead, text, "".join(asked))


@lru_cache
def _on_gpu(text: str, arrays: frozenset[str]) -> str:
    return with_maps_by_value(without_host_code(text), arrays)


def _question(name: str, value: int) -> str:
    return (
        f"#if defined({name}) && ({name} + 0) != {value}\n"
        f'#error "{name}={value} was asked for, and a header of the source defines {name} anew"\n#endif'
    )
