"""Grouped products next to PyTorch's: on the CPU, with times that a test says."""

import pytest

from studies.grouped import measuring as grouped
from studies.grouped.measuring import LAYERS, LOOP, OURS, THEIRS, Layer, measure, sizes_of
from studies.record import Measurements
from studies.templates import block
from tilewright.core.errors import EngineUnavailableError

torch = pytest.importorskip("torch")

LAYER = Layer("small", 5, 24, 32)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
@pytest.mark.parametrize("rows", [3, *grouped.ROWS])
def test_all_rows_belong_to_groups_and_few_of_these_have_most(layer, rows):
    even, skewed = (sizes_of(spread, rows, layer.groups) for spread in grouped.SPREADS)
    for sizes in (even, skewed):
        assert (len(sizes), sum(sizes), min(sizes) >= 0) == (layer.groups, rows, True)
    assert max(even) - min(even) <= 1
    if rows > 1000:
        assert max(skewed) > 2 * rows / layer.groups > 4 * min(skewed)


def timed(calls):
    for call in calls:
        call()
    return [10.0 * (number + 1) for number in range(len(calls))]


def run(monkeypatch, rows=40, change=None):
    monkeypatch.setattr("tilewright.api.call.cuda_unavailable", lambda: "a test says so")
    torch.manual_seed(0)
    a, b = torch.randn(rows, LAYER.k).bfloat16(), torch.randn(LAYER.groups, LAYER.n, LAYER.k).bfloat16().mT
    if change:
        real = grouped.grouped_matmul
        monkeypatch.setattr(grouped, "grouped_matmul", lambda *of, **named: change(real(*of, **named)))
    return measure(torch, LAYER, a, b, "skewed", timed, lambda calls: [5.0, 7.0], presets=False)


def test_ways_are_verified_and_timed_on_the_same_tensors(monkeypatch):
    found = run(monkeypatch)
    assert [one.way for one in found] == [OURS, THEIRS, LOOP]
    assert [one.us for one in found] == [10.0, 20.0, 30.0]
    assert [one.facts["host_us"] for one in found] == [5.0, 7.0, None]
    assert {one.what["layout"] for one in found} == {"NT"}
    assert found[0].facts["tflops"] == pytest.approx(2 * 40 * 24 * 32 / 10e-6 / 1e12)
    assert all(0 < one.error < one.limit and one.right for one in found)


@pytest.mark.parametrize("change", [lambda result: result * 1.1, lambda result: result * torch.nan], ids=["off", "nan"])
def test_a_wrong_result_is_no_record_that_looks_right(monkeypatch, change):
    ours, theirs, _ = run(monkeypatch, change=change)
    assert not ours.right and theirs.right
    assert "WRONG" in str(ours) and "WRONG" not in str(theirs)


def test_without_a_gpu_it_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(EngineUnavailableError, match="the comparison needs a GPU"):
        next(grouped.measurements(None, 1, presets=False))


def test_a_page_shows_what_was_measured(monkeypatch):
    facts = {"gpu": {"name": "NVIDIA H200"}, "date": "2026-11-25T01:00:00", "revision": "abc1234"}
    measured = Measurements(environment=facts, measurements=run(monkeypatch))
    shown = block("grouped/table.md.j2", "table", run=measured)
    assert "(NVIDIA H200, 2026-11-25, revision abc1234)" in shown
    assert (
        shown.splitlines()[-1] == "| small, 24 x 32 | 5 | 40 | skewed | 20.00 / 10.00 = 2.00 | 30.00 / 10.00 = 3.00 |"
    )
