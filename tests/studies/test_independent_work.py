"""Occupancy against independent work: what is launched, and tables and figures of a synthetic record."""

from types import SimpleNamespace

import numpy as np
import pytest

from studies.occupancy import measuring, tables
from studies.record import Measurements
from tilewright.tools.explain.machine_code import code_of
from tilewright.tools.machine import probes

ENGINE = SimpleNamespace(multiprocessors=132, capability=(9, 0), device_name="NVIDIA H200")


class Stand:
    """A GPU whose FMAs take 4 cycles and whose loads take 1000, at 1 GHz, with 4 TB/s of bandwidth."""

    memory, arch = 2 << 30, "sm_90a"

    def __init__(self):
        self.run = []

    def __call__(self, probe):
        self.run.append(probe)
        warps = probe.grid * probe.block // 32 // 132
        if probe.entry == "fma_rate":
            cycles = probe.numbers[0] * max(4, warps * probe.macros["CHAINS"] / 4)
        else:
            in_flight = probe.grid * probe.block * probe.macros["LOADS"] * 16
            cycles = probe.work / min(4000, in_flight / 1000)
        times = np.zeros((probe.grid, 4), np.int64)
        times[:, 1] = times[:, 3] = round(cycles)
        return times


@pytest.fixture
def run(machine):
    stand = Stand()
    found = [*measuring.of_chains(ENGINE, stand), *measuring.of_loads(ENGINE, stand)]
    for probe in stand.run:
        assert probe.block <= 1024 and probe.block % 32 == 0
    return Measurements(environment=machine.environment, measurements=found)


@pytest.mark.parametrize("warps", measuring.WARPS)
def test_each_multiprocessor_has_its_warps(warps):
    grid, block = measuring.blocks(132, warps)
    assert (grid * block, grid % 132) == (132 * 32 * warps, 0)


def test_the_table_says_how_many_warps_are_enough(run, machine):
    lines = tables.table(run, machine).splitlines()
    assert lines[0].startswith("On an NVIDIA H100 80GB HBM3, 2026-11-28")
    assert lines[4] == "| 1 | 6% | 25% | 50% | 100% | 100% | 100% | 16 | 16.0 |"
    assert lines[-4].startswith("| 6 | 38% | 100% |") and lines[-4].endswith("| 4 | 2.7 |")


def test_enough_is_of_what_the_chains_reach():
    shares = {(1, 8): 0.4, (1, 16): 0.75, (1, 32): 0.8, (2, 8): 0.95, (2, 16): 1.0}
    assert [tables._enough(shares, chains) for chains in (1, 2)] == [16, 8]


def test_the_loop_has_three_instructions_besides():
    for chains in measuring.CHAINS:
        loop = code_of(probes.compiled("fma_rate", {"CHAINS": chains}, "sm_90a")).main_loop
        assert len(loop) == 32 * chains + 3


def test_loads_follow_bytes_in_flight(run):
    found = {(one.what["loads"], one.what["warps"]): one.facts for one in run.measurements if one.way == "DRAM"}
    assert found[1, 32] == {"gbs": pytest.approx(132 * 16.384, rel=1e-3), "bytes_in_flight": 32 * 32 * 16}
    assert found[4, 16]["bytes_in_flight"] == found[1, 64]["bytes_in_flight"]
    assert (8, 64) not in found, "its registers have no room"
    assert (8, 32) in found


def test_figures_are_small_and_name_their_curves(run):
    for svg, label in (
        (tables.chains_figure(run), "8 independent FMAs a thread"),
        (tables.loads_figure(run), "1 load of 16 bytes in flight a thread"),
    ):
        assert label in svg
        assert len(svg) < 60_000


def test_probes_of_the_sweep_are_those_of_the_machine():
    assert probes.flops_probe(264, 1024, 3).work == 264 * 1024 * 3 * (1 << 15) * 12
