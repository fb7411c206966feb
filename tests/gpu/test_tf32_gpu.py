"""Products in TF32 on a real GPU: how much they err next to cuBLAS's, and what the copy engine rounds elements to."""

import numpy as np
import pytest

import tilewright
from this_gpu import CAPABILITY
from tilewright.core.problem import LAYOUTS
from tilewright.emulator.engine import EmulatorEngine

pytestmark = pytest.mark.skipif(CAPABILITY != (9, 0), reason="wgmma is Hopper's alone")

each = pytest.mark.parametrize("kernel", ["gemm_tf32", "gemm_tf32_nn", "gemm_tf32_tt"])
LARGEST = float(np.finfo(np.float32).max)


@pytest.fixture
def torch(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    return torch


def factors(torch, layout, m, n, k, draw="randn"):
    """Factors in these orders, on the GPU."""
    torch.manual_seed(k)
    a, b = (getattr(torch, draw)(rows, cols, device="cuda") for rows, cols in ((m, k), (k, n)))
    return (one if order == "N" else one.T.contiguous().T for one, order in zip((a, b), layout, strict=True))


def rounded(torch, x):
    """To TF32, to nearest, ties to even."""
    bits = x.contiguous().view(torch.int32)
    return (
        ((bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFF).view(torch.float32).as_strided(x.shape, x.contiguous().stride())
    )


def error(result, a, b):
    exact = a.double() @ b.double()
    return ((result.double() - exact).norm() / exact.norm()).item()


def same(torch, one, other):
    """Whether two results have the same bits."""
    return torch.equal(one.contiguous().view(torch.int32), other.contiguous().view(torch.int32))


@each
@pytest.mark.parametrize("draw", ["randn", "rand"])
@pytest.mark.parametrize("sizes", [(2048, 2048, 4096), (517, 389, 1001), (512, 512, 64)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_errs_hardly_more_than_cublas(torch, layout, sizes, draw, kernel):
    """A long k with a result so large that cuBLAS has no reason to divide k: shorter sums drift less."""
    a, b = factors(torch, layout, *sizes, draw)
    ours = tilewright.matmul(a, b, kernel=kernel, precision="tf32")
    assert error(ours, a, b) <= 1.2 * error(a @ b, a, b)


@each
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [256, 131])
def test_elements_are_rounded_to_nearest_as_on_the_emulator(torch, layout, k, kernel):
    """Whether they are read in place or copied first."""
    a, b = factors(torch, layout, 200, 136, k)
    ours = tilewright.matmul(a, b, kernel=kernel)
    assert same(torch, ours, tilewright.matmul(rounded(torch, a), rounded(torch, b), kernel=kernel))
    emulated = tilewright.matmul(a.cpu().numpy(), b.cpu().numpy(), kernel=kernel, engine=EmulatorEngine())
    np.testing.assert_array_equal(ours.cpu().numpy().view(np.uint32), emulated.view(np.uint32))


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"BM": 256, "BN": 128, "CLUSTER_M": 2},
        {"BN": 128, "STAGES": 7, "PINGPONG": 1},
        {"BM": 192, "BN": 168, "CONSUMERS": 3, "CLUSTER_N": 2},
        {"BM": 128, "BN": 160, "CONSUMERS": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize(("kernel", "layout"), [("gemm_tf32_nn", "NN"), ("gemm_tf32_tt", "TT")])
def test_all_tiles_of_factors_in_registers_make_the_bits_of_the_other_kernel(torch, overrides, kernel, layout):
    """Many tiles a block, so that registers are loaded again and again while tensor cores read the others."""
    a, b = factors(torch, layout, 2600, 3000, 2048)
    expected = tilewright.matmul(a, b, kernel="gemm_tf32")
    for _ in range(20):
        assert same(torch, tilewright.matmul(a, b, kernel=kernel, config=overrides), expected)


@each
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, LARGEST, -LARGEST, 2.0**127, 2.0**-140, 2.0**-149])
def test_the_ends_of_the_range_come_out_as_cublas_has_them(torch, layout, value, kernel):
    a, b = (torch.zeros(128, 128, device="cuda") for _ in "ab")
    a[3, 5], b[5] = value, 1.0
    a, b = (one if order == "N" else one.T.contiguous().T for one, order in zip((a, b), layout, strict=True))
    ours, usual = tilewright.matmul(a, b, kernel=kernel), a @ b
    torch.testing.assert_close(ours, usual, rtol=2.0**-10, atol=0, equal_nan=True)


def test_what_is_picked_keeps_the_promise_in_gradients_too(torch):
    a, b = (torch.randn(2048, 2048, device="cuda", requires_grad=True) for _ in "ab")
    result = tilewright.matmul(a, b, precision="tf32")
    of_a, _ = torch.autograd.grad(result.sum(), (a, b))
    with torch.no_grad():
        assert error(result, a, b) <= 1.2 * error(a @ b, a, b)
        ones = torch.ones_like(result)
        assert error(of_a, ones, b.T) <= 1.2 * error(ones @ b.T, ones, b.T)
