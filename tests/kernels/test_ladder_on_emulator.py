"""Every rung of the course, run by the emulator on drawn problems, against float64."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.core.problem import Layout, Problem, Scalars
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import LADDER, find
from tilewright.runtime.base import run
from tilewright.tools.bench.case import fitting
from tilewright.tools.bench.verify import Operands, limit

ENGINE = EmulatorEngine()
RUNGS = [kernel for kernel in LADDER if kernel.source.parent.name == "ladder"]
# Primes, one, nothing, just under, at and just over the sides of tiles.
SIZES = st.sampled_from([0, 1, 2, 3, 7, 8, 13, 31, 32, 33, 61, 63, 64, 65, 97, 127, 128, 129, 131, 160])
DEPTHS = st.sampled_from([0, 1, 2, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 41, 64])
SCALARS = st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.25])
GAPS = st.sampled_from([0, 1, 3, 4, 8])

# Of rungs whose defaults and presets are not it: a small tile and a large one, and every other way that a source can be
# taken.
CONFIGS = {
    "naive": [{}, {"X_ALONG_N": 1, "BLOCK_X": 16, "BLOCK_Y": 8}],
    "coalesced": [{}, {"BLOCK": 8}],
    "shared_tiled": [{}, {"PAD": 1}, {"TILE": 16}],
    "thread_tiled_1d": [
        {},
        {"BM": 64, "BN": 64, "BK": 16, "TM": 1, "TN": 4},
        {"BM": 64, "BN": 64, "BK": 16, "TM": 1, "TN": 4, "PAD": 1, "SPREAD": 0},
    ],
    "thread_tiled_2d": [{}, {"BM": 64, "BN": 64, "TM": 4, "TN": 4, "PAD": 1}],
    "vectorized": [{}, {"BM": 32, "BN": 64, "BK": 16, "TM": 4, "TN": 8}],
    "conflict_free": [{}, {"BM": 32, "BN": 64, "BK": 16, "TM": 8, "TN": 4}],
    "padded": [{}, {"PAD": 4}],
    "autotuned": [{}, {"BM": 64, "BN": 64, "BK": 16, "TM": 4, "TN": 4}],
    "warptiled": [{}, {"BM": 128, "BN": 64, "BK": 8, "WM": 64, "WN": 32, "WNITER": 1, "TM": 8, "TN": 8}],
    "double_buffered": [{}, {"BM": 128, "BN": 128, "BK": 8, "WN": 64, "WNITER": 1, "TM": 8, "TN": 8}],
    "async_copy": [
        {},
        {"BM": 128, "BN": 64, "BK": 8, "WM": 64, "WN": 32, "WNITER": 1, "TM": 8, "TN": 8, "STAGES": 4},
        {"BM": 64, "BN": 64, "BK": 32, "WM": 64, "WN": 16, "STAGES": 2},
    ],
    "wmma_tf32": [{}, {"BM": 64, "BN": 64, "BK": 8, "WM": 16, "WN": 64}],
    "wmma_f16": [{}, {"BM": 64, "BN": 64, "BK": 16, "WM": 16, "WN": 64}],
    "wgmma": [{}],
    "wgmma_tma": [{"BM": 64, "BN": 192, "STAGES": 2}],
    "specialised": [{"BM": 256, "BN": 64, "STAGES": 2}],
    "persistent": [{"BN": 64}],
    "clusters": [{"BN": 64}, {"BN": 192, "STAGES": 3, "CLUSTER_M": 4}],
    "rasterized": [{}],
    "pingpong": [{}],
    "tma_store": [{"BN": 64}, {"BM": 64, "BN": 192, "STAGES": 3, "CLUSTER_M": 1}],
    "split": [{"BM": 128, "STAGES": 2}],
    "promoted": [{"PROMOTE": 16}, {"BM": 128, "BN": 64, "PROMOTE": 128}],
    "interleaved": [{}, {"BN": 64, "PROMOTE": 128}],
    "wgmma_int8": [{}, {"BM": 64, "BN": 112, "STAGES": 3, "CLUSTER_M": 1}],
}


def configs_of(kernel):
    """Overrides that a rung is run with."""
    return CONFIGS.get(kernel.name) or [{}, *kernel.presets.values()]


# A kernel that takes several element types is run with another one for each of its configs.
CASES = [
    (kernel, overrides, kernel.support.arithmetic(kernel.support.factors[index % len(kernel.support.factors)]))
    for kernel in RUNGS
    for index, overrides in enumerate(configs_of(kernel))
]


def multiply(kernel, overrides, problem, scalars):
    """Run a kernel on random operands; the error."""
    scalars = fitting(scalars, problem.result)
    operands = Operands.draw(problem, scalars)
    a = ENGINE.upload(operands.a, ld=problem.a.ld)
    b = ENGINE.upload(operands.b, ld=problem.b.ld)
    c = ENGINE.upload(operands.c, ld=problem.d.ld)
    run(ENGINE, kernel, kernel.config(overrides), problem, a, b, c, scalars)
    return operands.error(ENGINE.download(c))


@pytest.mark.one_of_each("kernel")
@pytest.mark.parametrize(
    ("kernel", "overrides", "arithmetic"), CASES, ids=lambda value: getattr(value, "name", str(value))
)
@given(m=SIZES, n=SIZES, k=DEPTHS, alpha=SCALARS, beta=SCALARS, gaps=st.tuples(GAPS, GAPS, GAPS))
@settings(max_examples=9, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_a_drawn_problem_is_right(kernel, overrides, arithmetic, m, n, k, alpha, beta, gaps):
    a, b, d = (Layout(ld=max(length, 1) + gap) for length, gap in zip((k, n, n), gaps, strict=True))
    problem = Problem(m, n, k, arithmetic, a=a, b=b, d=d)
    assert multiply(kernel, overrides, problem, Scalars(alpha, beta)) <= limit(problem, kernel.support.precision)


# Of default configs tests/emulator/test_emulator_check.py runs such problems; of the others every second rung does.
@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("kernel", "overrides", "arithmetic"),
    [*{kernel.name: (kernel, overrides, *rest) for kernel, overrides, *rest in CASES if overrides}.values()][::2],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_problem_that_tiles_divide_is_right(kernel, overrides, arithmetic):
    tile = kernel.tile(kernel.config(overrides))
    problem = Problem(2 * tile.m, 2 * tile.n, max(3 * tile.k, 8), arithmetic)
    assert multiply(kernel, overrides, problem, Scalars(0.75, -0.5)) <= limit(problem, kernel.support.precision)


@pytest.mark.first(2)
@pytest.mark.parametrize("cluster", [2, 4])
@pytest.mark.parametrize("name", ["clusters", "tma_store", "wgmma_int8"])
def test_clusters_with_more_blocks_than_tile_rows_are_right(name, cluster):
    """Tiles divide C, so that the code has no guards: blocks below the last tile row must store nothing."""
    kernel = find(name)
    problem = Problem(3 * 128, 64, 192, kernel.support.arithmetic())
    assert multiply(kernel, {"BN": 64, "CLUSTER_M": cluster}, problem, Scalars(0.75, -0.5)) <= limit(problem)


@pytest.mark.first(9)
@pytest.mark.parametrize("kernel", RUNGS, ids=lambda kernel: kernel.name)
def test_nothing_between_the_rows_is_touched(kernel):
    problem = Problem(33, 29, 17, kernel.support.arithmetic(), d=Layout(ld=40))
    operands = Operands.draw(problem)
    memory = np.full((33, 40), 7, problem.result)
    c = ENGINE.upload(memory)
    inside = type(c)(c.pointer, 33, 29, 40, c.dtype, c.owner)
    config = kernel.config(configs_of(kernel)[0])
    run(ENGINE, kernel, config, problem, ENGINE.upload(operands.a), ENGINE.upload(operands.b), inside)
    result = ENGINE.download(c)
    assert operands.error(result[:, :29]) <= limit(problem, kernel.support.precision)
    assert (result[:, 29:] == 7).all()


@pytest.mark.parametrize("kernel", RUNGS, ids=lambda kernel: kernel.name)
def test_operands_off_a_16_byte_boundary_are_right(kernel):
    problem = Problem(64, 64, 32, kernel.support.arithmetic(), a=Layout(ld=33), b=Layout(ld=65), d=Layout(ld=65))
    operands = Operands.draw(problem)
    shifted = []
    for array, ld in ((operands.a, 33), (operands.b, 65), (operands.c, 65)):
        padded = np.zeros((array.shape[0], ld), array.dtype)
        padded[:, 1:] = array
        whole = ENGINE.upload(padded)
        shifted.append(type(whole)(whole.pointer + array.itemsize, *array.shape, ld, whole.dtype, whole.owner))
    run(ENGINE, kernel, kernel.config(configs_of(kernel)[0]), problem, *shifted)
    assert operands.error(ENGINE.download(shifted[2])) <= limit(problem, kernel.support.precision)
