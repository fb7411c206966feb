"""The tile of C that a source's grid says."""

import pytest

from all_stages import own_cases
from tilewright.core.errors import ConfigError
from tilewright.core.gpus import gpu_named
from tilewright.core.problem import Problem, Scalars
from tilewright.kernels.kernel import Tile
from tilewright.kernels.source.products import from_source
from tilewright.tools.explain.explanation import explain
from tilewright.tools.explain.traffic import count

SOURCE = """
__global__ void own(const float* A, const float* B, float* C, int M, int N, int K) {
    const int row = blockIdx.y * BM + threadIdx.x / BN, col = blockIdx.x * BN + threadIdx.x % BN;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
"""


def own(grid, **words):
    return from_source(SOURCE, **{"grid": grid, "block": "BM*BN", "BM": 8, "BN": 16, **words})


REPORTED = (
    "(ceil(N/BN),ceil(M/BM))",
    "(N//BN,M//BM)",
    "(N/BN,M/BM)",
    "((N+BN-1)//BN,floor(M/BM))",
    "(max(N//BN,1),ceil(M/BM))",
    "ceil(N/BN)*ceil(M/BM)",
    "(N//BN)*(M//BM)",
    "(N/BN)*ceil(M/BM)",
    "(1,N//BN,(M+7)//8)",
)


@pytest.mark.parametrize("grid", REPORTED)
def test_the_tile_is_reported_however_a_grid_is_rounded(grid):
    kernel = own(grid)
    assert kernel.unknown_tile(kernel.config()) is None
    assert kernel.tile(kernel.config()) == Tile(8, 16, 32)
    odd = {"BM": 11, "BN": 7}
    if "+7" not in grid:
        assert kernel.tile(kernel.config(odd)) == Tile(11, 7, 32)


@pytest.mark.parametrize(
    ("grid", "reason"),
    {
        "ceil(M*N/128)": "not counted along M and along N",
        "M*N/128": "not counted along M and along N",
        "(ceil(N/BN),ceil(M/BM),ceil(K/64))": "several of its blocks compute one tile",
        "132": "several of its blocks compute one tile",
        "M//100000000": "it has no blocks with M, N and K of 20,643,840",
    }.items(),
)
def test_a_grid_that_does_not_say_is_refused_where_figures_need_it(grid, reason):
    kernel = own(grid)
    with pytest.raises(ConfigError, match=f"does not say which tile of C a block computes: .*{reason}"):
        explain(kernel, kernel.config(), Problem(256, 256, 256), gpu_named("H200"))
    assert own(grid, tile=(8, 16, 32)).unknown_tile(kernel.config()) is None


@pytest.mark.parametrize("grid", ["(N//BN,M//BM)", "(N/BN,M/BM)"])
def test_counts_are_those_of_a_grid_that_is_rounded_up(grid):
    problem, up = Problem(512, 512, 512), own("(ceil(N/BN),ceil(M/BM))")
    found, expected = (count(one, one.config(), problem).groups for one in (own(grid), up))
    assert found["global_load"].requests == 512**3 // 32 * 2
    assert found == expected


def test_what_a_grid_leaves_out_is_not_counted():
    kernel = own("(N//BN,M//BM)")
    assert count(kernel, kernel.config(), Problem(1000, 1000, 64)).groups["global_store"].requests == 1000 * 992 // 32


def test_check_takes_sizes_for_which_a_grid_is_whole():
    kernel = own("(N/BN,M/BM)", BM=12)
    (case,) = own_cases(kernel, kernel.config(), [Scalars()])
    assert (case.problem.m, case.problem.n) == (264, 256)
    with pytest.raises(ConfigError, match="grid must be a whole number, got 'N/1500'"):
        own_cases(own("(N/1500,M/BM)"), kernel.config(), [Scalars()])
