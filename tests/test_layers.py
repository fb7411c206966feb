"""Imports run downward only, and no module has the name of a public function (docs/architecture.md)."""

import ast
import importlib
import pkgutil
import re
from functools import lru_cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import studies
import tilewright

ROOT = Path(tilewright.__file__).parent
STUDIES = Path(studies.__file__).parent

LAYERS = (
    *(
        "__main__",
        "cli",
        "report",
        "tuning",
        "bench",
        "distributed",
        "torch",
        "jax_op",
        "__init__",
        "front",
        "on_gpu",
        "on_host",
        "streamed",
        "bound",
    ),
    *(
        "calls",
        "arrays",
        "prepared",
        "select",
        "tables",
        "analysis",
        "engines",
        "kernels",
        "shapes",
        "tiles",
        "activations",
    ),
    *("errors", "core", "version"),
)
"""Modules and packages of `tilewright`, from above."""

WHERE_CALLS_ARE_RECORDED = {("arrays", "torch"), ("arrays", "jax_op"), ("front", "torch")}
"""Upward, in functions: what a library records goes to its operator, which stands above all that a plain call needs."""


class Import(NamedTuple):
    """An import of one module of the package by another, each by its path from the package on."""

    by: tuple[str, ...]
    of: tuple[str, ...]
    in_function: bool


def names_imported(path):
    """Dotted names that a module imports when it runs, not those for type checkers; and whether a function does so."""
    found = []

    def visit(node, in_function):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{one.name}" for one in node.names]
        found.extend((name, in_function) for name in names)
        for child in ast.iter_child_nodes(node):
            visit(child, in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    visit(ast.parse(path.read_text()), False)
    return found


def imports_of(path):
    """Imports of a module of the package that are of the package."""
    by = path.relative_to(ROOT).with_suffix("").parts
    names = [(name.split("."), in_function) for name, in_function in names_imported(path)]
    return [
        Import(by, module_of(parts), in_function) for (package, *parts), in_function in names if package == "tilewright"
    ]


def module_of(parts):
    """The module that a dotted name names, or that what it names is in."""
    for length in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:length])
        if path.with_suffix(".py").is_file():
            return tuple(parts[:length])
        if path.is_dir():
            return (*parts[:length], "__init__")
    return ("__init__",)


@lru_cache
def imports():
    """All imports of the package's modules."""
    return [one for path in ROOT.rglob("*.py") for one in imports_of(path)]


def test_every_part_has_a_layer():
    parts = {path.stem for path in ROOT.glob("*.py")} | {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert sorted(parts) == sorted(LAYERS)


@pytest.mark.further
def test_imports_run_downward():
    assert len(imports()) > 500
    upward = {one for one in imports() if LAYERS.index(one.of[0]) < LAYERS.index(one.by[0])}
    assert {one for one in upward if not one.in_function} == set()
    assert {(one.by[0], one.of[0]) for one in upward} == WHERE_CALLS_ARE_RECORDED


def test_no_modules_import_each_other():
    needs = {}
    for one in imports():
        if not one.in_function and one.of != one.by:
            needs.setdefault(one.by, set()).add(one.of)
    TopologicalSorter(needs).prepare()  # raises CycleError, which names them


@pytest.mark.further
def test_the_package_does_not_import_studies():
    by_package = {name for path in ROOT.rglob("*.py") for name, _ in names_imported(path)}
    by_studies = {name for path in STUDIES.rglob("*.py") for name, _ in names_imported(path)}
    assert "studies" not in {name.partition(".")[0] for name in by_package}
    assert {"studies", "tilewright"} <= {name.partition(".")[0] for name in by_studies}


def test_only_one_module_knows_where_records_are():
    """`studies.results`, which has names of files in the folder."""
    named = re.compile(r"results/\w")
    assert named.search((STUDIES.parent / "CONTRIBUTING.md").read_text())
    modules = [*ROOT.rglob("*.py"), *STUDIES.rglob("*.py")]
    assert [str(path) for path in modules if named.search(path.read_text())] == []


@pytest.mark.parametrize("package", ["tilewright", "tilewright.torch"])
def test_no_module_has_the_name_of_a_public_function(package):
    if package.endswith("torch"):
        pytest.importorskip("torch")
    of = importlib.import_module(package)
    assert of.__all__
    assert not {one.name for one in pkgutil.iter_modules(of.__path__)} & set(of.__all__)
