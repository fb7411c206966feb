"""The cost model of kernels whose warpgroups multiply, against what was measured on an H200 in microseconds."""

import json
import math
import statistics
from dataclasses import replace
from typing import NamedTuple

import pytest

from tilewright.core.gpus import clusters, find_gpu
from tilewright.core.problem import Arithmetic, Problem, orders
from tilewright.kernels import find
from tilewright.kernels.config import Config, parse_overrides
from tilewright.kernels.support import Variant
from tilewright.tools.explain.cost.prediction import footprint, line_starts, predict

H200 = find_gpu("NVIDIA H200", (9, 0))
GEMM = find("gemm_sm90")
STORES_SINGLE = replace(GEMM, cost=replace(GEMM.cost, realigns=False))
"""As it was when it was measured: each element of rows that are not aligned was stored on its own."""
PLAIN = Variant(edges=False, aligned=True, factors="bfloat16", result="bfloat16")

ORDERS = ("NN", "NT", "TN", "TT")
RUNGS = {("wgmma", 4096): 1194, ("wgmma_tma", 4096): 221.8, ("specialised", 4096): 218.0, ("persistent", 4096): 211.5}
RUNGS |= {("persistent", 8192): 1701}


def problem_of(shape, layout="NN", **others):
    a, b = orders(layout)
    return Problem.parse(shape, arithmetic=Arithmetic("bfloat16", "bfloat16"), a=a, b=b, **others)


def cost(shape, kernel=GEMM, layout="NN", batch=1, **config):
    return predict(kernel, kernel.config(config), problem_of(shape, layout, batch=batch), H200)


class Measurement(NamedTuple):
    """A run of gemm_sm90."""

    problem: Problem
    config: Config
    us: float

    @property
    def error(self):
        """Logarithm of the predicted over the measured time."""
        return math.log(predict(STORES_SINGLE, self.config, self.problem, H200).us / self.us)


@pytest.fixture(scope="module")
def measured(request):
    """The runs that the constants were fitted to, and 194 more."""
    return timed(request, "fitted")


def timed(request, group):
    """Runs of the tidy table: those that the constants were fitted to, or of 1000 and 2056 since a warp elects the
    thread that loads."""
    facts = json.loads((request.config.rootpath / "results/h200/tuning/warpgroup_times.json").read_text())
    configs = [GEMM.config(parse_overrides(words)) for words in facts["configs"]]
    found = []
    for of, m, n, k, batch, layout, dtype, result, config, us in facts["times"]:
        if of == group:
            a, b = orders(layout)
            problem = Problem(m, n, k, Arithmetic(dtype, result), batch=batch, a=a, b=b)
            found.append(Measurement(problem, configs[config], us))
    return found


def _line_starts(problem):
    return min(line_starts(problem))


GROUPS = {
    "all": (0.075, lambda problem, config: True),
    "NN": (0.08, lambda problem, config: problem.layout == "NN"),
    "NT": (0.07, lambda problem, config: problem.layout == "NT"),
    "TN": (0.07, lambda problem, config: problem.layout == "TN"),
    "TT": (0.05, lambda problem, config: problem.layout == "TT"),
    "whole lines": (0.07, lambda problem, config: _line_starts(problem) == 128),
    "lines that straddle": (0.10, lambda problem, config: _line_starts(problem) < 128),
    "relayouts": (0.13, lambda problem, config: not (problem.a.aligned(2, 16) and problem.b.aligned(2, 16))),
    "2 splits": (0.08, lambda problem, config: config.SPLITS == 2),
    "4 splits": (0.05, lambda problem, config: config.SPLITS == 4),
    "8 splits": (0.08, lambda problem, config: config.SPLITS == 8),
    "clusters": (0.08, lambda problem, config: config.CLUSTER_M > 1),
    "alternating": (0.08, lambda problem, config: config.PINGPONG),
    "batches": (0.10, lambda problem, config: problem.batch > 1),
    "float16": (0.07, lambda problem, config: problem.dtype == "float16"),
}
"""Runs that have something in common, and their largest mean error."""


@pytest.mark.first(5)
@pytest.mark.parametrize("group", GROUPS)
def test_it_predicts_the_times_of_the_librarys_kernel(measured, group):
    most, belongs = GROUPS[group]
    errors = [one.error for one in measured if belongs(one.problem, one.config)]
    assert len(errors) > 20
    assert statistics.mean(map(abs, errors)) < most
    assert abs(statistics.median(errors)) < 0.04


def test_what_it_picks_is_fast(measured):
    by_problem = {}
    for one in measured:
        by_problem.setdefault(one.problem, []).append((one.us * math.exp(one.error), one.us))
    slower = [min(times)[1] / min(us for _, us in times) for times in by_problem.values()]
    assert len(slower) > 150
    assert statistics.mean(slower) < 1.025
    assert max(slower) < 1.2


@pytest.mark.parametrize(("name", "size"), RUNGS)
def test_it_predicts_the_times_of_the_rungs(name, size):
    assert cost(str(size), find(name)).us == pytest.approx(RUNGS[name, size], rel=0.1)


def test_it_ranks_the_rungs():
    times = [cost("4096", find(name)).us for name in ("wgmma", "wgmma_tma", "specialised", "persistent")]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("name", ["wgmma", "wgmma_tma", "specialised", "persistent", "gemm_sm90"])
def test_estimates_hold_as_many_blocks_as_the_compiler_lets(name, report_of):
    kernel = find(name)
    report = report_of(kernel, kernel.config(), PLAIN, "sm_90a").report
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
    assert half.blocks_us < 0.9 * all_of_them.blocks_us
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
    shorter = replace(GEMM, cost=replace(GEMM.cost, run=lambda config: 8))
    assert cost("2048").us < cost("2048", shorter).us - 0.5


def test_elements_are_stored_one_by_one_where_rows_are_not_aligned():
    """By gemm_sm90 only those at the ends of a tile's rows."""
    aligned, ends, each = cost("2048").us, cost("2048x2047x2048").us, cost("2048x2047x2048", STORES_SINGLE).us
    assert aligned < ends < each - 5


def test_warpgroups_that_alternate_store_while_others_multiply():
    alternating = replace(GEMM, cost=replace(GEMM.cost, alternates=lambda config: True))
    one_tile, many = (
        {kernel: cost(shape, kernel).blocks_us for kernel in (GEMM, alternating)} for shape in ("256", "8192")
    )
    assert one_tile[GEMM] < one_tile[alternating] < 1.3 * one_tile[GEMM], "a warpgroup alone stores longer"
    assert many[alternating] < 0.99 * many[GEMM]


def test_clusters_save_the_l2_cache_a_part_of_b():
    paired = replace(GEMM, cost=replace(GEMM.cost, cluster=lambda config: 2))
    shape = "16384x16384x64"
    assert cost(shape, paired).traffic_us <= cost(shape).traffic_us
    assert cost("4096", paired).traffic_us < 0.8 * cost("4096").traffic_us


def test_blocks_side_by_side_load_as_much_of_a_as_blocks_below_each_other_of_b():
    of_b, of_a = (cost("2048", BM=128, BN=128, **{name: 2}) for name in ("CLUSTER_M", "CLUSTER_N"))
    assert of_a == of_b
    pair, four = (cost("4104", BM=128, BN=128, STAGES=7, CLUSTER_M=2, CLUSTER_N=across) for across in (1, 2))
    assert four.traffic_us < 0.8 * pair.traffic_us


def test_blocks_that_divide_k_take_less_where_there_are_few_tiles():
    assert cost("256x256x16384", SPLITS=8).us < 0.4 * cost("256x256x16384").us
    assert cost("8192", SPLITS=4, BN=128).us > cost("8192", BN=128).us


def test_clusters_leave_multiprocessors_idle():
    """31 clusters of 4 blocks fit at a time, and 15 of 8; of tiles along n, one more takes a wave more."""
    assert [clusters(132, blocks) for blocks in (1, 2, 4, 8)] == [132, 66, 31, 15]
    for splits, most in ((2, 66), (4, 31), (8, 15)):
        one, two = (cost(f"128x{128 * tiles}x2048", BN=128, SPLITS=splits) for tiles in (most, most + 1))
        assert two.blocks_us > 1.8 * one.blocks_us
    rows = [cost(f"{rows}x8448x2048", BN=256, CLUSTER_M=2, GROUP_M=8).blocks_us for rows in (512, 640, 768, 1024)]
    assert rows[0] < rows[1] == pytest.approx(rows[2], rel=0.01), "a cluster has rows of two tiles"


def test_lines_that_begin_within_a_line_take_longer():
    whole, halves, quarters, sectors, misplaced = (
        cost(f"2048x2048x{k}", layout="NT").us for k in (2048, 2048 + 32, 2048 + 16, 2048 - 16, 2048 + 8)
    )
    assert whole < halves < quarters < misplaced
    assert quarters == pytest.approx(sectors, rel=0.03)
    assert 1.4 < misplaced / whole < 2


def test_lines_that_blocks_load_for_each_other_come_once():
    """As measured on an H100, where tiles of 192x64 by four blocks took 2% longer at 1000 than at 1024, and tiles of
    128x64 by one block 87%."""
    shared, alone = (
        cost("1000", **config).us / cost("1024", **config).us
        for config in ({"BM": 192, "BN": 64, "CLUSTER_N": 4, "STAGES": 6, "CONSUMERS": 3}, {"BM": 128, "BN": 64})
    )
    assert shared < 1.15
    assert 1.4 < alone < 2


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_lines_that_straddle_cost_no_more_where_blocks_share_them(request, blocks):
    errors = [
        math.log(predict(GEMM, config, problem, H200).us / us)
        for problem, config, us in timed(request, "elected")
        if min(config.CLUSTER_M * config.CLUSTER_N, 4) == blocks
    ]
    assert len(errors) > 20
    assert 0 < statistics.mean(errors) < 0.18
    assert max(errors) < 0.35


def test_groups_save_traffic_of_large_matrices():
    assert cost("16384", GROUP_M=8).traffic_us <= cost("16384", GROUP_M=1).traffic_us


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


@pytest.mark.parametrize(("layout", "of_d_transposed"), [("NN", "TT"), ("NT", "NT"), ("TN", "TN"), ("TT", "NN")])
@pytest.mark.parametrize("shape", [(264, 4696, 3792), (8200, 40000, 4096)])
def test_a_product_of_d_transposed_takes_as_long_as_it_does_on_its_own(shape, layout, of_d_transposed):
    """D's rows are whole pieces of 16 bytes either way."""
    m, n, k = shape
    for tile in ({"BN": 96, "CLUSTER_M": 2}, {"BN": 104, "PINGPONG": 1, "CLUSTER_N": 2}, {"BN": 64, "SPLITS": 2}):
        given = {"STAGES": 4, "GROUP_M": 4, **tile}
        own = cost(f"{n}x{m}x{k}", layout=of_d_transposed, **given)
        assert cost(f"{m}x{n}x{k}", layout=layout, **given, SWAP_AB=1) == own
