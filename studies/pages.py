"""Pages of docs/ with sections that are made: the text between `<!-- NAME -->` and `<!-- end NAME -->`."""

from pathlib import Path

from tilewright.core.files import write_whole


def redraw(page: Path, sections: dict[str, str]) -> None:
    """Fill a page's sections in, and replace its file as a whole.

    Raises:
        OSError: the page cannot be read or written; it is left as it was.
    """
    write_whole(page, fill(page.read_text(encoding="utf-8"), sections).encode())


def fill(page: str, sections: dict[str, str]) -> str:
    """The page with the text between its markers replaced by the sections of their names."""
    for name, text in sections.items():
        before, found, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- end {name} -->")
        if found and end:
            body = f"\n{text}\n\n" if text else "\n"
            page = f"{before}{found}{body}{end}{after}"
    return page
