"""Which blocks stand for a launch."""

import pytest

from tilewright.core.problem import Layout, Problem
from tilewright.kernels import find
from tilewright.tools.explain.sampling import plan


def planned(name, problem, overrides=None):
    kernel = find(name)
    config = kernel.config(overrides)
    return plan(kernel, config, problem), kernel.launch(problem, config, 132).grid[0]


@pytest.mark.parametrize(
    ("problem", "kinds"),
    [
        (Problem(4096, 4096, 4096), 1),
        (Problem(4092, 4096, 4096), 2),
        (Problem(4092, 4092, 4096), 4),
        (Problem(100, 100, 100), 1),
        (
            Problem(4096, 4096, 4096, a=Layout(ld=4097), d=Layout(ld=4099)),
            1,
        ),  # 128 rows on, rows begin as far from a boundary as before
    ],
)
def test_kinds_of_blocks_of_a_large_tile(problem, kinds):
    found, blocks = planned("vectorized", problem)
    assert len(found.kinds) == kinds
    assert sum(found.kinds.values()) == blocks


def test_tiles_that_begin_at_different_places_in_a_sector_are_of_different_kinds():
    found, blocks = planned("naive", Problem(600, 60, 64, a=Layout(ld=65)), {"BLOCK_X": 4, "BLOCK_Y": 4})
    assert sum(found.kinds.values()) == blocks == 150 * 15
    assert len(found.kinds) == 2 * 2, "four rows of 65 floats are half a sector past whole ones, as four columns are"


def test_kinds_of_the_largest_problem_are_counted_at_once():
    found, blocks = planned("naive", Problem(2 * 10**9 + 1, 2 * 10**9 + 1, 64))
    assert sum(found.kinds.values()) == blocks
    assert len(found.kinds) < 100


def test_the_small_problem_is_small_and_has_the_same_rows():
    problem = Problem(8192, 5000, 8192, a=Layout(ld=8200), b=Layout(ld=5008), d=Layout(ld=5004))
    found, _ = planned("warptiled", problem)
    small = found.at(found.depths[0])
    assert small.m * small.n * small.k < 10**6 * 2
    assert (small.a, small.b, small.d) == (problem.a, problem.b, problem.d)
    assert small.m % 64 == problem.m % 64
    assert small.n % 128 == problem.n % 128


@pytest.mark.parametrize(("k", "depths"), [(4096, 3), (4095, 3), (64, 1), (0, 1)])
def test_depths_end_as_the_whole_does(k, depths):
    found, _ = planned("async_copy", Problem(64, 128, k, a=Layout(ld=4096)))
    assert len(found.depths) == depths
    assert {depth % 16 for depth in found.depths} == {k % 16}
    if depths == 3:
        first, second, third = found.depths
        assert second - first == third - second
        assert first + found.steps(k) * (second - first) == k
