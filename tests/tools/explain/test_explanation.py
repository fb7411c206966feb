"""Explanations: everything together, its JSON, the sentence on what binds."""

import json

import pytest

from tilewright.core.errors import ConfigError, DtypeError, EngineUnavailableError
from tilewright.core.gpus import GPUS, gpu_named
from tilewright.core.problem import Arithmetic, Problem, Scalars
from tilewright.kernels import find
from tilewright.runtime import machine_code_tools
from tilewright.tools.explain.explanation import MeasuredSpeed, Waves, explain, idle_words, time_words, to_json, verdict
from tilewright.tools.report.explain_tables import roofline_words

H200 = gpu_named("H200")


def explained(name, shape="256", gpu=H200, scalars=Scalars(), **fields):
    kernel = find(name)
    return explain(kernel, kernel.config(), Problem.parse(shape, **fields), gpu, scalars=scalars)


@pytest.mark.further
def test_json_has_what_was_asked_for():
    facts = to_json(explained("thread_tiled_2d", scalars=Scalars(alpha=2.0, beta=0.5)))
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    for group in ("global_load", "global_store"):
        assert facts[group]["requests"] > 0
        assert facts[group]["sectors"] > 0
    for group in ("shared_load", "shared_store"):
        assert facts[group]["requests"] > 0
        assert facts[group]["wavefronts"] >= facts[group]["requests"]
    assert facts["shape"] == "256x256x256"
    assert (facts["alpha"], facts["beta"]) == (2.0, 0.5)
    assert facts["ffma"] == 256**3 + 256**2
    assert 0 < facts["registers"] <= 255
    assert facts["shared_memory"] == 2 * 4 * 8 * 128
    assert facts["occupancy"]["limited_by"] == ["registers"]
    assert facts["roofline"]["binds"] == "arithmetic"
    assert facts["bytes"]["least"] == 4 * 4 * 256 * 256
    assert facts["bytes"]["requested"] == 32 * (facts["global_load"]["sectors"] + facts["global_store"]["sectors"])
    assert facts["predicted"]["us"] > 0
    assert facts["measured"] is None
    assert 0.5 < facts["issue"]["multiply_share"] < 1
    assert facts["issue"]["time_us"] > facts["roofline"]["arithmetic_us"]


@pytest.mark.further
def test_merged_accesses_are_counted_as_the_gpu_makes_them_and_it_says_so():
    one = explained("shared_tiled", "64")
    loads = one.traffic.groups["shared_load"]
    per_tile_and_warp = 2 * 2 * 2 * 32
    assert loads.written_requests == per_tile_and_warp * 64
    assert loads.requests == per_tile_and_warp * (32 + 32 // 4), "of A's row four at a time, of B's column one"
    assert any("shared_tiled.cu" in note and "merges" in note for note in one.notes)
    assert not any("merges" in note for note in explained("vectorized").notes), "its source has vectors already"


@pytest.fixture
def no_disassembler(monkeypatch):
    def missing(code):
        raise EngineUnavailableError("no nvdisasm")

    monkeypatch.setattr(machine_code_tools, "disassemble", missing)


@pytest.mark.further
@pytest.mark.usefixtures("no_disassembler")
def test_without_a_disassembler_it_says_that_merging_is_not_known():
    one = explained("shared_tiled", "64")
    loads = one.traffic.groups["shared_load"]
    assert loads.requests == loads.written_requests
    assert one.issue is None
    assert any("as the source makes them" in note and "no nvdisasm" in note for note in one.notes)


@pytest.mark.first(1)
@pytest.mark.usefixtures("no_disassembler")  # it takes half a second a GPU
@pytest.mark.parametrize("gpu", [*{gpu.capability: gpu for gpu in GPUS}.values()], ids=lambda gpu: gpu.name)
def test_every_generation_of_gpus_has_an_occupancy(gpu):
    one = explained("vectorized", "128", gpu=gpu)
    assert 1 <= one.occupancy.blocks <= gpu.multiprocessor.blocks
    assert one.waves.at_a_time == one.occupancy.blocks * gpu.multiprocessors
    assert verdict(one)


@pytest.mark.further
def test_a_gpu_too_old_is_refused_and_one_too_old_for_the_compiler_is_noted():
    notes = explained("naive", gpu=gpu_named("V100")).notes
    assert any("V100 has compute capability 7.0" in note and "7.5 and newer" in note for note in notes)
    with pytest.raises(ConfigError, match=r"compute capability 8\.0"):
        explained("async_copy", gpu=gpu_named("T4"))
    with pytest.raises(DtypeError):
        explained("naive", arithmetic="float16")


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("naive", "1024", "The L1 cache binds: a load of a warp touches 16.5 sectors and takes 16.5 passes"),
        ("shared_tiled", "1024", "Shared memory binds"),
        ("conflict_free", "1024", "as it is issued"),
        ("warptiled", "256", "The 8 blocks leave 124 of 132 multiprocessors without work"),
        ("coalesced", "0x4x4", "nothing to multiply"),
    ],
)
def test_the_sentence_names_what_binds(name, shape, words):
    assert words in verdict(explained(name, shape))


def test_multiprocessors_without_work_are_counted():
    without = "131 of 132 multiprocessors without work, whatever binds."
    assert idle_words(H200, 1) == [f"The only block leaves {without}"]
    assert idle_words(H200, 2) == [f"The 2 blocks leave {without.replace('131', '130')}"]
    assert idle_words(H200, 132) == []


@pytest.mark.further
@pytest.mark.parametrize(
    ("name", "overrides", "words"),
    [
        (
            "persistent",
            {},
            "Tensor cores bind: they take 128 us at their peak. Of the levels of memory L2 takes longest, 126 us.",
        ),
        ("gemm_sm90", {"BN": 64, "STAGES": 7}, "The L2 cache binds: it serves 32 times the bytes that must be moved"),
    ],
)
def test_what_binds_products_of_warpgroups(name, overrides, words):
    kernel = find(name)
    problem = Problem.parse("4096", arithmetic=Arithmetic("bfloat16", "bfloat16"))
    one = explain(kernel, kernel.config(overrides), problem, H200)
    assert words in verdict(one)
    tile = kernel.tile(one.config)
    assert one.bytes.tiles == 2 * 4096**3 * (tile.m + tile.n) // (tile.m * tile.n)
    facts = to_json(one)
    assert facts["bytes"]["tensor_maps"] == one.bytes.tiles
    assert facts["product"]["bytes"] == 128 * facts["product"]["wavefronts"] == facts["bytes"]["shared"]
    assert "sectors" not in facts["product"]


@pytest.mark.further
def test_it_says_one_time_and_no_level_takes_longer():
    for name, shape in (("coalesced", "512"), ("wmma_tf32", "512")):
        one = explained(name, shape)
        facts = to_json(one)
        assert f"It takes {time_words(facts['predicted']['us'])} by the model" in facts["verdict"]
        assert "expects" not in roofline_words(one)
        assert max(one.times_us.values()) < one.predicted.us


@pytest.mark.further
def test_instructions_issue_no_faster_than_lanes_multiply():
    """A partition of an A100 has 16 lanes, so that a warp's multiply-add takes two clocks of them."""
    one = explained("warptiled", "512", gpu=gpu_named("A100 40GB"))
    assert one.issue.time_us >= one.roofline.arithmetic_us
    assert one.issue.instructions / (4 * 108 * 1410) < one.issue.time_us


@pytest.mark.further
def test_where_all_warps_wait_waits_bind():
    one = explained("warptiled", "64")
    assert one.binds == "waits"
    assert 0 < one.predicted.working < 0.5
    assert "Waits bind" in verdict(one)


def test_what_each_cache_keeps():
    one = explained("naive", "1024")
    assert "The L1 cache should have 99% of that" in roofline_words(one)
    assert one.predicted.dram_bytes <= one.predicted.l2_bytes < one.bytes.requested / 50


@pytest.mark.further
def test_the_error_of_products_of_parts_is_reported():
    split, promoted, naive = (explained(name) for name in ("split", "promoted", "naive"))
    assert split.error > 10 * promoted.error
    assert to_json(split)["predicted_error"] == split.error
    assert f"it should err by {split.error:.1e}; float32 in order by" in roofline_words(split)
    assert naive.error is None
    assert "should err" not in roofline_words(naive)


def test_waves():
    assert (Waves(264, 132).number, Waves(264, 132).tail) == (2, 1)
    assert Waves(265, 132).tail == pytest.approx(1 / 132)
    assert (Waves(0, 132).number, Waves(5, 0).number, Waves(5, 0).tail) == (0, 0, 0)


def test_measured_time():
    assert MeasuredSpeed(1000.0, "a record").time_us(Problem(100, 100, 50)) == pytest.approx(1.0)
