"""How tiles are divided among blocks (`schedule.schedule`), as the walk in schedule.cuh counts on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.problem import Arithmetic, Problem
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import find
from tilewright.kernels.library import schedule
from tilewright.runtime.base import run

KERNEL = find("split_k")
SIZES = st.integers(1, 3000)


@given(SIZES, SIZES, st.integers(0, 10**6), st.integers(1, 9), st.integers(0, 4), st.integers(1, 150))
def test_every_step_has_a_worker_and_none_has_more_than_a_tile(m, n, k, batch, workers, multiprocessors):
    problem, config = Problem(m, n, k, batch=batch), KERNEL.config({"WORKERS": workers})
    tiles, steps = KERNEL.tiles(problem, config), max(-(-k // config.BK), 1)
    blocks, workspace_bytes, division, _ = schedule.schedule(problem, config, multiprocessors)
    whole, sharing, share, longer = division
    left = tiles - whole
    assert whole % max(workers * multiprocessors, 1) == 0
    assert 0 <= left < max(workers * multiprocessors, 1)
    assert sharing * share + longer == left * steps
    assert 0 <= longer < max(sharing, 1)
    assert share + (longer > 0) <= steps
    most = min(workers * multiprocessors, left * steps)
    assert not left or share + (longer > 0) == -(-left * steps // most)
    assert blocks - whole == (workers * multiprocessors if left else 0) >= sharing
    assert bool(workspace_bytes) == bool(left)


def test_workers_of_one_tile_alone_are_preferred():
    assert schedule.sharing(64, 64, 264) == 4 * 64  # 16 steps each, as with 264
    assert schedule.sharing(8, 1024, 264) == 264
    assert schedule.sharing(100, 64, 264) == 264  # 2 a tile would have 32 steps each instead of 25
    assert schedule.sharing(3, 1, 264) == 3


@pytest.mark.parametrize("multiprocessors", [4, 8, 9, 17])
def test_partial_sums_of_a_tile_are_added_however_many_workers_it_has(multiprocessors):
    """Up to 32 are added in one step, 36 and 68 as a tree, whose last group has some less, or is alone."""
    engine, config = EmulatorEngine(multiprocessors=multiprocessors), KERNEL.config(KERNEL.preset("few_rows"))
    problem = Problem(15, 31, config.WORKERS * multiprocessors * config.BK)
    assert schedule.divide(problem, config, multiprocessors).workers == config.WORKERS * multiprocessors
    random = np.random.default_rng(multiprocessors)
    a, b = (
        random.integers(-3, 4, shape).astype(np.float32) for shape in ((15, problem.k), (problem.k, 31))
    )  # all sums are exact
    d = np.full((15, 31), np.nan, np.float32)
    uploaded = engine.upload(d)
    run(engine, KERNEL, config, problem, engine.upload(a), engine.upload(b), uploaded)
    np.testing.assert_array_equal(engine.download(uploaded), a @ b)


def test_blocks_that_compute_tile_after_tile_may_be_fewer_in_whole_clusters():
    kernel, problem = find("gemm_sm90"), Problem(8192, 8192, 64, Arithmetic("bfloat16", "bfloat16"))
    of_four = kernel.scheduled(problem, kernel.config({"CLUSTER_M": 2, "CLUSTER_N": 2}), 132)
    assert of_four.any_number and of_four.blocks == 132
    of_k = kernel.scheduled(problem, kernel.config({"BM": 128, "BN": 64, "SPLITS": 4}), 132)
    assert not of_k.any_number and of_k.blocks == 64 * 128 * 4
