"""What persistent blocks have in use at a time: tiles in their order, and bytes of A and B."""

import numpy as np
import pytest

from studies.worklog import rounds
from tilewright.core.problem import Problem
from tilewright.emulator.trace import trace
from tilewright.kernels import find

CLUSTERS, RASTERIZED = find("clusters"), find("rasterized")


def problem(*sizes):
    return Problem(*sizes, RASTERIZED.support.arithmetic())


@pytest.mark.first(1)
@pytest.mark.parametrize(("band", "first"), [(1, [(0, 0), (0, 1), (1, 0)]), (2, [(0, 0), (1, 0), (0, 1)])])
def test_the_first_tiles_are_those_of_the_blocks_of_a_launch(band, first):
    config = RASTERIZED.config({"BN": 64, "CLUSTER": 1, "BAND": band})
    of = problem(2 * 128, 2 * 64, 64)
    seen = trace(RASTERIZED, config, of)
    found = list(rounds.first_round(RASTERIZED, config, of))
    assert found[:3] == first
    assert len(found) == 4
    for block, (row, col) in enumerate(found):
        assert (seen.blocks[row * 128 : (row + 1) * 128, col * 64 : (col + 1) * 64] == block).all()
    assert np.unique(seen.blocks).tolist() == [0, 1, 2, 3]


def test_the_last_band_may_have_fewer_rows():
    config = RASTERIZED.config({"BAND": 2})
    found = list(rounds.first_round(RASTERIZED, config, problem(3 * 256, 2 * 256, 64)))
    assert found == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]


def test_rows_and_columns_in_use_are_counted_once():
    """66 clusters of two: two rows of 32 tiles and part of a third, or eight columns of eight and part of a ninth."""
    of = problem(8192, 8192, 1024)
    assert rounds.bytes_in_use(CLUSTERS, CLUSTERS.config(), of) == 2 * 1024 * (3 * 256 + 8192)
    assert rounds.bytes_in_use(RASTERIZED, RASTERIZED.config(), of) == 2 * 1024 * (8 * 256 + 9 * 256)
    small = problem(300, 100, 64)
    assert rounds.bytes_in_use(RASTERIZED, RASTERIZED.config(), small) == 2 * 64 * (300 + 100)


def test_bytes_in_use_are_a_column_for_each_kernel():
    kernels = [(kernel, kernel.config()) for kernel in (CLUSTERS, RASTERIZED)]
    lines = rounds.in_use(kernels, ["8192x8192x1024"]).splitlines()
    assert lines[0] == "| A and B in use at a time | 23 clusters | 24 rasterized |"
    assert lines[2:] == ["| 8192x8192x1024 | 18 MB | 9 MB |"]
