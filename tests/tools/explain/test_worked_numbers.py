"""Numbers that the public worklogs work out by hand, reproduced from the kernels themselves."""

import itertools
from dataclasses import replace

import pytest

from tilewright.core.errors import ConfigError
from tilewright.core.gpus import gpu_named
from tilewright.core.problem import Problem, Scalars
from tilewright.emulator.counting import Operations
from tilewright.kernels import find
from tilewright.tools.explain.cost.occupancy import occupancy
from tilewright.tools.explain.roofline import Bytes, Through, least_bytes, roofline
from tilewright.tools.explain.traffic import count

A6000 = replace(gpu_named("RTX A6000"), clock_mhz=1395)
"""At 30 TFLOP/s, as the worklog takes it."""


def counted(name, shape, overrides=None, beta=0.0):
    kernel = find(name)
    return count(kernel, kernel.config(overrides), Problem.parse(shape), scalars=Scalars(beta=beta))


def per_result(group, problem):
    m, n, _ = problem
    return group.accesses / (m * n)


def test_work_and_least_bytes_at_4092():
    problem = Problem(4092, 4092, 4092)
    assert problem.flops + problem.m * problem.n == pytest.approx(137e9, rel=0.002)
    read, written = least_bytes(problem, Scalars(beta=1.0))
    assert read == pytest.approx(201e6, rel=0.002)
    assert written == pytest.approx(67e6, rel=0.002)
    assert read + written == pytest.approx(268e6, rel=0.002)


def test_the_two_times_at_4092_on_an_a6000():
    problem = Problem(4092, 4092, 4092)
    read, written = least_bytes(problem, Scalars(beta=1.0))
    times = roofline(problem.flops, Bytes(read, written, 500_000_000, 0), Through(500_000_000, 0.0), A6000)
    assert times.peak_tflops == pytest.approx(30, rel=0.001)
    assert times.arithmetic_us == pytest.approx(4.5e3, rel=0.02)
    assert times.memory_us == pytest.approx(0.34e3, rel=0.03)
    assert times.binds == "arithmetic"


def test_the_intensity_of_what_cublas_moved():
    """500 MB read, and C written."""
    problem = Problem(4092, 4092, 4092)
    moved = 500_000_000 + least_bytes(problem)[1]
    line = roofline(problem.flops, Bytes(0, 0, moved, 0), Through(moved, 0.0), A6000)
    assert line.levels[1].flops_per_byte == pytest.approx(245, rel=0.02)


def test_the_naive_kernel_without_any_cache_at_4092():
    loads = counted("naive", "4092", beta=1.0).groups["global_load"]
    assert loads.accesses == 4092**2 * (2 * 4092 + 1)
    assert loads.bytes == pytest.approx(548e9, rel=0.001)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("name", "of_global", "of_shared"),
    [
        ("shared_tiled", 1 / 16, 2),
        ("thread_tiled_1d", 1 / 32, 9 / 8),
        ("thread_tiled_2d", 1 / 64, 1 / 4),
    ],
)
def test_accesses_per_result(name, of_global, of_shared):
    """Accesses of rungs 3 (32 x 32), 4 (64 x 64, 8 deep, 8 a thread) and 5 (128 x 128, 8 deep, 8 x 8), over K."""
    m, n, k = 512, 256, 384
    groups = counted(name, f"{m}x{n}x{k}").groups
    assert per_result(groups["global_load"], (m, n, k)) == k * of_global
    assert per_result(groups["shared_load"], (m, n, k)) == k * of_shared


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("name", "config", "loads"),
    [
        ("naive", {"BLOCK_X": 4, "BLOCK_Y": 4}, 15),
        ("thread_tiled_1d", {"BM": 4, "BN": 4, "BK": 7, "TM": 4, "TN": 1}, 9.75),
        ("thread_tiled_2d", {"BM": 4, "BN": 4, "BK": 7, "TM": 2, "TN": 2}, 8),
    ],
)
def test_loads_a_result_of_a_toy_7_deep(name, config, loads):
    """One result a thread, four in a column, four in a square: a thread's factors, and its old element of C."""
    groups = counted(name, "4x4x7", config, beta=1.0).groups
    of_factors = groups["shared_load"] if groups["shared_load"].accesses else groups["global_load"]
    of_c = 0 if of_factors is groups["global_load"] else 1
    assert of_factors.accesses / 16 + of_c == loads
    assert groups["global_store"].accesses / 16 == 1


def test_occupancy_of_rung_3_on_an_a6000():
    kernel = find("shared_tiled")
    config = kernel.config({"TILE": 32})
    held = occupancy(A6000.multiprocessor, kernel.threads(config), registers=37, shared_bytes=8192)
    assert held.limits == {"registers": 1, "shared memory": 11, "threads": 1, "blocks": 16}
    assert (held.warps, held.most_warps) == (32, 48)
    assert int(100 * held.fraction) == 66


def test_configs_left_to_search_of_rung_6():
    kernel = find("vectorized")
    grid = itertools.product((64, 128, 256), (64, 128, 256), (8, 16, 32, 64), (4, 8, 16, 32), (4, 8, 16, 32))
    left = 0
    for values in grid:
        try:
            kernel.config(dict(zip(("BM", "BN", "BK", "TM", "TN"), values, strict=True)))
        except ConfigError:
            continue
        left += 1
    assert left == pytest.approx(400, rel=0.05)


@pytest.mark.parametrize(
    "best", [{"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 8}, {"BM": 64, "BN": 64, "BK": 16, "TM": 4, "TN": 4}]
)
def test_the_best_configs_of_an_a6000_and_an_a100_are_among_them(best):
    config = find("vectorized").config(best)
    threads = find("vectorized").threads(config)
    assert config.BM * config.BK % (4 * threads) == config.BN * config.BK % (4 * threads) == 0


@pytest.mark.parametrize("name", ["naive", "warptiled"])
def test_multiply_adds_are_those_of_the_product(name):
    """alpha * sum is a multiplication, and beta * C a multiply-add more: alpha = 1 is known only at run time."""
    operations = counted(name, "512x512x512", beta=1.0).operations
    assert Operations(operations.ffma, operations.fmul, operations.fadd) == (512**3 + 512**2, 512**2, 0)
