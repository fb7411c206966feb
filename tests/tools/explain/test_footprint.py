"""Footprints of blocks on a multiprocessor."""

from dataclasses import replace

import pytest

from tilewright.core.gpus import find_gpu
from tilewright.core.problem import Problem
from tilewright.kernels import find
from tilewright.kernels.support import Variant
from tilewright.tools.explain.cost.models.block import fragment
from tilewright.tools.explain.cost.models.staging import wide
from tilewright.tools.explain.cost.prediction import footprint
from tilewright.tools.explain.traffic import count

H200 = find_gpu("NVIDIA H200", (9, 0))
PLAIN = Variant(edges=False, aligned=True)


@pytest.mark.parametrize(
    ("name", "rows", "cols"),
    [
        ("naive", 1, 1),
        ("thread_tiled_1d", 8, 1),
        ("thread_tiled_2d", 8, 8),
        ("warptiled", 8, 8),
        ("split_k", 4, 8),
        ("skinny", 16, 4),
    ],
)
def test_the_fragments_of_a_thread(name, rows, cols):
    assert fragment(find(name), find(name).config())[:2] == (rows, cols)


@pytest.mark.parametrize(
    ("name", "config", "expected"),
    [
        ("vectorized", {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}, 4 + 16),
        ("vectorized", {"BM": 64, "BN": 64, "BK": 16, "TM": 16, "TN": 4}, 8 + 4),
        ("warptiled", {}, 4 + 8),
    ],
)
def test_estimated_wavefronts_of_a_warps_loads_are_those_that_are_counted(name, config, expected):
    kernel, config = find(name), find(name).config(config)
    assert wide(kernel, config) == expected
    loads = count(kernel, config, Problem.parse("256")).groups["shared_load"]
    warps_and_k = 256**3 // (32 * kernel.cost.fragment(config).rows * kernel.cost.fragment(config).cols)
    assert loads.wavefronts == expected * warps_and_k


def test_fragments_do_not_depend_on_how_threads_divide_k():
    split_k = find("split_k")
    for slices in (1, 2, 4):
        assert fragment(split_k, split_k.config({"BK": 32, "K_SLICES": slices}))[:2] == (4, 8)


def test_slices_shorten_a_steps_time_where_a_block_is_alone():
    split_k = find("split_k")
    tile = {"BM": 16, "BN": 32, "BK": 64, "TM": 4, "TN": 4}
    one, four = (footprint(split_k, split_k.config(tile | {"K_SLICES": slices}), H200, PLAIN) for slices in (1, 4))
    assert four.alone < 0.8 * one.alone
    assert four.ends > one.ends


def test_more_stages_hide_more_of_the_latency():
    split_k = find("split_k")
    two, three = (footprint(split_k, split_k.config({"STAGES": stages}), H200, PLAIN) for stages in (2, 3))
    assert three.alone < two.alone
    assert three.busy == two.busy
    assert three.occupancy.by_shared < two.occupancy.by_shared


def test_copies_of_unaligned_rows_take_longer():
    for name in ("async_copy", "split_k"):
        kernel = find(name)
        aligned, unaligned = (
            footprint(kernel, kernel.config(), H200, Variant(edges=False, aligned=aligned)) for aligned in (True, False)
        )
        assert unaligned.busy > aligned.busy


@pytest.mark.parametrize("blocks", [2, 3, 4])
def test_registers_are_bounded_by_the_blocks_that_a_multiprocessor_shall_hold(blocks):
    split_k = find("split_k")
    config = split_k.config({"BK": 16, "STAGES": 2, "MIN_BLOCKS": blocks})
    assert footprint(split_k, config, H200, PLAIN).occupancy.by_registers >= blocks


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("split_k", {"BM": 16, "BN": 32, "BK": 32, "TM": 4, "TN": 4, "K_SLICES": 4, "STAGES": 3, "WORKERS": 2}),
        (
            "split_k",
            {
                "BM": 64,
                "BN": 128,
                "BK": 16,
                "TM": 8,
                "TN": 8,
                "K_SLICES": 1,
                "STAGES": 2,
                "WORKERS": 3,
                "MIN_BLOCKS": 3,
            },
        ),
        (
            "tma_transposed",
            {"BM": 32, "BN": 64, "BK": 64, "K_SLICES": 4, "A_BUFFERS": 2, "UNROLL": 16, "WORKERS": 3, "MIN_BLOCKS": 3},
        ),
        (
            "tma_transposed",
            {"BM": 32, "BN": 64, "BK": 64, "K_SLICES": 4, "A_BUFFERS": 1, "UNROLL": 16, "WORKERS": 0, "MIN_BLOCKS": 4},
        ),
        (
            "tma_transposed",
            {"BM": 32, "BN": 64, "BK": 64, "K_SLICES": 4, "UNROLL": 16, "WORKERS": 1, "MIN_BLOCKS": 3, "BUNDLE": 3},
        ),
        ("tma_packed", {"BM": 128, "BN": 128, "BK": 52, "WORKERS": 1}),
    ],
)
def test_as_many_blocks_are_expected_to_fit_as_the_compiler_lets(name, config, report_of):
    """An estimate of four, where three fit, made 2976x448x1024 a sixth slower than it might have been."""
    kernel = find(name)
    config, guards = kernel.config(config), Variant(edges=True, aligned=True)
    report = report_of(kernel, config, guards, "sm_90a").report
    estimate, compiled = (footprint(kernel, config, H200, guards, said).occupancy for said in (None, report))
    assert estimate.blocks == compiled.blocks


def test_an_operand_that_lies_as_it_is_read_is_not_transposed():
    kernel = find("tma_transposed")
    neither, of_a, of_b, both = (
        footprint(kernel, kernel.config(), H200, Variant(edges=False, aligned=True, layout=layout)).busy
        for layout in ("TN", "NN", "TT", "NT")
    )
    assert neither < min(of_a, of_b)
    assert both - neither == pytest.approx((of_a - neither) + (of_b - neither))


def test_tensor_cores_multiply_faster_than_lanes():
    kernel = find("wmma_f16")
    plain = replace(kernel, cost=replace(kernel.cost, tensor_cores=False))
    variant = Variant(edges=False, aligned=True, factors="float16")
    fast, slow = (footprint(one, one.config(), H200, variant).busy for one in (kernel, plain))
    assert slow > 2 * fast


def test_a_tall_product_is_streamed_as_its_transpose_is():
    skinny = find("skinny")
    wide = skinny.config({"TM": 2, "TN": 4, "THREADS_N": 8, "THREADS_M": 1})
    tall = skinny.config({"TM": 4, "TN": 2, "THREADS_N": 1, "THREADS_M": 8})
    one, other = (footprint(skinny, config, H200, PLAIN) for config in (wide, tall))
    assert (one.busy, one.alone, one.occupancy) == (other.busy, other.alone, other.occupancy)
