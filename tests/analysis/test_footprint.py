"""What a block asks of a multiprocessor."""

import pytest

from tilewright.analysis.footprint import footprint, fragment, wavefronts
from tilewright.engines import nvrtc
from tilewright.gpus import find_gpu
from tilewright.kernels import find
from tilewright.kernels.takes import Variant

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
    assert fragment(find(name), find(name).config()) == (rows, cols)


@pytest.mark.parametrize(
    ("name", "config", "expected"),
    [
        ("vectorized", {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}, 2 * 1 + 2 * 4),
        ("vectorized", {"BM": 64, "BN": 64, "BK": 16, "TM": 16, "TN": 4}, 4 * 1 + 1 * 2),
        ("warptiled", {}, 2 * 1 + 2 * 1),
    ],
)
def test_wavefronts_of_a_warps_loads(name, config, expected):
    assert wavefronts(find(name), find(name).config(config)) == expected


def test_fragments_do_not_depend_on_how_threads_divide_k():
    split_k = find("split_k")
    for slices in (1, 2, 4):
        assert fragment(split_k, split_k.config({"BK": 32, "SLICES": slices})) == (4, 8)


def test_slices_shorten_a_steps_time_where_a_block_is_alone():
    split_k = find("split_k")
    tile = {"BM": 16, "BN": 32, "BK": 64, "TM": 4, "TN": 4}
    one, four = (footprint(split_k, split_k.config(tile | {"SLICES": slices}), H200, PLAIN) for slices in (1, 4))
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
    config = split_k.config({"BK": 16, "STAGES": 2, "BLOCKS": blocks})
    assert footprint(split_k, config, H200, PLAIN).occupancy.by_registers >= blocks


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("split_k", {"BM": 16, "BN": 32, "BK": 32, "TM": 4, "TN": 4, "SLICES": 4, "STAGES": 3, "WAVE": 264}),
        (
            "split_k",
            {"BM": 64, "BN": 128, "BK": 16, "TM": 8, "TN": 8, "SLICES": 1, "STAGES": 2, "WAVE": 396, "BLOCKS": 3},
        ),
        (
            "tma_transposed",
            {"BM": 32, "BN": 64, "BK": 64, "SLICES": 4, "PLACES": 2, "UNROLL": 16, "WAVE": 396, "BLOCKS": 3},
        ),
        (
            "tma_transposed",
            {"BM": 32, "BN": 64, "BK": 64, "SLICES": 4, "PLACES": 1, "UNROLL": 16, "WAVE": 1, "BLOCKS": 4},
        ),
        (
            "tma_transposed",
            {"BM": 32, "BN": 64, "BK": 64, "SLICES": 4, "UNROLL": 16, "WAVE": 132, "BLOCKS": 3, "BUNDLE": 3},
        ),
        (
            "tma_transposed",
            {
                "BM": 32,
                "BN": 64,
                "BK": 64,
                "SLICES": 4,
                "UNROLL": 16,
                "WAVE": 264,
                "BLOCKS": 4,
                "BUNDLE": 2,
                "PLACES": 1,
            },
        ),
        ("tma_packed", {"BM": 128, "BN": 128, "BK": 52, "STAGES": 2, "WAVE": 132, "CHUNK": 0}),
    ],
)
def test_as_many_blocks_are_expected_to_fit_as_the_compiler_lets(name, config):
    """An estimate of four, where three fit, made 2976x448x1024 a sixth slower than it might have been."""
    kernel = find(name)
    config, guards = kernel.config(config), Variant(edges=True, aligned=True)
    report = nvrtc.compile(kernel, config, guards, "sm_90a").report
    estimate, compiled = (footprint(kernel, config, H200, guards, said).occupancy for said in (None, report))
    assert estimate.blocks == compiled.blocks
