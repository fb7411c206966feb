"""Products of 8-bit integers on a real GPU: exact sums, the emulator's and PyTorch's results, scales, groups."""

import numpy as np
import pytest

import tilewright
from this_gpu import CAPABILITY
from tilewright.core.dtypes import INT8
from tilewright.core.problem import LAYOUTS
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import find

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(CAPABILITY < (8, 0), reason="gemm_mma_int8 is for compute capability 8.0 and newer")

on_hopper = pytest.mark.skipif(CAPABILITY != (9, 0), reason="wgmma is Hopper's alone")
KERNELS = ["gemm_mma_int8", "skinny_int8", *(["gemm_int8", "gemm_int8_nn"] if CAPABILITY == (9, 0) else [])]
CONFIGS = [
    {"CLUSTER_M": 2},
    {"BM": 256, "BN": 192, "STAGES": 3},
    {"BM": 192, "BN": 160, "CONSUMERS": 3, "CLUSTER_N": 2},
    {"BM": 64, "BN": 64, "STAGES": 7, "CONSUMERS": 1, "SPLITS": 4},
    {"BN": 128, "STAGES": 6, "TMA_STORE_STAGES": 2},
    {"BN": 112, "STAGES": 6, "TMA_STORE_STAGES": 1, "SWAP_AB": 1},
    {"BM": 64, "BN": 80, "STAGES": 6, "PINGPONG": 1, "CLUSTER_M": 2, "SWAP_AB": 1},
]
SIZES = [(1, 515, 700), (131, 77, 45), (257, 129, 333), (512, 768, 1024)]


def drawn(layout, m, n, k, of_a="int8", of_b="int8"):
    """Factors of all values of their types, in these orders, on the GPU."""
    torch.manual_seed(m + n + k)
    found = []
    for order, rows, cols, dtype in zip(layout, (m, k), (k, n), (of_a, of_b), strict=True):
        kind = getattr(torch, dtype)
        shape = (rows, cols) if order == "N" else (cols, rows)
        one = torch.randint(torch.iinfo(kind).min, torch.iinfo(kind).max + 1, shape, dtype=kind, device="cuda")
        found.append(one if order == "N" else one.T)
    return found


def exact(a, b):
    return (a.double() @ b.double()).long()


@pytest.mark.parametrize("types", [(a, b) for a in INT8 for b in INT8], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_sums_are_exact(kernel, layout, types):
    for sizes in SIZES:
        a, b = drawn(layout, *sizes, *types)
        sums = exact(a, b)
        assert torch.equal(tilewright.matmul(a, b, kernel=kernel), sums.int())
        c = torch.randint(-(2**31), 2**31, sums.shape, device="cuda").int()
        more = tilewright.matmul(a, b, c=c, alpha=3, beta=-2, bias=c[0].clone(), kernel=kernel)
        assert torch.equal(more, (3 * sums - 2 * c.long() + c[0].long()).int())


@on_hopper
@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("result", ["int32", "float32", "bfloat16", "float16"])
def test_every_way_through_the_source_is_right(config, result):
    for m, n, k in ((1024, 768, 2048), (517, 389, 1001)):
        a, b = drawn("NT", m, n, k, "uint8", "int8")
        scales = {}
        expected = exact(a, b)
        if result != "int32":
            of_rows, of_columns = torch.rand(m, 1, device="cuda") / k, torch.rand(1, n, device="cuda") / 128
            scales = {"scale_a": of_rows, "scale_b": of_columns}
            expected = expected.double() * of_rows.double() * of_columns.double()
        ours = tilewright.matmul(a, b, **scales, kernel="gemm_int8", config=config, out_dtype=result)
        digits = {"int32": 60, "float32": 21, "bfloat16": 8, "float16": 11}[result]
        least = 0.0 if result == "int32" else 2.0**-20
        torch.testing.assert_close(ours.double(), expected.double(), rtol=2.0**-digits, atol=least)


@pytest.mark.parametrize("value", [-128, 255])
@pytest.mark.parametrize("kernel", KERNELS)
def test_sums_wrap_as_32_bits_do(kernel, value):
    kind = torch.int8 if value < 0 else torch.uint8
    a = torch.full((64, 140000), value, dtype=kind, device="cuda")
    expected = (140000 * value**2 + 2**31) % 2**32 - 2**31
    assert (tilewright.matmul(a, a.T, kernel=kernel) == expected).all()


@on_hopper
@pytest.mark.parametrize("kernel", ["gemm_int8_blocks", "gemm_mma_int8_blocks"])
def test_scales_of_blocks_give_the_emulators_bits(kernel):
    m, n, k = 200, 150, 300
    a, b = drawn("NT", m, n, k)
    of_a, of_b = torch.rand(m, 3, device="cuda") + 0.5, torch.rand(3, 2, device="cuda") + 0.5
    named = {"kernel": kernel, "config": find(kernel).presets.get("small", {"BN": 64})}
    ours = tilewright.matmul(a, b, scale_a=of_a, scale_b=of_b, out_dtype="float32", **named)
    arrays = a.cpu().numpy(), b.T.cpu().numpy().T
    scales = {"scale_a": of_a.cpu().numpy(), "scale_b": of_b.cpu().numpy()}
    emulated = tilewright.matmul(*arrays, **scales, out_dtype="float32", engine=EmulatorEngine(), **named)
    np.testing.assert_array_equal(ours.cpu().numpy().view(np.uint32), emulated.view(np.uint32))


@on_hopper
def test_products_are_those_of_pytorch_and_batches_and_groups_too():
    a, b = drawn("NT", 2048, 1024, 4096)
    assert torch.equal(tilewright.matmul(a, b), torch._int_mm(a, b))
    batch = torch.stack([a[:100], a[100:200]])
    assert torch.equal(tilewright.matmul(batch, b), exact(batch.reshape(200, -1), b).int().reshape(2, 100, 1024))
    weights = torch.stack([b[:, :256], b[:, 256:512]])
    ends = torch.tensor([37, 200], dtype=torch.int32, device="cuda")
    grouped = tilewright.grouped_matmul(a[:200], weights, ends)
    assert torch.equal(grouped, torch.cat([exact(a[:37], weights[0]), exact(a[37:200], weights[1])]).int())


def test_calls_are_launched_without_python_but_for_fractions():
    a, b = drawn("NT", 256, 128, 512)
    first = tilewright.matmul(a, b)
    from tilewright.api import gpu as on_gpu  # noqa: PLC0415

    if on_gpu.fast is None:
        pytest.skip("there is no compiled launcher")
    assert on_gpu.fast.call(a, b, None, None, None, 1.0, 0.0, None) is not on_gpu.miss
    assert torch.equal(tilewright.matmul(a, b), first)
    assert on_gpu.fast.call(a, b, None, None, None, 0.5, 0.0, None) is on_gpu.miss
    with pytest.raises(tilewright.ProblemError, match="alpha must be an integer"):
        tilewright.matmul(a, b, alpha=0.5)
