"""Effects of the element type of A and B: alignment, macros, the supported GPU, the picked kernel, refusals."""

import numpy as np
import pytest

from tilewright.core.errors import ConfigError, DtypeError
from tilewright.core.problem import LAYOUTS, Arithmetic, Epilogue, Layout, Problem, orders
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import LADDER, find
from tilewright.kernels.support import Variant
from tilewright.runtime.base import run
from tilewright.select.selector import select

HALVES = ("float16", "bfloat16")
WMMA = find("wmma_f16")


@pytest.mark.parametrize(
    ("ld", "aligned"),
    [({}, True), ({"a": 68}, False), ({"b": 132}, False), ({"d": 132}, True), ({"d": 130}, False)],
)
def test_a_row_of_halves_is_aligned_at_8_elements_and_one_of_d_at_4(ld, aligned):
    problem = Problem(128, 128, 64, "float16", **{name: Layout(ld=length) for name, length in ld.items()})
    assert WMMA.variant(problem, WMMA.config()) == Variant(False, aligned, "float16")


def test_the_macro_says_which_of_several_types_it_is():
    config = WMMA.config()
    macros = [WMMA.defines(config, Variant(False, True, dtype))["BFLOAT16"] for dtype in HALVES]
    assert macros == [0, 1]
    assert "BFLOAT16" not in find("naive").defines(find("naive").config(), Variant(False, False))


def test_tensor_cores_that_take_bfloat16_came_with_8_0():
    assert [WMMA.support.capability_for(dtype) for dtype in HALVES] == [(7, 5), (8, 0)]
    assert find("wmma_tf32").support.capability_for("float32") == (8, 0)
    with pytest.raises(ConfigError, match=r"wmma_f16 needs a GPU of compute capability 8\.0 or newer for bfloat16"):
        WMMA.check(Problem(8, 8, 8, "bfloat16"), (7, 5))


@pytest.mark.parametrize("capability", [None, (7, 5), (8, 0), (9, 0), (12, 0)])
@pytest.mark.parametrize("shape", ["8", "100", "512", "4096"])
def test_no_kernel_that_rounds_is_picked(capability, shape):
    kernel, _ = select(Problem.parse(shape), capability)
    assert kernel.meets(None)
    assert not all(kernel.meets(None) for kernel in LADDER)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("capability", [None, (8, 0), (9, 0)])
@pytest.mark.parametrize("shape", ["1", "100", "4096"])
def test_halves_get_a_kernel_that_takes_them(dtype, capability, shape):
    problem = Problem.parse(shape, arithmetic=dtype)
    kernel, config = select(problem, capability)
    kernel.check(problem)
    assert config == kernel.config(config)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("capability", "device", "expected"),
    [(None, "", "gemm_wmma"), ((8, 0), "", "gemm_mma"), ((9, 0), "NVIDIA H200", "gemm_sm90")],
)
def test_large_products_of_halves_run_on_tensor_cores_in_every_order(layout, capability, device, expected):
    a, b = orders(layout)
    epilogue = Epilogue("row", "gelu")
    problem = Problem(4096, 4096, 4096, Arithmetic("float16", "float16"), 3, a, b, epilogue=epilogue)
    assert select(problem, capability, device)[0] is find(expected)


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_come_back_from_an_engine(dtype):
    engine = EmulatorEngine()
    values = np.arange(12).reshape(3, 4).astype(dtype)
    matrix = engine.upload(values, ld=6)
    assert (matrix.dtype, matrix.ld) == (dtype, 6)
    result = engine.download(matrix)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, values)


@pytest.mark.parametrize("dtype", HALVES)
def test_each_type_has_code_of_its_own(dtype):
    engine = EmulatorEngine()
    two = np.full((16, 16), 2, dtype)
    operands = [engine.upload(array) for array in (two, two, np.zeros((16, 16), np.float32))]
    plan = run(engine, WMMA, WMMA.config(), Problem(16, 16, 16, dtype), *operands)
    assert plan.executable.variant.factors == dtype
    np.testing.assert_array_equal(engine.download(operands[2]), 64)


def test_a_kernel_says_which_types_it_takes():
    with pytest.raises(DtypeError, match="wmma_f16 takes float16, bfloat16, got float32"):
        WMMA.check(Problem(8, 8, 8))
    with pytest.raises(DtypeError, match="wmma_tf32 takes float32, got float16"):
        find("wmma_tf32").check(Problem(8, 8, 8, "float16"))
