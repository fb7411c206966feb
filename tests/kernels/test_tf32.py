"""gemm_tf32 on the emulator: float32 products of factors rounded to TF32, against float64."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_library_on_emulator import ENGINE, WAYS, drawing, of_size

import tilewright
from library_cases import Case, Operands, cases, check, check_specials, findings, kinds, multiply
from tilewright.engines import nvrtc, relayouts
from tilewright.errors import CompileError
from tilewright.kernels import find
from tilewright.kernels.takes import Addresses, Variant
from tilewright.problem import LAYOUTS, Epilogue, Layout, Problem, Scalars, orders

KERNEL = find("gemm_tf32")
CONFIG = KERNEL.config({"BM": 64, "BN": 48, "STAGES": 3, "PINGPONG": 1, "CLUSTER": 2, "BAND": 1})
LEFT = 2.0**-22
"""Of each product of rounded factors: the tensor cores keep two bits behind float32's, and cut off the rest."""


forms = pytest.mark.parametrize("config", [CONFIG, KERNEL.config({"BN": 32, "SPLITS": 4})], ids=str)


def rounded(values):
    """Float32 to TF32, to nearest, ties to even; NaN and infinity as they are."""
    bits = values.view(np.uint32)
    nearest = (bits + 0xFFF + (bits >> 13 & 1)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), nearest.astype(np.uint32).view(np.float32), values)


def round_all(operands):
    for values in (operands.a, operands.b):
        values[:] = rounded(values)


def copied(problem, addresses=Addresses()):
    return relayouts.jobs(KERNEL, CONFIG, problem, addresses).relaid


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_are_those_of_rounded_factors_in_every_order(layout, way):
    """Batches, an epilogue, edges, and rows that the copy engine does not take."""
    extra, gap = WAYS[way]
    case = of_size(KERNEL, layout, 128 + extra, 96 + extra, 96 + extra, gap)
    operands = Operands.draw(case)
    result = multiply(ENGINE, KERNEL, CONFIG, case, operands)
    check(ENGINE, KERNEL, CONFIG, case, left=LEFT, change=round_all)
    round_all(operands)
    np.testing.assert_array_equal(result, multiply(ENGINE, KERNEL, CONFIG, case, operands))


@forms
@pytest.mark.parametrize("sizes", [(1, 1, 1), (65, 49, 33), (3, 200, 0), (129, 7, 161)])
def test_sizes_that_nothing_divides_are_right(config, sizes):
    case = Case(Problem(*sizes, epilogue=Epilogue("row", "gelu")), Scalars(0.75, 0.0))
    check(ENGINE, KERNEL, config, case, left=LEFT, change=round_all)


@forms
@given(data=st.data())
@drawing(12)
def test_a_drawn_problem_is_right(config, data):
    among = kinds(KERNEL, config)[::2]  # each is compiled
    check(ENGINE, KERNEL, config, data.draw(cases(KERNEL, among)), left=LEFT, change=round_all)


@forms
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@drawing(8)
def test_nan_and_infinity_come_out_as_those_of_numpy(config, data, seed):
    among = [kind for kind in kinds(KERNEL, config) if kind.epilogue == Epilogue()][:2]
    case = data.draw(cases(KERNEL, among, depths=(1, 7, 31, 32, 33, 64)))
    alone = replace(case, scalars=Scalars(), separate_c=False, problem=replace(case.problem, c=None))
    check_specials(ENGINE, KERNEL, config, alone, seed, LEFT, round_all)


def test_only_what_lies_across_k_or_unaligned_is_copied():
    for layout, expected in zip(LAYOUTS, (("B",), (), ("A", "B"), ("A",)), strict=True):
        a, b = orders(layout)
        assert copied(Problem(64, 64, 64, a=a, b=b)) == expected
    b = Layout("column")
    assert copied(Problem(64, 64, 66, b=b)) == ("A", "B")
    assert copied(Problem(64, 64, 64, a=Layout(ld=65), b=b)) == ("A",)
    assert copied(Problem(64, 64, 64, b=b), Addresses(b=4)) == ("B",)


def test_the_error_is_that_of_rounding_to_nearest():
    """Factors that are cut off would err by 2.6 times as much."""
    random = np.random.default_rng(5)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((64, 512), (512, 64)))
    exact = a.astype(np.float64) @ b
    result = tilewright.matmul(a, b, kernel=KERNEL, config=CONFIG, engine=ENGINE)
    error = np.linalg.norm(result - exact) / np.linalg.norm(exact)
    of_rounding = np.linalg.norm(rounded(a).astype(np.float64) @ rounded(b) - exact) / np.linalg.norm(exact)
    assert error == pytest.approx(of_rounding, rel=0.01)


LARGEST_TF32 = float(np.uint32(0x7F7FE000).view(np.float32))
ENDS = {
    np.nan: np.nan,
    -np.inf: -np.inf,
    2.0**-149: 0.0,
    2.0**-130: 2.0**-130,
    LARGEST_TF32: LARGEST_TF32,
    2.0**128 - 2.0**116 - 2.0**104: LARGEST_TF32,
    float(np.finfo(np.float32).max): np.inf,
    1 + 2.0**-11: 1.0,
    1 + 3 * 2.0**-11: 1 + 2.0**-9,
}
"""What elements are rounded to: at the ends of float32's range, and of ties the even one."""


@pytest.mark.parametrize("layout", ["NN", "NT"])
def test_ends_of_the_range_and_ties(layout):
    a, b = np.zeros((64, 32), np.float32), np.ones((32, 48), np.float32)
    a[: len(ENDS), 7] = [*ENDS]
    b = b if layout == "NN" else np.asfortranarray(b)
    with np.errstate(all="ignore"):
        result = tilewright.matmul(a, b, kernel=KERNEL, config=CONFIG, engine=ENGINE)
    np.testing.assert_array_equal(result[: len(ENDS), 0], np.array([*ENDS.values()], np.float32))


def test_a_kept_copy_gives_the_same_bits():
    random = np.random.default_rng(6)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((70, 67), (67, 50)))
    named = {"kernel": KERNEL, "config": CONFIG, "engine": ENGINE}
    kept = tilewright.prepare(b, engine=ENGINE)
    np.testing.assert_array_equal(tilewright.matmul(a, kept, **named), tilewright.matmul(a, b, **named))


def test_the_checker_finds_nothing():
    assert findings(KERNEL, CONFIG, of_size(KERNEL, "NT", 72, 56, 72), left=LEFT, change=round_all) == []


def test_tf32_across_k_does_not_compile(tmp_path):
    """As wgmma has no such product."""
    source = tmp_path / "across.cu"
    source.write_text("""
#include <wgmma.cuh>
extern "C" __global__ void across(unsigned long long a, unsigned long long b) {
    float sums[4] = {};
    multiply_async<Major::across_k, Major::along_k, float>(sums, {a}, {b});
}
""")
    kernel = replace(KERNEL, name="across", source=source)
    with pytest.raises(CompileError, match="lines of TF32 and of 8 bits lie along k"):
        nvrtc.compile(kernel, CONFIG, Variant(False, False, "float32", "float32", "NT"), "sm_90a")
