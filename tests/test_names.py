"""A class has a name of its own in the package, underscores ignored, so that a name says which is meant."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import tilewright

SHARED = {
    *("Case", "Copy", "Division", "Group", "Instruction", "Job"),
    *("Kind", "Matrix", "Measured", "Needs", "Operand"),
    *("Operands", "Parameter", "Plan", "Point", "Product", "Program"),
    *("Progress", "Record", "Request", "Roofline", "Row", "Sequence", "Shape", "Sizes"),
    *("Source", "Staging", "Step", "Tile", "Work"),
}
"""Names of more than one class, as yet: the list only shrinks."""


@pytest.mark.further
def test_no_two_classes_share_a_name():
    names = Counter(
        node.name.strip("_")
        for path in Path(tilewright.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    shared = {name for name, count in names.items() if count > 1}
    assert shared - SHARED == set(), "two classes have one name"
    assert SHARED - shared == set(), "take these from the list"
