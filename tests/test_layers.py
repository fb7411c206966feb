"""Imports run downward only, through eight rooms without a circle, and no module has the name of a public function
(docs/architecture.md)."""

import ast
import importlib
import pkgutil
import re
from functools import lru_cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import studies
import tilewright

ROOT = Path(tilewright.__file__).parent
STUDIES = Path(studies.__file__).parent

ROOMS = ("core", "kernels", "runtime", "emulator", "select", "api", "frameworks", "tools")
"""Folders of `tilewright`, from below."""
FACADES = ("version", "errors", "torch", "distributed")
"""Modules next to them that hand out what lies below, under public names."""
MOST_ROOMS, MOST_FLOORS, LINES_OF_A_FACADE = 14, 8, 15

LOADERS = ("import_module", "__import__", "resolve_name")


def imported_by(path):
    """Dotted names that a module imports when it runs, those in functions and by text too, not those for type
    checkers."""
    found = []

    def visit(node):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.Import):
            found.extend(one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.extend(f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Call) and node.args and ast.unparse(node.func).rpartition(".")[2] in LOADERS:
            text = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
            found.append(str(getattr(text, "value", "")).rstrip("."))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text()))
    return found


def module_of(parts):
    """The module of the package that a dotted name names, or that what it names is in."""
    for length in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:length])
        if path.with_suffix(".py").is_file():
            return ".".join(parts[:length])
        if path.is_dir():
            return ".".join((*parts[:length], "__init__"))
    return "__init__"


@lru_cache
def imports():
    """Modules of the package, each by its path from the package on: what it imports of the package."""
    found = {}
    for path in ROOT.rglob("*.py"):
        by = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        names = [name.split(".") for name in imported_by(path)]
        found[by] = {module_of(parts) for package, *parts in names if package == "tilewright"} - {by}
    return found


def part(module):
    """The room or root module that a module is in."""
    return module.partition(".")[0]


def floors():
    """Rooms and root modules, each with how many are in the longest chain that it stands on."""
    needs = {part(by): set() for by in imports()}
    for by, of in imports().items():
        needs[part(by)] |= {part(one) for one in of} - {part(by)}
    found = {}
    for one in TopologicalSorter(needs).static_order():  # raises CycleError, which names them
        found[one] = 1 + max((found[below] for below in needs[one]), default=0)
    return found


def test_the_house_has_eight_rooms_and_facades():
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders == set(ROOMS)
    assert {path.stem for path in ROOT.glob("*.py")} == {"__init__", "__main__", *FACADES}
    for name in FACADES:
        text = (ROOT / f"{name}.py").read_text()
        assert len(text.splitlines()) <= LINES_OF_A_FACADE, name


def test_imports_run_downward():
    assert sum(map(len, imports().values())) > 500
    height = {name: number for number, name in enumerate(ROOMS)}
    upward = {
        (by, one)
        for by, of in imports().items()
        for one in of
        if part(by) in height and height.get(part(one), -1 if part(one) == "version" else len(ROOMS)) > height[part(by)]
    }
    assert upward == set()


def test_no_rooms_nor_modules_import_each_other():
    TopologicalSorter({by: of for by, of in imports().items() if not by.endswith("__init__")}).prepare()
    found = floors()
    print(f"{len(found)} rooms and modules at the root on {max(found.values())} floors: {found}")
    assert len(found) <= MOST_ROOMS
    assert max(found.values()) <= MOST_FLOORS


@pytest.mark.further
def test_the_package_does_not_import_studies():
    by_package = {name for path in ROOT.rglob("*.py") for name in imported_by(path)}
    by_studies = {name for path in STUDIES.rglob("*.py") for name in imported_by(path)}
    assert "studies" not in {name.partition(".")[0] for name in by_package}
    assert {"studies", "tilewright"} <= {name.partition(".")[0] for name in by_studies}


def test_only_one_module_knows_where_records_are():
    """`studies.results`, which has names of files in the folder."""
    named = re.compile(r"results/\w")
    assert named.search((STUDIES.parent / "CONTRIBUTING.md").read_text())
    modules = [*ROOT.rglob("*.py"), *STUDIES.rglob("*.py")]
    assert [str(path) for path in modules if named.search(path.read_text())] == []


def test_no_module_has_the_name_of_a_public_function():
    of = importlib.import_module("tilewright")
    assert of.__all__
    assert not {one.name for one in pkgutil.iter_modules(of.__path__)} & set(of.__all__)
