"""A GPU's measurement: probes compile for every architecture, run on the emulator, and their times become a table."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

from tilewright.api import engines
from tilewright.core.errors import EngineUnavailableError, PathError
from tilewright.core.gpus import COMPUTE_CAPABILITIES
from tilewright.emulator import launches
from tilewright.emulator.compiler import CHECKED
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels.source.source_launch import read_launch
from tilewright.tools.cli import info, main
from tilewright.tools.explain.machine_code import code_of
from tilewright.tools.machine import probes, record
from tilewright.tools.machine.record import Machine

H100 = (50 << 20, 2 << 30, 132)
ALL = [*probes.latencies(*H100), *probes.bandwidths(*H100)]
ENTRIES = {
    "fma_chain": ({}, "FFMA", 32),
    "shared_chase": ({}, "LDS", 32),
    "chase": ({"L1": 0}, "LDG", 32),
    "fma_rate": ({"CHAINS": 3}, "FFMA", 3 * 32),
    "shared_read": ({}, "LDS", 8),
    "global_read": ({"LOADS": 4, "L1": 0}, "LDG", 4),
}
"""Macros of each kernel, and how many of an instruction its loop has at least."""


def loops(code):
    """Instructions of each loop, from where a branch backwards leads to the branch."""
    at = [one.address for one in code]
    found = []
    for end, one in enumerate(code):
        if one.name == "BRA" and one.target is not None and one.target < one.address:
            found.append(code[at.index(one.target) : end + 1])
    return found


@pytest.mark.parametrize("entry", ENTRIES)
def test_loops_are_all_there(entry):
    macros, opcode, least = ENTRIES[entry]
    code = code_of(probes.compiled(entry, macros, "sm_90a")).instructions
    assert max(sum(one.name == opcode for one in loop) for loop in loops(code)) >= least


def test_all_loads_are_issued_before_the_first_is_waited_for():
    code = code_of(probes.compiled("global_read", {"LOADS": 8, "L1": 0}, "sm_90a")).instructions
    names = [one.name for one in code if one.name in ("LDG", "FADD")]
    assert names[: names.index("FADD")] == ["LDG"] * 8


@pytest.mark.first(1)
@pytest.mark.parametrize("capability", sorted(COMPUTE_CAPABILITIES, reverse=True), ids=str)
def test_probes_spill_nothing(capability):
    kernels = {(probe.entry, tuple(probe.macros.items())) for probe in ALL}
    for entry, macros in kernels:
        report = probes.compiled(entry, dict(macros), COMPUTE_CAPABILITIES[capability].arch).report
        assert report.spill_bytes == 0
        assert report.registers * 1024 <= 65536, "a block of 1024 threads has room"


@pytest.mark.parametrize("entry", ENTRIES)
def test_probes_run_on_the_emulator_and_nothing_is_found(entry):
    launch = read_launch(f"{probes.SOURCE}:{entry}")
    inputs = launches.draw(launch)
    seen = launches._watched(launch, inputs, launches.compile_launch(launch, CHECKED), False, 0)
    assert (seen.findings, seen.error) == ([], "")
    times = seen.outputs["times"].reshape(-1, 4)
    assert (times[:, 1] > times[:, 0]).all()
    assert (times[:, 3] > times[:, 2]).all()
    if entry in EXPECTED:
        np.testing.assert_allclose(seen.outputs["to"], EXPECTED[entry](inputs["from"]), rtol=1e-5)


def of_threads(words):
    """Sums over the four elements that each of some threads adds up."""
    return words.reshape(-1, 4).sum(axis=1)


EXPECTED = {
    "fma_chain": lambda x: x,
    "fma_rate": lambda x: np.tile(3 * x + 3, 4),
    "shared_read": lambda x: np.tile(16 * of_threads(x)[:64], 2),
    "global_read": lambda x: np.tile(of_threads(x).reshape(6, 2, 32).sum(axis=(0, 1)), 2),
}
"""Results of kernels as their lines launch them."""


@pytest.mark.parametrize(("lines", "group"), [(64, 16), (32, 32)])
def test_a_chain_visits_each_line_once(lines, group):
    launch = read_launch(f"{probes.SOURCE}:chase", args=f"lines={lines} group={group} steps={lines} warm=0 words=2")
    inputs = launches.draw(launch)
    seen = launches._watched(launch, inputs, launches.compile_launch(launch, CHECKED), False, 0)
    chain = seen.outputs["chain"].reshape(lines, 2)[:, 0]
    at, visited, base = 0, [], int(seen.outputs["to"][0])  # the chain ends where it begins
    for _ in range(lines):
        visited.append(at)
        at = (int(chain[at]) - base) // 16
    assert at == 0
    assert sorted(visited) == list(range(lines))
    assert [one // group for one in visited] == sorted(one // group for one in visited), "a group before the next"


def test_probes_fit_the_gpu():
    of = {(probe.level, probe.entry): probe for probe in ALL}
    assert of[record.L2, "chase"].footprint_bytes == 8 << 20
    l2 = of[record.L2, "global_read"]
    assert l2.footprint_bytes == 2 * 132 * 1024 * 4 * 16 <= 25 << 20
    assert of[record.DRAM, "global_read"].footprint_bytes > 30 * (50 << 20)
    for level in (record.DRAM, record.FAR):
        link, flush = of[level, "chase"].before
        assert (link.numbers[3:], of[level, "chase"].numbers[3]) == ((1, 0, 0), 0)
        assert flush.footprint_bytes > 30 * (50 << 20)
    small = {probe.level: probe for probe in probes.bandwidths(6 << 20, 1 << 30, 84)}
    assert small[record.L2].footprint_bytes <= 3 << 20
    for probe in ALL:
        assert all(0 <= one < 2**31 for one in probe.numbers)


def times_of(probe):
    """Each sample is longer than the one before it; blocks begin one after the other."""
    times_of.samples += 1
    begin = np.arange(probe.grid, dtype=np.int64)
    cycles = 1000 * times_of.samples + begin
    return np.stack([begin, begin + cycles, 7 * begin, 7 * begin + 600 * times_of.samples], axis=1)


def test_medians_of_samples_become_the_table():
    times_of.samples = 0
    run = []
    probe = probes.Probe(record.L2, "global_read", 10_000_000, 1 << 20, (1, 1, 1), grid=3)
    found = probes.timed(lambda one: (run.append(one), times_of(one))[1], probe, samples=3)
    assert len(run) == 4
    assert (found.cycles, found.ns) == (3000 + 2, 1800 + 14)
    before = probes.Probe(record.L2, "global_read", 1, 1, ())
    probes.timed(lambda one: (run.append(one), times_of(one))[1], probes.replace(probe, before=(before,)), samples=1)
    assert run[4:] == [before, probes.replace(probe, before=(before,))] * 2


def test_rows_follow_from_times(machine):
    rows = {one.level: one for one in machine.rows}
    assert list(rows) == [record.FMA, record.REGISTERS, record.SHARED, record.L2, record.DRAM]
    assert rows[record.FMA][1:5] == (4.0, 2.0, None, None)
    assert rows[record.L2].latency_cycles == 260
    assert rows[record.REGISTERS].gbs == pytest.approx(132 * 128 * 12 * 2)
    assert rows[record.REGISTERS].bytes_per_clock == pytest.approx(128 * 12)
    assert rows[record.DRAM].gbs == 4000
    assert rows[record.L2].footprint_bytes == 16 << 20
    assert machine.clock_mhz == pytest.approx(2000)
    with pytest.raises(LookupError, match="nothing was measured of 'L1 cache'"):
        machine.row(record.L1)


def run_cli(*arguments):
    return CliRunner().invoke(main.app, list(map(str, arguments)), env={"COLUMNS": "120"})


def test_the_command_shows_and_writes_what_it_measured(machine, monkeypatch, tmp_path):
    monkeypatch.setattr(info, "resolve_engine", lambda name: name)
    monkeypatch.setattr(info.probes, "measure", lambda engine: machine)
    found = run_cli("info", "--measure", "--json", tmp_path / "machine.json")
    assert found.exit_code == 0
    assert re.search(r"L2 cache +260\.0 +130\.0 +6,000 +22\.7 +16 MiB", found.output)
    assert Machine.load(tmp_path / "machine.json").rows == machine.rows


def test_without_a_gpu_the_command_says_so(monkeypatch):
    with pytest.raises(PathError, match=r"--json=x\.json is where --measure writes: give --measure too"):
        raise run_cli("info", "--json", "x.json").exception
    with pytest.raises(EngineUnavailableError, match="only a GPU can be measured, and the emulator engine has none"):
        probes.Prober(EmulatorEngine())
    monkeypatch.setattr(engines, "cuda_unavailable", lambda: "there is none")
    engines._made.cache_clear()
    with pytest.raises(EngineUnavailableError, match="the cuda engine cannot run here: there is none"):
        raise run_cli("info", "--measure").exception
