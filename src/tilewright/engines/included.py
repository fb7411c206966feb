"""Headers next to a source: part of what its compiled code depends on."""

import re
from collections.abc import Iterable
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
            for header in (one / name for one in (place, folder, *folders)):
                if header not in found and header.is_file():
                    found[header] = header.read_text(encoding="utf-8", errors="replace")
                    waiting.append((found[header], header.parent))
                    break
    return sorted(
        (str(header.relative_to(folder)) if header.is_relative_to(folder) else str(header), content)
        for header, content in found.items()
    )


def reaches(texts: Iterable[str], names: Iterable[str], folders: Iterable[Path]) -> bool:
    """Whether sources include one of these headers, in quotes or brackets, themselves or by way of these folders."""
    wanted, places = set(names), tuple(folders)
    waiting, seen = list(texts), set[str]()
    while waiting:
        for name in set(_OF_EITHER_KIND.findall(waiting.pop())) - seen:
            if name in wanted:
                return True
            seen.add(name)
            headers = (place / name for place in places)
            if (header := next((one for one in headers if one.is_file()), None)) is not None:
                waiting.append(header.read_text(encoding="utf-8"))
    return False
