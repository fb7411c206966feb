"""Which subscripts that GCC's `-fsanitize=bounds` checks are faults, and the arrays as the source has them.

The compiler says of each check where it is, and tells no local array from one in shared memory. There kernels walk over
the rows of an array by the last subscript, as in `tile[0][i]`, and the checker sees the access itself.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from tilewright.kernels.source.signature import without_comments

_WORD = r"\t\.(?:long|4byte|word)\t"
_POINTER = r"\t\.(?:quad|xword|8byte|dc\.a)\t"
_RECORD = re.compile(
    rf"^(?P<head>\.Lubsan_data\d+:\n{_POINTER}(?P<file>\.LC\d+)\n{_WORD}(?P<line>\d+)\n{_WORD}(?P<column>\d+)\n"
    rf"{_POINTER}\.Lubsan_type\d+\n{_POINTER})\.Lubsan_type\d+$",
    re.MULTILINE,
)
_STRING = re.compile(r'^(\.LC\d+):\n\t\.string\t"(.*)"$', re.MULTILINE)
_SHARED = re.compile(r"\b(?:__shared__|__constant__)\b[^;{}]*")
_NAME = re.compile(r"[A-Za-z_]\w*$")
_OPENS = {"]": "[", ")": "("}


def with_arrays(assembly: str, texts: Mapping[str, str], left_out: Iterable[Path]) -> str:
    """Assembly in which each check of a subscript has the array's text instead of the index's type; null where what it
    finds is no fault.

    Args:
        assembly: as GCC writes it.
        texts: of the files that are compiled, where they lie nowhere under the names that it has.
        left_out: folders whose files are left out.
    """
    files = dict(_STRING.findall(assembly))
    folders = set(left_out)
    code = {name: without_comments(text) for name, text in texts.items()}
    shared: set[str] = set()
    strings: dict[str, str] = {}

    def read(name: str) -> str:
        if name in code:
            return code[name]
        path = Path(name)
        return "" if path.parent in folders or not path.is_file() else _read(path)

    records = list(_RECORD.finditer(assembly))
    for text in {*code, *(files.get(record["file"], "") for record in records)}:
        for declaration in _SHARED.findall(read(text)):
            shared.update(re.findall(r"\w+", declaration))

    def judged(record: re.Match[str]) -> str:
        text = read(files.get(record["file"], ""))
        array = _array(text, int(record["line"]), int(record["column"]), shared)
        return record["head"] + (strings.setdefault(array, f".Lsubscripted{len(strings)}") if array else "0")

    assembly = _RECORD.sub(judged, assembly)
    data = "".join(f'{label}:\n\t.string\t"{array}"\n' for array, label in strings.items())
    return f"{assembly}\t.section\t.rodata\n{data}" if data else assembly


@lru_cache(maxsize=256)
def _read(path: Path) -> str:
    return without_comments(path.read_text(encoding="utf-8", errors="replace"))


def _array(text: str, line: int, column: int, shared: set[str]) -> str:
    """The array whose subscript ends at this place, or in a template begins; '' where it is in shared memory or may be,
    or is not understood."""
    lines = text.split("\n", line)
    bracket = lines[line - 1][column - 1 : column] if len(lines) >= line else ""
    if bracket not in ("[", "]"):
        return ""
    text = "\n".join([*lines[: line - 1], lines[line - 1][:column]])
    end = len(text) - 1 if bracket == "[" else _opening(text, len(text) - 1)
    begin = end
    while begin > 0:
        begin = len(text[:begin].rstrip())
        if begin and text[begin - 1] in _OPENS:
            begin = _opening(text, begin - 1)
        elif name := _NAME.search(text, text.rfind("\n", 0, begin) + 1, begin):
            before = text[: name.start()].rstrip()
            begin = name.start()
            access = next((one for one in (".", "->", "::") if before.endswith(one)), None)
            if access is None:
                break
            begin = len(before) - len(access)
        else:
            return ""
    array = " ".join(text[begin:end].split())
    root = re.match(r"\w*", array)
    if root is None or not root[0] or root[0] in shared or '"' in array or "\\" in array:
        return ""
    row = array.endswith("]")  # of an array of arrays
    return "" if row and "->" in array else array


def _opening(text: str, closing: int) -> int:
    """Where the bracket opens that closes here; 0 where it does not."""
    last = text[closing]
    depth = 0
    for at in range(closing, -1, -1):
        if text[at] == last:
            depth += 1
        elif text[at] == _OPENS[last]:
            depth -= 1
            if depth == 0:
                return at
    return 0
