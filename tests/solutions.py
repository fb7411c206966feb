"""Solutions of exercises, as pages of docs/worklog/solutions have them: words, and blocks of changes to a source."""

import re
from pathlib import Path

SOLUTIONS = Path(__file__).parents[1] / "docs/worklog/solutions"


def changes(page):
    """The changes that a page prints, as (name of the file, hunks), in their order."""
    blocks = re.findall(r"^```diff\n(.*?)^```", (SOLUTIONS / page).read_text(), re.DOTALL | re.MULTILINE)
    parts = [re.split(r"^@@.*\n", block, flags=re.MULTILINE) for block in blocks]
    return [(re.search(r"^\+\+\+ (?:b/)?(.+)", head, re.MULTILINE)[1], hunks) for head, *hunks in parts]


def applied(text, hunks):
    """A source with changes, the lines of each of which are there once."""
    for hunk in hunks:
        lines = hunk.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
        assert text.count(old) == 1, hunk
        text = text.replace(old, new)
    return text
