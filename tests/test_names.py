"""A class has a name of its own in the package, underscores ignored, so that a name says which is meant."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import tilewright


@pytest.mark.further
def test_no_two_classes_share_a_name():
    names = Counter(
        node.name.strip("_")
        for path in Path(tilewright.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in names.items() if count > 1} == set(), "two classes have one name"
