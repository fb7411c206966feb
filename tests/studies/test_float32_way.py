"""Times of float32 products of which parts cannot represent all, by the clock of the host; and their table."""

import pytest

from studies.float32_way.measuring import CASES, IEEE, PARTS, measure
from studies.record import Measurement, Measurements
from studies.templates import block
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import find
from tilewright.kernels.kernel import Choice


def choice(name, **values):
    kernel = find(name)
    return Choice(kernel, kernel.config(values))


@pytest.mark.further
@pytest.mark.parametrize("layout", ["NN", "NT"])
def test_every_way_is_timed_and_float32_is_near_float64(layout, monkeypatch):
    engine = EmulatorEngine()
    started = []
    start = engine.start
    monkeypatch.setattr(engine, "start", lambda *given, **named: (started.append(given[1]), start(*given, **named)))
    parts = choice("gemm_bf16x6", BM=128, BN=64, STAGES=2)
    found = measure(engine, 96, layout, parts, choice("split_k"), samples=2)
    assert all(one.what == {"size": 96, "layout": layout} and one.us > 0 for one in found)
    assert {one.way for one in found} == {*CASES, IEEE, PARTS}
    assert {one.way for one in found if one.error is not None} == set(CASES)
    assert all(0 < one.error < 1e-6 for one in found if one.way in CASES)
    assert len({pointers.d for pointers in started}) == len(CASES) + 2, "each way has results of its own"


def test_the_table_divides_what_it_prints():
    environment = {"gpu": {"name": "NVIDIA H200"}, "date": "2026-11-25T01:00:00", "revision": "abc1234"}
    us = dict.fromkeys(CASES, 1382.34) | {next(iter(CASES)): 375.57, IEEE: 329.75, PARTS: 167.67}
    product = [Measurement(what={"size": 2048, "layout": "NT"}, way=way, us=of) for way, of in us.items()]
    run = Measurements(environment=environment, measurements=product)
    lines = block("float32_way/table.md.j2", "table", run=run).splitlines()
    others = " 1,382.3 / 329.8 = 4.19 |" * (len(CASES) - 1)
    assert lines[0] == "On an NVIDIA H200, 2026-11-25, revision abc1234:"
    assert lines[-1] == f"| 2048 | NT float32 | 167.7 | 375.6 / 329.8 = 1.14 |{others}"
