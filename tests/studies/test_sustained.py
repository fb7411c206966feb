"""Sustained speeds: measured on the emulator, whose clock is the host's; the bare products' code; the table."""

import pytest

from studies.record import Measurement, Measurements
from studies.sustained import measuring as sustained
from studies.sustained.bare_products import REPEATS, Bare
from studies.sustained.measuring import BARE, OURS, State, _mean, of_bare, of_changes, of_products, sustain
from studies.templates import block
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import find
from tilewright.kernels.kernel import Choice


class Library:
    """Another that computes the same, in no time."""

    version = "1"

    def works(self, problem, sets, precision=None, scalars=None):
        return {"other": lambda index, stream: None}


def pick(problem):
    kernel = find("gemm_sm90")
    return Choice(kernel, kernel.config({"BM": 64, "BN": 32, "STAGES": 3, "CONSUMERS": 1}))


def test_each_product_runs_by_ours_and_by_the_library(monkeypatch):
    engine = EmulatorEngine()
    started = []
    start = engine.start
    monkeypatch.setattr(engine, "start", lambda *given, **named: (started.append(given[1]), start(*given, **named)))
    products = (("bfloat16", "64x32x64", "NT"), ("bfloat16", "64x32x128", "NT"))
    found = list(of_products(engine, Library(), pick, products, seconds=1e-3))
    assert [(one.way, one.what["product"]) for one in found] == [
        (OURS, "64x32x64 NT bfloat16"),
        ("other", "64x32x64 NT bfloat16"),
        (OURS, "64x32x128 NT bfloat16"),
        ("other", "64x32x128 NT bfloat16"),
    ]
    assert found[0].facts["tflops"] == pytest.approx(2 * 64 * 32 * 64 / found[0].us / 1e6)
    assert found[0].facts["sm_clock_mhz"] is None, "there are no sensors"
    assert _mean("a", "b", 6, [State(2.0, 1000.0, None, 1.0), State(4.0, 1200.0, 650.0, 3.0)]) == Measurement(
        way="a",
        what={"product": "b"},
        us=3.0,
        facts={"tflops": 2e-6, "sm_clock_mhz": 1100.0, "power_w": 650.0, "joules": 2.0},
    )
    assert len({pointers.d for pointers in started}) == 4, "two sets take turns"
    assert list(of_bare(engine)) == []


def test_each_change_of_a_config_runs_that_the_kernel_takes():
    changes = ({}, {"GROUP_M": 4}, {"BN": 12})
    products = (("bfloat16", "64x32x64", "NT"), ("int8", "64x32x128", "NT"))

    def picked(problem):
        kernel = find("gemm_int8") if problem.dtype == "int8" else find("gemm_sm90")
        return Choice(kernel, pick(problem).config)

    for one, (dtype, shape, layout) in zip((0, 3), products, strict=True):
        found = list(of_changes(EmulatorEngine(), Library(), picked, products, changes, seconds=1e-3))[one : one + 3]
        assert {measured.what["product"] for measured in found} == {f"{shape} {layout} {dtype}"}
        assert (
            found[0].way == "other" and found[1].way.startswith("BM=64,BN=32,STAGES=3") and found[2].way == "GROUP_M=4"
        )


def test_the_second_half_is_timed(monkeypatch):
    now = iter(range(100))
    monkeypatch.setattr(sustained.time, "perf_counter", lambda: float(next(now)))
    launches = []
    state = sustain(EmulatorEngine(), lambda index, stream: launches.append(index), seconds=1.0)
    assert launches == [0, *range(10), *range(5), *range(5)], "a second's half: a launch takes a tenth of one"
    assert state == State(pytest.approx(1e6 / 5))


@pytest.mark.first(1)
@pytest.mark.parametrize("bare", [BARE[0], BARE[-1]], ids=str)
def test_bare_products_spill_nothing_and_do_not_wait_for_each_other(bare):
    compiled = bare.compile()
    assert compiled.report.spill_bytes == 0
    assert "Performance Loss" not in compiled.log


def test_what_a_launch_multiplies():
    one, two = Bare("bfloat16", 64, 256), Bare("float8_e4m3fn", 128, 128, "registers")
    assert one.flops(3) == 2 * 3 * 128 * 256 * 64 * REPEATS
    assert two.flops(1) == 2 * 256 * 128 * 128 * REPEATS
    assert (one.stage_bytes, two.stage_bytes) == (128 * (128 + 256), 128 * (256 + 128))
    assert str(two) == "float8_e4m3fn, 128 x 128 each, A in registers"


def test_the_table_has_clocks_and_power_where_they_are_known():
    states = {"sm_clock_mhz": 1455.0, "power_w": 698.7}, {"sm_clock_mhz": None, "power_w": None}
    works = [
        Measurement(what={"product": "1x2x3 NN bfloat16"}, way=OURS, us=1.0, facts={"tflops": 801.4, **state})
        for state in states
    ]
    gpu = {"name": "NVIDIA H200", "power_limit_w": 700.0}
    run = Measurements(
        environment={"gpu": gpu, "date": "2026-11-25T01:00:00", "revision": "abc1234"}, measurements=works
    )
    lines = block("sustained/table.md.j2", "table", run=run).splitlines()
    assert lines[0] == "On one NVIDIA H200, 2026-11-25, revision abc1234; its power limit is 700 W:"
    assert lines[-2:] == [
        "| 1x2x3 NN bfloat16 | tilewright | 801 | 1,455 | 699 |",
        "| 1x2x3 NN bfloat16 | tilewright | 801 |  |  |",
    ]
