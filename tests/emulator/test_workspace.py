"""Workspaces: what a launch gets besides its operands, and kernels whose blocks work together through it."""

from dataclasses import replace

import numpy as np
import pytest
from emulator_helpers import launch

from async_kernels import split_k_kernel
from tilewright.core.errors import ConfigError, LaunchError
from tilewright.core.problem import Problem, Scalars
from tilewright.emulator.engine import MULTIPROCESSORS, EmulatorEngine
from tilewright.kernels import find
from tilewright.kernels.kernel import Schedule, Workspace
from tilewright.runtime.base import run
from tilewright.runtime.plan import Needs
from tilewright.tools.bench.verify import Operands, limit

ENGINE = EmulatorEngine()


@pytest.fixture
def split_k(tmp_path):
    return split_k_kernel(tmp_path)


def multiply(kernel, overrides, problem, scalars=Scalars()):
    operands = Operands.draw(problem, scalars)
    a, b, c = (ENGINE.upload(array) for array in (operands.a, operands.b, operands.c))
    run(ENGINE, kernel, kernel.config(overrides), problem, a, b, c, scalars)
    result = ENGINE.download(c)
    return result, operands.error(result)


@pytest.mark.first(4)
@pytest.mark.parametrize("splits", [1, 2, 5])
@pytest.mark.parametrize("shape", [(16, 16, 64), (50, 33, 7), (1, 100, 3), (20, 20, 0)])
def test_blocks_share_the_work_on_a_tile(monkeypatch, split_k, splits, shape):
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_THREADS", "4")
    problem, scalars = Problem(*shape), Scalars(alpha=0.5, beta=2.0)
    first, error = multiply(split_k, {"SPLIT_K": splits}, problem, scalars)
    assert error <= limit(problem)
    for _ in range(5):  # whichever block comes last: the sum is always taken in the same order
        np.testing.assert_array_equal(multiply(split_k, {"SPLIT_K": splits}, problem, scalars)[0], first)


def test_counters_that_are_left_over_are_an_error(split_k):
    with pytest.raises(LaunchError, match="leaves counters other than 0 to the next launch"):
        multiply(split_k, {"WRAPS": 0}, Problem(32, 32, 8))


def test_geometry(split_k):
    problem = Problem(17, 32, 8)
    assert split_k.launch(problem, split_k.config(), MULTIPROCESSORS).grid == (2 * 2 * 4, 1, 1)
    assert split_k.workspace(problem, split_k.config(), MULTIPROCESSORS) == Workspace(4 * 256 * 4 * 4, counters=16)
    assert split_k.workspace(problem, split_k.config({"SPLIT_K": 1}), MULTIPROCESSORS) == Workspace(0, 0)
    plan = ENGINE.plan(split_k, split_k.config(), problem)
    assert plan.needs == Needs(workspace_bytes=4 * 256 * 4 * 4, counters=16)


def test_kernels_that_do_not_ask_get_none():
    naive = find("naive")
    assert naive.workspace(Problem(1, 1, 1), naive.config(), MULTIPROCESSORS) == Workspace(0, 0)


def test_geometries_are_made_for_the_gpu_that_there_is(split_k):
    """A kernel that launches a block for each multiprocessor."""
    kernel = replace(split_k, schedule=lambda problem, config, multiprocessors: Schedule(16 * multiprocessors, 4))
    plans = [
        EmulatorEngine(multiprocessors=count).plan(kernel, kernel.config(), Problem(17, 32, 8)) for count in (2, 5)
    ]
    assert [plan.steps[0].grid for plan in plans] == [(32, 1, 1), (80, 1, 1)]
    assert [plan.needs.counters for plan in plans] == [32, 80]


def test_a_kernel_says_what_gpu_it_needs(split_k):
    split_k.check(Problem(8, 8, 8), (7, 5))
    with pytest.raises(ConfigError, match=r"needs a GPU of compute capability 8.0 or newer for bfloat16, got 7.5"):
        split_k.check(Problem(8, 8, 8, "bfloat16"), (7, 5))


# What the emulator's atomics and fences promise.


def test_atomics_of_many_blocks_lose_nothing(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_THREADS", "4")
    source = """
        extern "C" __global__ void kernel(unsigned* cells) {
            const unsigned old = atomicInc(&cells[0], 6);
            atomicAdd(&cells[1], old);
            atomicAdd(&cells[2], old == 6);
        }
    """
    cells = np.zeros(3, np.uint32)
    launch(source, cells, grid=(700, 1, 1), block=(64, 1, 1))
    assert cells[0] == 700 * 64 % 7
    assert cells[1] == 700 * 64 // 7 * (0 + 1 + 2 + 3 + 4 + 5 + 6)
    assert cells[2] == 700 * 64 // 7


@pytest.mark.parametrize(("before", "after"), [(0, 1), (4, 5), (5, 0), (9, 0)])
def test_atomic_inc_wraps_at_its_limit(before, after):
    cells = np.array([before], np.uint32)
    launch('extern "C" __global__ void kernel(unsigned* cells) { atomicInc(cells, 5); }', cells)
    assert cells[0] == after
