"""Headers next to a source: part of what its compiled code depends on."""

import re
from pathlib import Path

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


def included(text: str, folder: Path) -> list[tuple[str, str]]:
    """Names and texts of the headers that a source in this folder includes in quotes, and that these include, where
    they lie there. Others are the compiler's affair."""
    found: dict[Path, str] = {}
    waiting = [(text, folder)]
    while waiting:
        of, place = waiting.pop()
        for name in _INCLUDE.findall(of):
            for header in (place / name, folder / name):
                if header not in found and header.is_file():
                    found[header] = header.read_text(encoding="utf-8", errors="replace")
                    waiting.append((found[header], header.parent))
                    break
    return sorted(
        (str(header.relative_to(folder)) if header.is_relative_to(folder) else str(header), content)
        for header, content in found.items()
    )
