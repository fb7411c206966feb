"""Picks that are no longer today's are marked in each table that has picks, and each table says where and when."""

import re

import pytest

from studies import templates
from studies.performance import page as performance
from studies.performance import part_products, picks
from studies.results import paths, runs
from studies.worklog import sources
from studies.worklog.facts import Facts
from tilewright.kernels import find
from tilewright.tools.bench.records import Run

NAIVE = find("naive")


def facts():
    return Facts(Facts.load_runs(), {})


def parts():
    return part_products.sections(part_products.load())["parts"]


TABLES = {
    "best": lambda: picks.every(Run.load(paths("picks")[0])),
    "cases": lambda: picks.chosen({path: Run.load(path) for path in paths("cases")[:2]}),
    "parts": parts,
    "end to end": lambda: performance.by_gpu(performance.each_call, runs("end_to_end")),
    "prepared": lambda: performance.prepared(runs("prepared")),
    "worklog: orders": lambda: sources.orders_of_factors(facts()),
}
"""Functions that make each table of the picks of `matmul`."""


def rows(text):
    """Rows of tables that are of one pick each."""
    return [row for row in text.splitlines() if re.match(r"\| .*\d+x\d+x\d+.* \|", row)]


@pytest.fixture(autouse=True)
def _checkout(request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)


@pytest.mark.parametrize("name", TABLES)
def test_every_row_is_marked_where_all_is_picked_otherwise(monkeypatch, name):
    monkeypatch.setattr(templates, "select", lambda *given, **named: (NAIVE, {"BLOCK_X": -1}))
    text = TABLES[name]()
    assert rows(text) and all("†" in row for row in rows(text))
    assert "today `matmul` picks" in text, "what the mark means"


@pytest.mark.parametrize("name", TABLES)
def test_no_row_is_marked_where_all_is_picked_as_it_was(monkeypatch, name):
    monkeypatch.setattr(templates, "recorded", lambda kernel, config: None)
    picked = type("Kernel", (), {"name": property(lambda self: Anything())})
    monkeypatch.setattr(templates, "select", lambda *given, **named: (picked(), None))
    text = TABLES[name]()
    assert rows(text) and "†" not in text


class Anything(str):
    """Equal to all names."""

    __slots__ = ()

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


@pytest.mark.parametrize("name", TABLES)
def test_each_table_says_where_and_when(name):
    assert re.search(r"H[12]00.*, 2026-\d\d-\d\d, (revision )?\w{7}", TABLES[name]())
