"""Loads by reinterpret_cast against unrolled ones: both run, differ in the machine code, and make a table."""

import pytest

from studies.record import Measurements
from studies.worklog import casts
from tilewright.emulator.engine import EmulatorEngine
from tilewright.tools.explain.instruction_mix import access_widths


@pytest.fixture
def found(monkeypatch):
    monkeypatch.setattr(casts, "SHAPES", ("256x128x16",))
    return list(casts.measurements(EmulatorEngine(), 1))


def test_both_ways_compute_the_product(found):
    assert [one.way for one in found] == list(casts.WAYS)
    assert all(one.right and one.error > 0 for one in found)
    assert found[0].error == found[1].error, "the same sums in the same order"


def test_the_compiler_does_not_merge_unrolled_loads():
    cast, unrolled = (access_widths(code.main_loop) for code in casts.codes((9, 0)).values())
    assert cast["global_load"].keys() == {16}
    assert unrolled["global_load"] == {4: 4 * cast["global_load"][16]}
    assert cast["shared_load"] == unrolled["shared_load"]


def test_the_table_has_both(found, machine):
    lines = casts.table(Measurements(environment=machine.environment, measurements=found)).splitlines()
    assert lines[0] == "On an NVIDIA H100 80GB HBM3, 2026-11-28, revision abc1234:"
    assert lines[2] == "| | `reinterpret_cast<float4>` | `four floats, unrolled` |"
    assert lines[4] == "| global loads of a thread, in a step along k | 2 of 16 bytes | 8 of 4 bytes |"
    assert lines[-1].startswith("| GFLOP/s at 256x128x16 | ")
    assert {line.count("|") for line in lines[2:]} == {4}
