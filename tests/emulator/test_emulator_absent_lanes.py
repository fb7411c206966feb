"""Shuffles that read lanes that take no part: wrong where anything depends on what they get."""

import pytest

from tilewright.core.problem import Problem, Scalars
from tilewright.emulator.launches import check_launch
from tilewright.kernels.source.products import from_source
from tilewright.kernels.source.source_launch import read_launch
from tilewright.tools.bench.case import CheckCase
from tilewright.tools.bench.checking import outcomes

SOURCE = """
// tilewright: grid=1 x=float32[48] y=zeros:float32[48]
#define FULL 0xffffffffu
__device__ float sum_of(float v, unsigned mask, int most = 16, int width = 32) {
    for (int d = most; d > 0; d /= 2) v += __shfl_down_sync(mask, v, d, width);
    return v;
}
__global__ void each(const float* x, float* y, int way, int n) {
    const int t = threadIdx.x, lane = t % 32;
    float v = x[t];
    switch (way) {
        case 1:  // wrong: lanes that have gone past
            if (t >= n) return;
            for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(FULL, v, d);  // gone
            if (lane == 0) y[t] = v;
            return;
        case 2:
            if (lane < 16) v = __shfl_sync(0xffffu, v, lane + 16);  // outside
            break;
        case 3:
            v = max(v, __shfl_xor_sync(FULL, v, 16));  // never were
            break;
        case 4:
            v = __shfl_up_sync(FULL, v, 1);
            if (lane < 16) v = min(v, __shfl_down_sync(0xffffu, v, 1));  // outside by one
            break;
        case 5:
            if (lane < 16) v = x[__shfl_sync(0xffffu, lane, 31)];  // an index
            break;
        case 6:  // right: what is undefined goes nowhere
            if (t >= n) return;
            v = sum_of(v, FULL >> (32 - n), 8);
            if (t == 0) y[0] = v;
            return;
        case 7:
            v = __shfl_down_sync(FULL, v, 1);
            if (lane + 1 >= min(int(blockDim.x) - t + lane, 32)) v = 0;
            break;
        case 8:
            if (lane < 16) v = sum_of(v, 0xffffu, 8, 16);
            break;
        case 9:
            if (t >= n) return;  // votes and the like are of the lanes that are left
            v = __ballot_sync(FULL, 1) + __reduce_add_sync(FULL, 1) + __any_sync(FULL, 0) + __match_any_sync(FULL, 1);
            __syncwarp();
            break;
    }
    y[t] = v;
}
"""


def checked(folder, way, block, n):
    file = folder / "each.cu"
    file.write_text(SOURCE)
    return check_launch(read_launch(str(file), f"way={way} n={n}", block=str(block))).findings


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("way", "block", "mark", "lane"),
    [
        (1, 32, "gone", "16, which has returned"),
        (2, 32, "outside", "16, which is not in the mask 0x0000ffff"),
        (3, 48, "never were", "16, which the block does not have"),
        (4, 32, "outside by one", "16, which is not in the mask 0x0000ffff"),
        (5, 32, "an index", "31, which is not in the mask 0x0000ffff"),
    ],
)
def test_reading_lanes_that_take_no_part_is_found(way, block, mark, lane, tmp_path):
    found = [one for one in checked(tmp_path, way, block, 12) if one.kind == "absent lane"]
    (line,) = (number for number, text in enumerate(SOURCE.split("\n"), 1) if text.endswith(f"  // {mark}"))
    assert [str(one.party.line) for one in found] == [f"each.cu:{line}"]
    assert f"reads lane {lane}, at each.cu:{line}, and the result depends on" in str(found[0])


@pytest.mark.parametrize(("way", "block"), [(6, 32), (7, 32), (7, 48), (8, 32), (9, 32)])
def test_what_nothing_depends_on_may_be_undefined(way, block, tmp_path):
    assert checked(tmp_path, way, block, 16) == []


def test_products_are_checked_for_it(tmp_path):
    file = tmp_path / "product.cu"
    file.write_text("""// tilewright: grid=(N,M) block=20
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K) {
    float sum = 0;
    for (int k = threadIdx.x; k < K; k += 20) sum += A[blockIdx.y * K + k] * B[k * N + blockIdx.x];
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_down_sync(0xffffffff, sum, lanes);
    if (threadIdx.x == 0) C[blockIdx.y * N + blockIdx.x] = sum;
}
""")
    kernel = from_source(str(file))
    (outcome,) = outcomes(kernel, [CheckCase(Problem(4, 4, 40), Scalars(), kernel.config())])
    (found,) = outcome.checked.findings
    assert (found.kind, str(found.party.line)) == ("absent lane", "product.cu:5")
