"""gemm_mma and its kinds on a real GPU, Hopper too: right in every order, and of the bits that the emulator makes where
its tensor cores are the GPU's."""

import numpy as np
import pytest

import tilewright
from this_gpu import CAPABILITY
from tilewright.core.dtypes import FLOAT8
from tilewright.core.problem import LAYOUTS
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import find

pytestmark = pytest.mark.skipif(CAPABILITY < (8, 0), reason="mma.sync of these is Ampere's and newer")

EIGHT = pytest.mark.skipif(CAPABILITY < (8, 9), reason="float8 is Ada's and newer")
KINDS = [
    ("gemm_mma", "float16", "float16"),
    ("gemm_mma", "bfloat16", "bfloat16"),
    ("gemm_mma_tf32", "float32", "float32"),
    *(pytest.param("gemm_mma_fp8", of_a, of_b, marks=EIGHT) for of_a in FLOAT8 for of_b in FLOAT8),
]
SIZES = [(512, 768, 1024), (517, 389, 1001), (3, 130, 77)]


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def drawn(torch, layout, m, n, k, of_a, of_b):
    """Factors of these orders and types on the GPU."""
    torch.manual_seed(m + k)
    found = []
    for order, rows, cols, dtype in zip(layout, (m, k), (k, n), (of_a, of_b), strict=True):
        one = torch.randn((rows, cols) if order == "N" else (cols, rows), device="cuda").to(getattr(torch, dtype))
        found.append(one if order == "N" else one.T)
    return found


def error(result, a, b, scales=1.0):
    expected = a.double() @ b.double() * scales
    return ((result.double() - expected).norm() / expected.norm()).item()


def configs(name):
    kernel = find(name)
    return [{}, *map(dict, kernel.presets.values())]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("name", "of_a", "of_b"), KINDS)
def test_products_are_right_in_every_order(torch, name, of_a, of_b, layout):
    # Of float16, whose products have 22 bits, tensor cores cut more than of bfloat16: 1.25e-6 at k = 1024, on an H100.
    allowed = {"gemm_mma": 2e-6, "gemm_mma_tf32": 4e-4, "gemm_mma_fp8": 2e-4}[name]
    for sizes in SIZES:
        a, b = drawn(torch, layout, *sizes, of_a, of_b)
        for config in configs(name):
            result = tilewright.matmul(a, b, kernel=name, config=config, out_dtype="float32")
            assert error(result, a, b) <= allowed, (sizes, config)


@EIGHT
@pytest.mark.parametrize("config", configs("gemm_mma_fp8"), ids=str)
@pytest.mark.parametrize("result", ["bfloat16", "float16", FLOAT8[0]])
def test_float8_with_scales_and_every_result(torch, config, result):
    rounding = {"bfloat16": 2.0**-9, "float16": 2.0**-12, FLOAT8[0]: 2.0**-5}[result]
    for m, n, k in SIZES:
        a, b = drawn(torch, "NT", m, n, k, *FLOAT8)
        of_rows, of_columns = torch.rand(m, 1, device="cuda") + 0.5, torch.rand(1, n, device="cuda") + 0.5
        scales = {"scale_a": of_rows, "scale_b": of_columns}
        ours = tilewright.matmul(a, b, **scales, kernel="gemm_mma_fp8", config=config, out_dtype=result)
        assert error(ours, a, b, of_rows * of_columns) <= 2.0**-12 + rounding


@EIGHT
@pytest.mark.parametrize("config", configs("gemm_mma_fp8_blocks"), ids=str)
def test_float8_with_scales_of_blocks(torch, config):
    m, n, k = 300, 520, 1000
    a, b = drawn(torch, "NT", m, n, k, *FLOAT8)
    of_a, of_b = torch.rand(m, 8, device="cuda") + 0.5, torch.rand(8, 5, device="cuda") + 0.5
    ours = tilewright.matmul(a, b, scale_a=of_a, scale_b=of_b, kernel="gemm_mma_fp8_blocks", config=config)
    wide_a = a.double() * of_a.repeat_interleave(128, 1)[:, :k]
    wide_b = b.double() * of_b.repeat_interleave(128, 0)[:k].repeat_interleave(128, 1)[:, :n]
    assert error(ours, wide_a, wide_b) <= 2e-4


@pytest.mark.parametrize("name", ["gemm_mma", "gemm_mma_tf32"])
def test_a_row_has_the_same_bits_in_every_batch(torch, name):
    a, b = drawn(torch, "NN", 200, 130, 500, *(("bfloat16",) * 2 if name == "gemm_mma" else ("float32",) * 2))
    whole = tilewright.matmul(a, b, kernel=name, out_dtype="float32")
    for config in configs(name):
        for rows in (slice(0, 1), slice(7, 40), slice(100, 200)):
            part = tilewright.matmul(a[rows], b, kernel=name, config=config, out_dtype="float32")
            assert torch.equal(part.view(torch.int32), whole[rows].view(torch.int32))


@pytest.mark.skipif(CAPABILITY[0] != 8, reason="the emulator adds up as Ampere's and Ada's tensor cores do")
@pytest.mark.parametrize(("name", "of_a", "of_b"), KINDS)
def test_results_have_the_emulators_bits(torch, name, of_a, of_b):
    a, b = drawn(torch, "NT", 70, 66, 400, of_a, of_b)
    named = {"kernel": name, "config": configs(name)[-1], "out_dtype": "float32"}
    ours = tilewright.matmul(a, b, **named)

    def on_the_host(tensor):
        bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.element_size()]
        return tensor.contiguous().cpu().view(bits).numpy().view(str(tensor.dtype).removeprefix("torch."))

    emulated = tilewright.matmul(*map(on_the_host, (a, b)), engine=EmulatorEngine(), **named)
    np.testing.assert_array_equal(ours.cpu().numpy().view(np.uint32), emulated.view(np.uint32))
