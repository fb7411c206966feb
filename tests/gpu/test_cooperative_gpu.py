"""Kernels that synchronise their grid: all blocks run at once, launched from Python and by the compiled launcher."""

import numpy as np
import pytest

import tilewright
from tilewright.core.errors import LaunchError

pytestmark = pytest.mark.gpu

SOURCE = """// tilewright: block=(16,16) grid=(ceil(N/16),ceil(M/16))
#include <cooperative_groups.h>
// Each block ruins the tile of the block opposite to it before any stores its own.
extern "C" __global__ void opposite(const float* A, const float* B, float* C, int M, int N, int K) {
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    const int other_row = (gridDim.y - 1 - blockIdx.y) * 16 + threadIdx.y;
    const int other_col = (gridDim.x - 1 - blockIdx.x) * 16 + threadIdx.x;
    float sum = 0;
    if (row < M && col < N) {
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    }
    if (other_row < M && other_col < N) C[other_row * N + other_col] = __int_as_float(0x7fffffff);
    cooperative_groups::this_grid().sync();
    if (row < M && col < N) C[row * N + col] = sum;
}
"""


@pytest.fixture
def kernel(tmp_path):
    path = tmp_path / "opposite.cu"
    path.write_text(SOURCE)
    return str(path)


def factors(m, n, k):
    random = np.random.default_rng(0)
    return random.standard_normal((m, k), np.float32), random.standard_normal((k, n), np.float32)


@pytest.mark.parametrize("shape", [(200, 150, 70), (33, 17, 5)])
def test_a_grid_synchronises(kernel, shape):
    a, b = factors(*shape)
    np.testing.assert_allclose(tilewright.matmul(a, b, kernel=kernel), a @ b, rtol=1e-3, atol=1e-4)


def test_so_does_that_of_a_call_that_the_launcher_knows(kernel):
    torch = pytest.importorskip("torch")
    a, b = (torch.from_numpy(one).cuda() for one in factors(200, 150, 70))
    for _ in range(20):
        result = tilewright.matmul(a, b, kernel=kernel)
        torch.testing.assert_close(result, a @ b, rtol=1e-3, atol=1e-4)


def test_blocks_that_cannot_run_at_once_are_refused(kernel):
    a, b = factors(16 * 300, 16 * 300, 2)
    with pytest.raises(LaunchError, match=r"opposite synchronises its grid.* at most \d+ blocks at once.*; got \d+"):
        tilewright.matmul(a, b, kernel=kernel)
