"""Every link of the documentation leads to a file, and to a heading where it names one."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = (ROOT, ROOT / "docs", ROOT / "docs/tools", ROOT / "docs/worklog")
PAGES = [path for folder in FOLDERS for path in folder.glob("*.md")]


def words(page):
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page):
    """Ends of links to a page's headings."""
    heads = re.findall(r"^#+ (.*)$", words(page), re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head) for head in heads)
    return {re.sub(r"[^\w\- ]", "", head).lower().replace(" ", "-") for head in plain}


def dead(page):
    """The links of a page that lead nowhere."""
    for link in re.findall(r"\]\(([^)\s]+)\)", words(page)):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if "://" not in link and (not target.exists() or (anchor and anchor not in anchors(target))):
            yield link


def test_no_link_leads_nowhere():
    assert {page.name: found for page in PAGES if (found := list(dead(page)))} == {}


def test_a_dead_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A `head`: here\n[a](#a-head-here) [b](#gone) [c](none.md) [d](https://example.com/#x)\n")
    assert list(dead(page)) == ["#gone", "none.md"]
