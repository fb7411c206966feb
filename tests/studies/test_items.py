"""The table of what the sources describe has every item, each with a place that exists, and says what is not whole."""

import re
from pathlib import Path

import pytest
from tests.test_links import dead

PAGE = Path(__file__).parents[2] / "docs/worklog/items.md"
ITEMS = 86
OF_OTHER_GPUS = {37, 38, 71}
"""Items that need a GPU, or a compiler, that the records are not of."""
UNFINISHED: set[int] = set()
"""Items that could be whole here and are not: take out what becomes whole."""


def rows(text):
    """Number, source, item, place and verdict of each row."""
    found = re.findall(r"^\| (\d+) \| (.*) \|$", text, re.MULTILINE)
    return {int(number): rest.split(" | ") for number, rest in found}


def test_every_item_has_a_row_with_a_link():
    found = rows(PAGE.read_text())
    assert list(found) == list(range(1, ITEMS + 1))
    assert [number for number, cells in found.items() if len(cells) != 4 or "](" not in cells[2]] == []


def test_every_place_exists():
    assert list(dead(PAGE)) == []


def test_items_that_are_not_whole_are_known():
    assert {number for number, cells in rows(PAGE.read_text()).items() if cells[3] != "whole"} == (
        OF_OTHER_GPUS | UNFINISHED
    )


@pytest.mark.parametrize("row", ["| 87 | S3 | more | [page](none.md) | whole |"])
def test_a_row_is_read_and_its_dead_link_found(tmp_path, row):
    page = tmp_path / "items.md"
    page.write_text(row)
    assert rows(row) == {87: ["S3", "more", "[page](none.md)", "whole"]}
    assert list(dead(page)) == ["none.md"]
