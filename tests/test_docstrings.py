"""A docstring stands alone: who jumps to a definition reads what it is, and not a rest of the sentence before."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "studies", "tests")
LEANING = re.compile(r"\s*(Of|The same|Those|What)\b")


def leaning(text):
    """Lines of docstrings, those under attributes too, that begin with a word that leans on something else."""
    words = (
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return {one.lineno: begin[1] for one in words if (begin := LEANING.match(one.value))}


def test_what_counts():
    text = '"""Whatever."""\nX = 1\n"""Of X."""\nY = "Of"\n\n\ndef f():\n    """\n    The same.\n    """\n'
    assert leaning(text) == {3: "Of", 8: "The same"}


@pytest.mark.further
def test_docstrings_stand_alone():
    found = [
        f"{file.relative_to(ROOT)}:{line}: begins with {words!r}"
        for folder in FOLDERS
        for file in sorted((ROOT / folder).rglob("*.py"))
        for line, words in leaning(file.read_text()).items()
    ]
    assert not found, "say what it is, as a noun:\n" + "\n".join(found)
