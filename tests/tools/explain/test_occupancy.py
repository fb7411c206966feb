"""Occupancy, against worked examples and published limits."""

import pytest

from tilewright.core.gpus import MULTIPROCESSORS
from tilewright.tools.explain.cost.occupancy import occupancy


def test_the_worklogs_example_rung_3_on_an_a6000():
    held = occupancy(MULTIPROCESSORS[8, 6], threads=1024, registers=37, shared_bytes=8192)
    assert (held.by_shared, held.by_threads, held.by_registers) == (11, 1, 1)
    assert (held.blocks, held.warps, held.most_warps) == (1, 32, 48)
    assert held.fraction == pytest.approx(0.66, abs=0.01)
    assert held.limited_by == ("registers", "threads")


@pytest.mark.parametrize(
    ("capability", "threads", "registers", "shared_bytes", "blocks", "limit"),
    [
        ((9, 0), 256, 128, 16384, 2, "registers"),  # 4096 registers a warp, 4 warps a partition
        ((9, 0), 256, 129, 0, 1, "registers"),  # 4352 a warp: 3 a partition, 12 in all
        ((9, 0), 128, 255, 0, 2, "registers"),
        ((9, 0), 32, 16, 0, 32, "blocks"),
        ((8, 6), 128, 32, 100 * 1024 - 1024, 1, "shared memory"),
        ((8, 6), 128, 32, 100 * 1024, 0, "shared memory"),
        ((7, 5), 1024, 64, 65536, 1, "shared memory"),
        ((7, 5), 1024, 65, 0, 0, "registers"),
        ((8, 0), 512, 32, 0, 4, "threads"),
        ((9, 0), 64, 256, 0, 0, "registers"),
    ],
)
def test_each_limit_binds_where_it_should(capability, threads, registers, shared_bytes, blocks, limit):
    held = occupancy(MULTIPROCESSORS[capability], threads, registers, shared_bytes)
    assert held.blocks == blocks
    assert limit in held.limited_by


@pytest.mark.parametrize(("bundle", "blocks"), [(1, 7), (2, 6), (3, 6), (4, 4), (8, 0)])
def test_blocks_of_a_bundle_are_held_together_or_not_at_all(bundle, blocks):
    held = occupancy(MULTIPROCESSORS[9, 0], 128, 64, bundle * 30 * 1024, bundle)
    assert (held.blocks, held.warps_per_block) == (blocks, 4)
    assert "shared memory" in held.limited_by


def test_a_launch_is_refused_whose_registers_do_not_fit_all_partitions():
    # Nine warps of 7168 registers are 64512, but three of them in one partition do not fit its 16384.
    assert occupancy(MULTIPROCESSORS[9, 0], threads=9 * 32, registers=224, shared_bytes=0).blocks == 0
