"""Examples of CONTRIBUTING.md fit today's sources: its rung and its kernel work, lines that its type changes exist."""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tilewright.core.problem import Problem, Scalars
from tilewright.emulator.check import check
from tilewright.kernels import find
from tilewright.tools.bench.verify import Operands, limit

ROOT = Path(__file__).parents[1]


@cache
def blocks(language):
    """Texts of the blocks of code in a language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL | re.MULTILINE)


def hunks(diff):
    """The lines of each change, with their signs: another one begins behind lines that are added."""
    return [one for one in re.findall(r"(?:^[ -].*\n)*(?:^[+].*\n)*", diff, re.MULTILINE) if "\n+" in f"\n{one}"]


def side(hunk, signs):
    return "".join(re.findall(rf"^[{signs}](.*\n)", hunk, re.MULTILINE))


def applied(diff, text):
    """A text after a diff without numbers of lines, each of whose changes fits once."""
    for hunk in hunks(diff):
        assert text.count(side(hunk, " -")) == 1, hunk
        text = text.replace(side(hunk, " -"), side(hunk, " +"))
    return text


@pytest.mark.parametrize(
    ("number", "neighbour", "shape"), [(0, "coalesced", (131, 177, 45)), (1, "gemm_wmma", (131, 77, 205))]
)
def test_a_kernel_of_the_page_is_right_and_nothing_is_found(number, neighbour, shape, tmp_path):
    declared = {}
    exec(blocks("python")[number], declared)
    source = tmp_path / f"{declared['KERNEL'].name}.cu"
    source.write_text(applied(blocks("diff")[number], find(neighbour).source.read_text()))
    kernel = replace(declared["KERNEL"], source=source)
    problem = Problem(*shape, kernel.support.arithmetic())
    for overrides in ({}, *kernel.presets.values()):
        scalars = Scalars(0.75, -0.5)
        of = Operands.draw(problem, scalars)
        checked = check(kernel, kernel.config(overrides), problem, of.a, of.b, of.c, scalars)
        assert not checked.findings
        assert of.error(checked.result) <= limit(problem, kernel.support.precision)


def test_the_number_of_the_rung_is_that_of_none_in_the_record():
    """Whoever adds a rung has the example's number; the page is changed when the rung is measured."""
    record = json.loads((ROOT / "results/emulator/ladder.json").read_text())
    assert f"rung={max(one['rung'] for one in record['results']) + 1}," in blocks("python")[0]


def test_lines_that_an_element_type_changes_are_there():
    files = re.split(r"^--- (.*)\n", blocks("diff")[2], flags=re.MULTILINE)[1:]
    for path, diff in zip(files[::2], files[1::2], strict=True):
        for line in re.findall(r"^-(.*\n)", diff, re.MULTILINE):
            assert (ROOT / path).read_text().count(line) == 1, line
