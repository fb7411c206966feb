"""Rung 4 with its loops the other way round: the same product, and what the page says of its code."""

from dataclasses import replace

import pytest

from studies.results import path
from studies.worklog import hoisting, sources
from tilewright.api.engines import resolve_engine
from tilewright.core.problem import Problem
from tilewright.kernels import find
from tilewright.tools.bench.measure import verify
from tilewright.tools.bench.verify import Operands, limit


def test_the_other_loop_computes_the_same_product(tmp_path):
    kernel = find("thread_tiled_1d")
    source = tmp_path / kernel.source.name
    source.write_text(hoisting.swapped(kernel.source.read_text()))
    assert source.read_text() != kernel.source.read_text()
    problem = Problem(70, 65, 33)
    other = replace(kernel, source=source)
    _, error = verify(resolve_engine("emulator"), other, other.config(), Operands.draw(problem))
    assert error <= limit(problem)


@pytest.mark.further
def test_the_committed_counts_are_those_of_the_compiler(request):
    loops = hoisting.compiled()
    assert sources.SourceCounts.load(request.config.rootpath / path("sources")).loops == loops
    assert loops.as_written.loads == loops.swapped.loads
    assert f"| k inside | {loops.swapped.loads} | {loops.swapped.ffmas} |" in hoisting.markdown(loops)


def test_the_page_shows_the_loop_as_it_is_compiled():
    shown = hoisting.code().splitlines()[1:-1]
    compiled = hoisting.swapped(find("thread_tiled_1d").source.read_text())
    assert all(line.strip() in compiled for line in shown)
