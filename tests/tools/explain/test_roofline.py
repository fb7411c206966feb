"""The roofline: times, what binds, intensities."""

import pytest

from tilewright.core.gpus import gpu_named
from tilewright.core.problem import Arithmetic, Layout, Problem, Scalars
from tilewright.kernels import find
from tilewright.tools.explain.roofline import (
    ARITHMETIC,
    L1,
    MEMORY,
    SHARED,
    Bytes,
    Through,
    least_bytes,
    moved,
    roofline,
)
from tilewright.tools.explain.traffic import count

H200 = gpu_named("H200")


NOTHING = Through(0, 0.0)


def at(problem, through_l2=NOTHING, shared=0, l1=0, arithmetic="float32"):
    moves = Bytes(*least_bytes(problem), 0, shared, l1=l1)
    return roofline(problem.flops, moves, through_l2, H200, arithmetic)


def test_large_squares_are_bound_by_arithmetic_and_thin_ones_by_memory():
    large, thin = at(Problem(4096, 4096, 4096)), at(Problem(1, 4096, 4096))
    assert (large.binds, thin.binds) == (ARITHMETIC, MEMORY)
    assert large.time_us == large.arithmetic_us == pytest.approx(2 * 4096**3 / (H200.tflops * 1e6))
    assert thin.time_us == thin.memory_us == pytest.approx(4 * (4096**2 + 2 * 4096) / (H200.dram_gbs * 1e3))


def test_the_ridge_is_where_both_take_equally_long():
    line = at(Problem(512, 512, 512))
    assert line.ridge_flops_per_byte == pytest.approx(1e3 * H200.tflops / H200.dram_gbs)
    dram = line.levels[0]
    assert line.arithmetic_us / line.memory_us == pytest.approx(dram.flops_per_byte / line.ridge_flops_per_byte)


def test_levels_nearer_than_dram_can_be_slower():
    line = at(Problem(4096, 4096, 4096), Through(10**10, 1000.0), shared=10**12, l1=10**11)
    assert line.binds == ARITHMETIC, "of the two times that no kernel undercuts"
    assert line.slowest == SHARED
    dram, l2, l1, shared = line.levels
    assert (l1.name, shared.name) == (L1, SHARED)
    assert dram.time_us < l2.time_us == 1000
    assert shared.time_us == pytest.approx(1e12 / (128 * 132 * 1980))  # 128 bytes a clock and multiprocessor
    assert l1.time_us == pytest.approx(shared.time_us / 10), "the banks are the same"
    assert l2.flops_per_byte == pytest.approx(2 * 4096**3 / 1e10)


def test_requests_that_the_l1_cache_serves_are_passes_over_its_banks():
    """At each k a warp of the naive kernel reads 32 rows of A from one bank, and one element of B."""
    problem, kernel = Problem(64, 64, 64), find("naive")
    moves = moved(least_bytes(problem), count(kernel, kernel.config(), problem))
    assert moves.l1 == 128 * 33 * 64**3 // 32
    assert moves.requested > moves.l1 / 5 > 10 * moves.least
    assert moves.shared == moves.tiles == 0


def test_c_is_read_only_with_beta():
    read, written = least_bytes(Problem(10, 20, 30))
    assert (read, written) == (4 * 30 * (10 + 20), 4 * 10 * 20)
    assert least_bytes(Problem(10, 20, 30), Scalars(beta=1.0))[0] == read + written
    assert least_bytes(Problem(10, 20, 30, "float16")) == (read // 2, written)


def test_results_may_be_smaller_than_sums():
    read, written = least_bytes(Problem(10, 20, 30, Arithmetic("float16", "float16")), Scalars(beta=1.0))
    assert (read, written) == (2 * 30 * (10 + 20) + 2 * 10 * 20, 2 * 10 * 20)


def test_a_matrix_that_serves_a_batch_is_read_once():
    read, written = least_bytes(Problem(10, 20, 30, batch=7, b=Layout(batch_stride=0)))
    assert (read, written) == (4 * 30 * (7 * 10 + 20), 7 * 4 * 10 * 20)


def test_tensor_cores_have_peaks_of_their_own():
    problem = Problem(4096, 4096, 4096)
    kinds = "float32", "tf32", "bfloat16", "int8"
    exact, tf32, half, integers = (at(problem, arithmetic=kind).peak_tflops for kind in kinds)
    assert tf32 == 8 * exact
    assert half == 16 * exact
    assert integers == 32 * exact


def test_geforce_products_have_integers_at_the_full_rate():
    gpu, volta = gpu_named("RTX 4090"), gpu_named("V100")
    assert gpu.peak_tflops("uint8") == 4 * gpu.peak_tflops("bfloat16")
    assert volta.peak_tflops("int8") == volta.tflops


def test_an_empty_problem_has_no_intensity():
    line = at(Problem(0, 5, 5))
    assert line.arithmetic_us == 0
    assert [level.flops_per_byte for level in line.levels] == [0, 0, 0, 0]
