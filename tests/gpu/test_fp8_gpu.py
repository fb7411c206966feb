"""Products of float8 factors on a real GPU: the emulator's bits, PyTorch's own products, scales, long sums."""

import numpy as np
import pytest

import tilewright
from this_gpu import CAPABILITY
from tilewright.core.dtypes import FLOAT8
from tilewright.core.problem import LAYOUTS
from tilewright.emulator.engine import EmulatorEngine

pytestmark = pytest.mark.skipif(CAPABILITY != (9, 0), reason="wgmma is Hopper's alone")

E4M3, E5M2 = FLOAT8
CONFIGS = [
    {},
    {"BM": 256, "STAGES": 4, "CLUSTER_M": 2},
    {"BM": 64, "BN": 96, "PINGPONG": 1, "CLUSTER_N": 2},
    {"BN": 64, "SPLITS": 4},
    {"BM": 192, "BN": 96, "CONSUMERS": 3, "STAGES": 4},
    {"BM": 128, "BN": 104, "STAGES": 4, "TMA_STORE_STAGES": 1, "SWAP_AB": 1},
]


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def drawn(torch, layout, m, n, k, of_a=E4M3, of_b=E4M3):
    """Factors of these orders and types on the GPU."""
    torch.manual_seed(k)
    found = []
    for order, rows, cols, dtype in zip(layout, (m, k), (k, n), (of_a, of_b), strict=True):
        shape = (rows, cols) if order == "N" else (cols, rows)
        one = torch.randn(shape, device="cuda").to(getattr(torch, dtype))
        found.append(one if order == "N" else one.T)
    return found


def scales_of(torch, m, n):
    return torch.rand(m, 1, device="cuda") + 0.5, torch.rand(1, n, device="cuda") + 0.5


def exact(torch, a, b):
    return a.to(torch.float64) @ b.to(torch.float64)


def error(result, expected):
    return ((result.double() - expected).norm() / expected.norm()).item()


def on_the_host(torch, tensor):
    """Elements of a tensor, in NumPy, in equal order of memory."""
    if not tensor.is_contiguous():
        return on_the_host(torch, tensor.T).T
    return tensor.cpu().view(torch.uint8).numpy().view(str(tensor.dtype).removeprefix("torch."))


@pytest.mark.parametrize("types", [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3), (E5M2, E5M2)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_have_the_emulators_bits(torch, layout, types):
    """Promoted and not, with scales, edges and rows that are copied first: sums are those of Hopper's tensor cores."""
    for sizes in ((136, 72, 1000), (128, 64, 512)):
        a, b = drawn(torch, layout, *sizes, *types)
        scales = scales_of(torch, *sizes[:2])
        for name in ("gemm_fp8", "gemm_fp8_nn", "gemm_fp8_fast"):
            named = {"kernel": name, "config": {"BN": 64, "STAGES": 4}, "fast_accumulate": name.endswith("fast")}
            ours = tilewright.matmul(a, b, scale_a=scales[0], scale_b=scales[1], **named)
            arrays = (on_the_host(torch, one) for one in (a, b))
            of_rows, of_columns = (scale.cpu().numpy() for scale in scales)
            engine = EmulatorEngine()
            emulated = tilewright.matmul(*arrays, scale_a=of_rows, scale_b=of_columns, engine=engine, **named)
            np.testing.assert_array_equal(ours.cpu().numpy().view(np.uint32), emulated.view(np.uint32))


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("result", ["float32", "bfloat16", "float16", E4M3])
def test_every_way_through_the_source_is_right(torch, config, result):
    rounding = {"float32": 0, "bfloat16": 2.0**-9, "float16": 2.0**-12, E4M3: 2.0**-5}[result]
    for m, n, k in ((1024, 768, 2048), (517, 389, 1001)):
        a, b = drawn(torch, "NT", m, n, k)
        of_rows, of_columns = scales_of(torch, m, n)
        ours = tilewright.matmul(
            a, b, scale_a=of_rows, scale_b=of_columns, kernel="gemm_fp8", config=config, out_dtype=result
        )
        assert error(ours, exact(torch, a, b) * of_rows * of_columns) <= 2.0**-12 + rounding


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("kind", ["tensor", "line"])
def test_products_are_those_of_pytorch_and_err_hardly_more(torch, kind, fast):
    m, n, k = 2048, 1024, 4096
    a, b = drawn(torch, "NT", m, n, k)
    scales = scales_of(torch, m, n) if kind == "line" else (torch.tensor(0.5).cuda(), torch.tensor(1.5).cuda())
    ours = tilewright.matmul(a, b, scale_a=scales[0], scale_b=scales[1], out_dtype=torch.bfloat16, fast_accumulate=fast)
    own = torch._scaled_mm(a, b, *scales, out_dtype=torch.bfloat16, use_fast_accum=fast)
    expected = exact(torch, a, b) * scales[0].double() * scales[1].double()
    assert error(ours, expected) <= 1.2 * error(own, expected)


def test_sums_of_positive_numbers_drift_without_promotion_alone(torch):
    a, b = (torch.rand(512, 8192, device="cuda").to(torch.float8_e4m3fn) for _ in "ab")
    expected = exact(torch, a, b.T)
    promoted, fast = (tilewright.matmul(a, b.T, fast_accumulate=fast) for fast in (False, True))
    assert error(promoted, expected) < 2e-3
    assert error(tilewright.matmul(a, b.T, kernel="gemm_fp8_fast", fast_accumulate=True), expected) > 5e-3
    assert error(fast, expected) < 1


def test_calls_without_scales_are_launched_without_python(torch):
    a, b = drawn(torch, "NT", 256, 128, 512)
    first = tilewright.matmul(a, b)
    from tilewright.api import gpu as on_gpu  # noqa: PLC0415

    if on_gpu.fast is None:
        pytest.skip("there is no compiled launcher")
    assert on_gpu.fast.call(a, b, None, None, None, 1.0, 0.0, None) is not on_gpu.miss
    torch.testing.assert_close(tilewright.matmul(a, b), first, rtol=0, atol=0)


def test_a_prepared_row_major_factor_is_transposed_once(torch):
    a, b = drawn(torch, "NN", 256, 128, 512)
    cached = tilewright.prepare(b)
    named = {"kernel": "gemm_fp8"}
    torch.testing.assert_close(tilewright.matmul(a, cached, **named), tilewright.matmul(a, b, **named), rtol=0, atol=0)
    assert cached.nbytes >= 128 * 512
