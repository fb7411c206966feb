"""Headers next to a source: part of what its compiled code depends on."""

import re
from pathlib import Path

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_OF_EITHER_KIND = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)


def included(text: str, folder: Path, *folders: Path) -> list[tuple[str, str]]:
    """Names and texts of the headers that a source in this folder includes in quotes, and that these include, where
    they lie there. Others are the compiler's affair.

    folders: where the compiler looks too, for headers in quotes and in brackets.
    """
    pattern = _OF_EITHER_KIND if folders else _INCLUDE
    found: dict[Path, str] = {}
    waiting = [(text, folder)]
    while waiting:
        of, place = waiting.pop()
        for name in pattern.findall(of):
            header = next(filter(Path.is_file, (one / name for one in (place, folder, *folders))), None)
            if header is not None and header not in found:
                found[header] = header.read_text(encoding="utf-8", errors="replace")
                waiting.append((found[header], header.parent))
    return sorted(
        (str(header.relative_to(folder)) if header.is_relative_to(folder) else str(header), content)
        for header, content in found.items()
    )
