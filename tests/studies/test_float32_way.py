"""Times of float32 products of which terms cannot hold all, by the clock of the host; and their table."""

import pytest

from studies.float32_way import tables as float32_way
from studies.float32_way.measuring import CASES, IEEE, TERMS, Float32Way, measure
from tilewright.engines.emulator.engine import EmulatorEngine
from tilewright.kernels import find
from tilewright.kernels.spec import Choice


def choice(name, **values):
    kernel = find(name)
    return Choice(kernel, kernel.config(values))


@pytest.mark.parametrize("layout", ["NN", "NT"])
def test_every_way_is_timed_and_float32_is_near_float64(layout, monkeypatch):
    engine = EmulatorEngine()
    monkeypatch.setattr(engine, "cache_bytes", 2 * 4 * 96 * 96)
    started = []
    start = engine.start
    monkeypatch.setattr(engine, "start", lambda *given, **named: (started.append(given[1]), start(*given, **named)))
    terms = choice("gemm_bf16x6", BM=128, BN=64, STAGES=2)
    found = measure(engine, 96, layout, terms, choice("split_k"), samples=2)
    assert (found.size, found.layout) == (96, layout)
    assert set(found.us) == {*CASES, IEEE, TERMS}
    assert all(us > 0 for us in found.us.values())
    assert set(found.errors) == set(CASES)
    assert all(0 < error < 1e-6 for error in found.errors.values())
    assert len({pointers.d for pointers in started}) == 2, "two sets are more than twice the cache"


def test_the_table_divides_what_it_prints():
    environment = {"gpu": {"name": "NVIDIA H200"}}
    us = dict.fromkeys(CASES, 1382.34) | {next(iter(CASES)): 375.57, IEEE: 329.75, TERMS: 167.67}
    product = {"layout": "NT", "size": 2048, "us": us, "errors": dict.fromkeys(CASES, 1e-7)}
    run = Float32Way(environment=environment, products=[product])
    lines = float32_way.markdown(run).splitlines()
    others = " 1,382.3 / 329.8 = 4.19 |" * (len(CASES) - 1)
    assert lines[0] == "On an NVIDIA H200:"
    assert lines[-1] == f"| 2048 | NT float32 | 167.7 | 375.6 / 329.8 = 1.14 |{others}"
