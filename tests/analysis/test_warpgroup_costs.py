"""The cost model of kernels whose warpgroups multiply, against what was measured on an H200 in microseconds."""

import math
import statistics
from dataclasses import replace

import pytest

from tilewright.analysis.cost import CostModel, Sizes, predict
from tilewright.analysis.footprint import footprint
from tilewright.engines import nvrtc
from tilewright.gpus import find_gpu
from tilewright.kernels import find
from tilewright.kernels.takes import Variant
from tilewright.problem import Arithmetic, Problem, orders

H200 = find_gpu("NVIDIA H200", (9, 0))
GEMM = find("gemm_sm90")
PLAIN = Variant(edges=False, aligned=True, factors="bfloat16", result="bfloat16")

MEASURED = {
    "NN 4096": """128,256,4,8 207.9; 128,256,4,1 208.8; 128,256,4,16 209.3; 256,128,4,8 211.2; 256,128,4,16 212.2;
        128,256,3,16 212.3; 128,128,6,16 218.9; 128,208,4,16 237.4; 256,192,3,8 238.7; 256,192,3,16 240.0;
        128,192,5,16 241.9; 256,160,3,8 270.4""",
    "NN 8192": """128,192,5,16 1662; 128,256,4,8 1668; 128,256,4,16 1671; 256,128,4,8 1678; 128,256,4,1 1679;
        256,128,4,16 1681; 128,256,3,16 1683; 256,160,3,8 1727; 256,192,3,16 1745; 128,128,6,16 1745;
        256,192,3,8 1747; 128,208,4,16 1820""",
    "NT 4096": "128,256,4,16 209.8; 256,128,4,8 211.3; 256,192,3,8 240.1",
    "TT 4096": "128,256,4,16 210.5; 256,128,4,8 211.3; 256,192,3,8 239.5",
    "NN 512": "128,64,7,8 4.9; 128,96,6,8 6.1; 128,128,6,8 7.0; 128,256,4,16 11.3; 256,128,4,8 11.3",
    "NN 1024": "128,64,7,8 7.1; 128,96,6,8 8.4; 128,128,6,8 9.6; 128,256,4,16 16.2; 256,128,4,8 16.3",
    "NN 2048": "128,128,6,8 29.6; 128,256,4,16 30.3; 256,128,4,8 30.6; 128,64,7,8 36.0; 128,96,6,8 43.6",
    "NT 512x4096x4096": "128,128,6,8 26.8; 128,64,7,8 31.9; 128,96,6,8 38.1; 128,256,4,16 44.3; 256,128,4,8 44.3",
}
"""Of gemm_sm90, by layout and shape: BM, BN, STAGES and BAND, and the time."""

RUNGS = {("wgmma", 4096): 1194, ("wgmma_tma", 4096): 221.8, ("specialised", 4096): 218.0, ("persistent", 4096): 211.5}
RUNGS |= {("persistent", 8192): 1701}


def posed(shape, layout="NN", **others):
    a, b = orders(layout)
    return Problem.parse(shape, arithmetic=Arithmetic("bfloat16", "bfloat16"), a=a, b=b, **others)


def cost(shape, kernel=GEMM, layout="NN", batch=1, **config):
    return predict(kernel, kernel.config(config), posed(shape, layout, batch=batch), H200)


@pytest.mark.parametrize("case", MEASURED)
def test_it_predicts_the_times_of_the_librarys_kernel_and_picks_a_fast_config(case):
    layout, shape = case.split()
    problem, errors, ranked = posed(shape, layout), [], []
    for line in MEASURED[case].split(";"):
        values, time = line.split()
        config = GEMM.config(dict(zip(("BM", "BN", "STAGES", "BAND"), map(int, values.split(",")), strict=True)))
        predicted = predict(GEMM, config, problem, H200).us
        errors.append(abs(math.log(predicted / float(time))))
        ranked.append((predicted, float(time)))
    assert statistics.mean(errors) < 0.05
    assert max(errors) < 0.12
    assert min(ranked)[1] < 1.03 * min(time for _, time in ranked)


@pytest.mark.parametrize(("name", "size"), RUNGS)
def test_it_predicts_the_times_of_the_rungs(name, size):
    assert cost(str(size), find(name)).us == pytest.approx(RUNGS[name, size], rel=0.05)


def test_it_ranks_the_rungs():
    times = [cost("4096", find(name)).us for name in ("wgmma", "wgmma_tma", "specialised", "persistent")]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("name", ["wgmma", "wgmma_tma", "specialised", "persistent", "gemm_sm90"])
def test_estimates_hold_as_many_blocks_as_the_compiler_lets(name):
    kernel = find(name)
    report = nvrtc.compile(kernel, kernel.config(), PLAIN, "sm_90a").report
    estimate, compiled = (footprint(kernel, kernel.config(), H200, PLAIN, said).occupancy for said in (None, report))
    assert estimate.blocks == compiled.blocks


def test_tensor_cores_work_at_their_peak():
    found = footprint(GEMM, GEMM.config({"BM": 128, "BN": 256}), H200, PLAIN)
    assert found.tensor == 2 * 128 * 256 * 64 / 4096
    assert found.tensor < found.busy < 1.2 * found.tensor


def test_narrow_tiles_wait_for_what_they_load():
    narrow, wide = (footprint(GEMM, GEMM.config({"BN": columns}), H200, PLAIN) for columns in (64, 256))
    assert narrow.busy / narrow.tensor > 1.2 * wide.busy / wide.tensor


def test_a_persistent_block_starts_once():
    one, many = (cost(shape, find("specialised")).us - cost(shape, find("persistent")).us for shape in ("512", "8192"))
    assert one == pytest.approx(0, abs=0.01)
    assert many > 5


def test_the_clock_falls_where_all_tensor_cores_work():
    """With half of the tiles, and so of the multiprocessors, at a higher clock."""
    half, all_of_them = cost("1024x2048x16384"), cost("2048x2048x16384")
    assert half.blocks_us < 0.85 * all_of_them.blocks_us
    cool, cold = (cost(shape, BN=256).blocks_us for shape in ("128x256x16384", "256x256x16384"))
    assert cool == cold


def test_lines_that_straddle_are_requested_twice():
    """208 columns are 416 bytes, which begin at a line's boundary in one of four tiles."""
    straddling, whole = (footprint(GEMM, GEMM.config({"BN": columns}), H200, PLAIN).busy for columns in (208, 256))
    assert straddling > 0.95 * whole
    along_k = PLAIN._replace(layout="NT")
    straddling, whole = (footprint(GEMM, GEMM.config({"BN": columns}), H200, along_k).busy for columns in (208, 256))
    assert straddling < 0.85 * whole


def test_stores_of_longer_runs_take_less():
    longer = replace(GEMM, cost=replace(GEMM.cost, run=lambda config: 32))
    assert cost("2048", longer).us < cost("2048").us - 2


def test_warpgroups_that_alternate_store_while_others_multiply():
    alternating = replace(GEMM, cost=replace(GEMM.cost, alternates=lambda config: True))
    one_tile, many = (
        {kernel: cost(shape, kernel).blocks_us for kernel in (GEMM, alternating)} for shape in ("256", "8192")
    )
    assert one_tile[alternating] == pytest.approx(one_tile[GEMM])
    assert many[alternating] < 0.99 * many[GEMM]


def test_clusters_save_the_l2_cache_a_part_of_b():
    paired = replace(GEMM, cost=replace(GEMM.cost, cluster=lambda config: 2))
    shape = "16384x16384x64"
    assert cost(shape, paired).traffic_us <= cost(shape).traffic_us
    of_a, of_b = (CostModel(kernel, kernel.config(), H200) for kernel in (GEMM, paired))
    sizes = Sizes.of(posed("4096"))
    assert of_b.predict(sizes).traffic_us < 0.7 * of_a.predict(sizes).traffic_us


def test_bands_save_traffic_of_large_matrices():
    assert cost("16384", BAND=8).traffic_us <= cost("16384", BAND=1).traffic_us


def test_a_batch_takes_as_long_as_one_product_of_as_many_tiles():
    assert cost("512", batch=8).blocks_us == cost("4096x512x512").blocks_us


@pytest.mark.parametrize("name", ["wgmma", "wgmma_tma", "specialised", "persistent", "gemm_sm90"])
@pytest.mark.parametrize("shape", ["0", "1", "0x5x3", "5x3x0", "1x70000x3", "8x8x100000"])
def test_small_and_empty_problems_have_a_cost(name, shape):
    assert 0 < cost(shape, find(name)).us < 10_000


def test_more_of_anything_takes_longer():
    times = [cost(shape).us for shape in ("128", "512", "1024", "2048", "4096", "8192", "16384")]
    assert times == sorted(times)
    assert cost("4096x4096x4160").us > cost("4096").us
    assert cost("4097x4096x4096").us > cost("4096").us
    assert cost("4095").us > cost("4096").us, "rows that are not aligned are copied first"
