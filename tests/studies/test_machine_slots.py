"""The machine's table and figure, of a synthetic record."""

import pytest

from studies.worklog import machine as page


def test_the_table_has_units_and_says_where(machine):
    lines = page.table(machine).splitlines()
    assert lines[0] == (
        "On an NVIDIA H100 80GB HBM3, 2026-11-28, revision abc1234, at 2,000 MHz while it computes "
        "(`tilewright info --measure`):"
    )
    assert "| FMA | 4.0 | 2.0 |  |  |  |" in lines
    assert "| L2 cache | 260.0 | 130.0 | 6,000 | 22.7 | 16 MiB |" in lines
    assert "| registers |  |  | 405,504 | 1,536.0 |  |" in lines


def test_slots_give_one_number(machine):
    assert page.value(machine, "DRAM", "gbs") == "4,000"
    assert page.value(machine, "FMA", "latency_cycles") == "4"
    assert page.value(machine, "L2 cache", "bytes_per_clock") == "22.7"
    with pytest.raises(LookupError, match="FMA has no 'gbs': there is one of latency_cycles, latency_ns, gbs"):
        page.value(machine, "FMA", "gbs")
    with pytest.raises(LookupError, match="nothing was measured of 'L3'"):
        page.value(machine, "L3", "gbs")


def test_the_figure_has_each_memory_and_is_small(machine):
    svg = page.figure(machine)
    for text in ("registers", "shared memory", "L2 cache", "DRAM", "260 cycles", "130 ns", "4,000 GB/s"):
        assert text in svg
    assert len(svg) < 60_000
    width = float(svg.partition('viewBox="0 0 ')[2].split()[0])
    assert 700 <= width <= 920
