"""Draws faults of host code by a seed: operators change one place of a Python source each, as an author might err."""

import ast
import itertools
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tilewright.core.files import write_whole

from .faults import DRAWN_PATH
from .planting import Sources, texts

_EACH = 4
"""Faults of each operator."""

_MOST = 40
"""Faults of an operator that are looked at, at most, until enough of them have an effect."""

_SWAPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
_ENDS = (ast.Raise, ast.Return, ast.Continue, ast.Break)
_KEYS = ("key", "kind", "signature", "identity")
_CLEANUPS = (
    *("cancel", "cleanup", "clear", "close", "drop", "end", "flush", "forget", "free", "join", "kill"),
    *("release", "remove", "rmtree", "settle", "shutdown", "stop", "terminate", "unlink"),
)
_DRIVER = re.compile(r"^(?:from|import) (?:cuda\.core|cuda\.bindings\.driver|nvmath|pynvml|triton)\b", re.MULTILINE)
"""Imports of modules that talk to a GPU's driver: most of them run on a GPU alone, where tests/gpu guards them."""


class Site(NamedTuple):
    """A place that an operator changes."""

    operator: str
    begin: int
    """Offset of the text that is replaced, in characters."""
    end: int
    instead: str


class Drawn(NamedTuple):
    """A change, with as many lines around it as make it the only one."""

    operator: str
    text: str
    instead: str


class _Text:
    """A source, and where nodes of its tree lie in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        lines = text.splitlines(keepends=True)
        self._lines = lines
        self._begins = [0]
        for line in lines:
            self._begins.append(self._begins[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        """Where a place is that Python's parser tells, whose columns are bytes."""
        return self._begins[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def begin(self, node: ast.AST) -> int:
        return self.at(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        return self.at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def of(self, node: ast.AST) -> str:
        return self.text[self.begin(node) : self.end(node)]


def sites_of(text: str) -> Iterator[Site]:
    """All places of a source that an operator changes, by operator and then in the order of the source."""
    tree, source = ast.parse(text), _Text(text)
    nodes = list(_executed(tree))
    for operator in _OPERATORS:
        for node in nodes:
            for begin, end, instead in operator(source, node):
                yield Site(operator.__name__.strip("_"), begin, end, instead)


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes whose change may do anything to a program: no annotations, messages and imports for types alone."""
    if isinstance(node, ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _executed(child)


_Change = tuple[int, int, str]


def _comparison(source: _Text, node: ast.AST) -> Iterator[_Change]:
    """Changes of a comparison of two values: one step off, or the opposite."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        begin, end = source.end(node.left), source.begin(node.comparators[0])
        between = source.text[begin:end]
        if between.strip() in _SWAPPED:
            yield begin, end, between.replace(between.strip(), _SWAPPED[between.strip()])


def _branch(source: _Text, node: ast.AST) -> Iterator[_Change]:
    """A condition that is the opposite; of one that ends what is done, as checks are, one that never holds."""
    if isinstance(node, ast.If | ast.IfExp):
        begin, end = source.begin(node.test), source.end(node.test)
        ends = isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], _ENDS)
        yield begin, end, "False" if ends else f"not ({source.text[begin:end]})"


def _argument(source: _Text, node: ast.AST) -> Iterator[_Change]:
    """A call without a named argument, or with its first two exchanged."""
    if not isinstance(node, ast.Call):
        return
    every = [*node.args, *[keyword for keyword in node.keywords if keyword.arg]]
    for keyword in node.keywords:
        if keyword.arg and len(every) > 1 and (place := every.index(keyword)):
            yield source.end(every[place - 1]), source.end(keyword), ""
    plain = (ast.Name, ast.Attribute)
    if len(node.args) >= 2 and all(isinstance(one, plain) for one in node.args[:2]):
        first, second = node.args[:2]
        begin, middle, end = (
            source.begin(first),
            source.text[source.end(first) : source.begin(second)],
            source.end(second),
        )
        yield begin, end, f"{source.of(second)}{middle}{source.of(first)}"


def _key(source: _Text, node: ast.AST) -> Iterator[_Change]:
    """Changes that drop a part of the key that something is known, cached or sorted by."""
    parts: list[ast.expr] = []
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
        if any(isinstance(to, ast.Name) and to.id.endswith(_KEYS) for to in node.targets):
            parts = node.value.elts
    elif isinstance(node, ast.FunctionDef) and node.name.endswith(_KEYS):
        last = node.body[-1]
        if isinstance(last, ast.Return) and isinstance(last.value, ast.Tuple):
            parts = last.value.elts
    elif isinstance(node, ast.DictComp) and isinstance(node.key, ast.Tuple):
        parts = node.key.elts
    elif isinstance(node, ast.keyword) and node.arg == "key" and isinstance(node.value, ast.Lambda):
        parts = node.value.body.elts if isinstance(node.value.body, ast.Tuple) else []
    elif isinstance(node, ast.Call) and (name := _called(node)):
        if name.endswith("key"):
            parts = list(node.args)
        elif name in ("get", "setdefault") and node.args and isinstance(node.args[0], ast.Tuple):
            parts = node.args[0].elts
    for before, part in itertools.pairwise(parts):
        yield source.end(before), source.end(part), ""


def _cleanup(source: _Text, node: ast.AST) -> Iterator[_Change]:
    """Nothing in the place of what ends, frees or removes something."""
    if isinstance(node, ast.Try):
        for statement in node.finalbody:
            yield source.begin(statement), source.end(statement), "pass"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _called(node.value).strip("_") in _CLEANUPS:
        yield source.begin(node), source.end(node), "pass"


def _called(call: ast.Call) -> str:
    of = call.func
    return of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""


_OPERATORS: tuple[Callable[[_Text, ast.AST], Iterator[_Change]], ...] = (
    _comparison,
    _branch,
    _argument,
    _key,
    _cleanup,
)


def drawn(checkout: Path, seed: int) -> dict[str, list[Drawn]]:
    """Every change that there is, by operator, in an order that follows from the seed."""
    sources = Sources(checkout)
    of_file = {
        path: text for path, text in texts(checkout).items() if path.suffix == ".py" and not _DRIVER.search(text)
    }
    found: dict[str, list[tuple[str, Site]]] = {}
    for text in of_file.values():
        for site in sites_of(text):
            found.setdefault(site.operator, []).append((text, site))
    chance = random.Random(seed)
    return {
        operator: [_alone(sources, text, site) for text, site in chance.sample(sites, len(sites))[:_MOST]]
        for operator, sites in found.items()
    }


def _alone(sources: Sources, text: str, site: Site) -> Drawn:
    """A change of whole lines, with those before it that it takes to be the only ones."""
    begin = text.rfind("\n", 0, site.begin) + 1
    end = text.find("\n", site.end) + 1 or len(text)
    while sources.count(text[begin:end]) > 1 and begin > 0:
        begin = text.rfind("\n", 0, begin - 1) + 1
    return Drawn(site.operator, text[begin:end], text[begin : site.begin] + site.instead + text[site.end : end])


def draw(checkout: Path, seed: int, path: Path = DRAWN_PATH) -> None:
    """Write what is drawn: of each operator as many as there are to be, besides those that are known to have no effect.

    What the file says of the latter stays, so that others come in their places.

    Args:
        checkout: whose sources are changed.
        seed: that the order follows from.
        path: the file, which may be there.
    """
    known = json.loads(path.read_text())["faults"] if path.exists() else []
    reasons = {(one["text"], one["instead"]): one["no_effect"] for one in known if one.get("no_effect")}
    faults = []
    for operator, changes in drawn(checkout, seed).items():
        left = _EACH
        for number, change in enumerate(changes, 1):
            one = {"name": f"{operator} {number}", "text": change.text, "instead": change.instead}
            if reason := reasons.get((change.text, change.instead)):
                one["no_effect"] = reason
            else:
                left -= 1
            faults.append(one)
            if not left:
                break
    write_whole(path, (json.dumps({"seed": seed, "faults": faults}, indent=1) + "\n").encode())
