"""How much Python there is to read: lines that hold code, in the package and with what measures and writes its pages.

Blank lines, comments, docstrings and strings under attributes do not count, imports do. The bounds are what there is
today, rounded up: where code goes, lower them.
"""

import ast
import io
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE, STUDIES = ROOT / "src" / "tilewright", ROOT / "studies"
NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}
LARGEST = 10


@cache
def lines_with_code(text):
    """The number of lines of a source that hold code."""
    words = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    spans = [range(one.start[0], one.end[0] + 1) for one in tokens if one.type not in NO_CODE]
    in_words = {line for node in words for line in range(node.lineno, node.end_lineno + 1)}
    return len({line for span in spans for line in span} - in_words)


def counted(*folders):
    """Lines with code of each module in folders, the largest first."""
    found = {path: lines_with_code(path.read_text()) for folder in folders for path in folder.rglob("*.py")}
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def described(found):
    """The sum, and the modules that have most of it."""
    rooms = {}
    for path, count in found.items():
        room = path.relative_to(ROOT).parts[: 3 if PACKAGE in path.parents else 2]
        rooms["/".join(room)] = rooms.get("/".join(room), 0) + count
    listed = sorted(rooms.items(), key=lambda one: -one[1]) + [
        (str(path.relative_to(ROOT)), count) for path, count in list(found.items())[:LARGEST]
    ]
    return f"{sum(found.values())} lines with code; look at\n" + "\n".join(
        f"{count:6} {name}" for name, count in listed
    )


def test_what_counts():
    text = '"""Words."""\n\nimport os\n\n# a comment\n\nX = (\n    os,\n)\n"""Under\nan attribute."""\nY = """a\nb"""\n'
    assert lines_with_code(text) == 1 + 3 + 2


@pytest.mark.further
@pytest.mark.parametrize(
    ("folders", "bound"), [((PACKAGE,), 28_740), ((PACKAGE, STUDIES), 34_840)], ids=["package", "with studies"]
)
def test_there_is_no_more_code_than_there_was(folders, bound):
    found = counted(*folders)
    print(described(found))
    assert sum(found.values()) <= bound, f"more than {bound}: {described(found)}"
