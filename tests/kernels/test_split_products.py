"""Float32 products made of products of 16-bit parts, on the emulator, which adds as tensor cores do."""

from itertools import cycle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_library_on_emulator import ENGINE, drawing, of_size

import tilewright
from library_cases import Kind, cases, check, findings, kinds
from studies.precisions.adversarial import EXACT, ORDINARY
from tilewright.core.problem import Arithmetic
from tilewright.kernels import find

FORMS = [
    ("gemm_bf16x6", {"BM": 64, "BN": 48, "PINGPONG": 1, "CLUSTER_M": 2, "GROUP_M": 1}),
    ("gemm_bf16x6", {"BN": 32, "SPLITS": 2}),
    ("gemm_bf16x3", {"BM": 256, "BN": 72, "STAGES": 2, "GROUP_M": 2}),
    ("gemm_fp16x3", {"BM": 64, "BN": 64, "PINGPONG": 1, "CLUSTER_M": 2}),
    ("gemm_mma_fp16x3", {"BM": 64, "BN": 64, "BK": 16, "WM": 32, "STAGES": 3, "GROUP_M": 2}),
]
LEFT = {
    name: left
    for precision, left in (("bf16x6", 0.0), ("bf16x3", 2.0**-15), ("fp16x3", 2.0**-21))
    for name in (f"gemm_{precision}", f"gemm_mma_{precision}", f"small_m_{precision}")
}
"""Largest error of products of 16-bit parts, as a share of a product, besides float32's own rounding."""

forms = pytest.mark.parametrize(("name", "overrides"), FORMS, ids=str)


# Those of which no other test needs a form.
DRAWN = [
    ("gemm_mma_bf16x6", {"BM": 64, "BN": 64, "WM": 32, "GROUP_M": 2}),
    ("gemm_mma_bf16x3", {"BM": 128, "BN": 64, "STAGES": 2}),
    ("small_m_fp16x3", {"BM": 16, "BN": 64, "BK": 64, "STAGES": 2, "SPLITS": 2}),
]


USUAL = Kind("NN", Arithmetic(), aligned=True)
"""Kind that most tests of parts use, since no kernel is fast to compile. Other orders of factors, rows that begin
anywhere and epilogues are in `test_every_order` and in the tests of the checker."""


def kind_of(name, overrides):
    """Kind that a form is compiled for."""
    return USUAL if (name, overrides) in (FORMS[0], FORMS[1], FORMS[3]) else kinds(find(name), overrides)[0]


@pytest.mark.first(1)
@pytest.mark.parametrize(("name", "overrides"), [*FORMS[::2], *DRAWN], ids=str)
@given(data=st.data())
@drawing(8)
def test_a_drawn_problem_is_right(name, overrides, data):
    kernel, config = find(name), find(name).config(overrides)
    check(ENGINE, kernel, config, data.draw(cases(kernel, config, [kind_of(name, overrides)])), left=LEFT[name])


@pytest.mark.further
@pytest.mark.parametrize(("name", "overrides", "layout"), [(*FORMS[0], "NT"), (*FORMS[3], "TT")], ids=str)
def test_a_problem_that_tiles_divide_is_right_in_other_orders(name, overrides, layout):
    kernel = find(name)
    config = kernel.config(overrides)
    tile = kernel.tile(config)
    case = of_size(kernel, layout, 2 * tile.m, 2 * tile.n, 3 * tile.k)
    check(ENGINE, kernel, config, case, left=LEFT[name])


def product(a, b, name="gemm_bf16x6"):
    return tilewright.matmul(a, b, kernel=name, engine=ENGINE).astype(np.float64)


SIX = pytest.mark.parametrize("kernel", ["gemm_bf16x6", "small_m_bf16x6"])
THREE = pytest.mark.parametrize("kernel", ["gemm_fp16x3", "small_m_fp16x3"])


def inputs_of(kernel, small_m):
    """Kernels and inputs: all of the one, every second of the other, which adds the same parts in the same order."""
    return [*((kernel, name) for name in ORDINARY), *((small_m, name) for name in [*ORDINARY][::2])]


def in_turns(cases, *lengths):
    """Cases, each with one of the lengths of k."""
    return [(*case, k) for case, k in zip(cases, cycle(lengths))]


def errors(result, a, b):
    """The largest error of an element over (|A| @ |B|), and the relative Frobenius error."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    exact, size = a @ b, abs(a) @ abs(b)
    difference = abs(result - exact)
    return (difference / np.where(size, size, 1)).max(), np.linalg.norm(difference) / (np.linalg.norm(exact) or 1)


ONE_PRODUCT = {"log-normal, wide", "outliers of 2^20", "outliers of 2^50"}
"""Inputs of which one product makes up most of an element: its rounding is all the error that float32 shows, and tensor
cores truncate it once for each sum of its parts."""
UNIT = 2.0**-24


def one_after_the_other(a, b):
    """Sums in float32, each rounded, as a thread makes them."""
    sums = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for i in range(a.shape[1]):
        sums += a[:, i : i + 1] * b[i]
    return sums.astype(np.float64)


@pytest.mark.one_of_each("kernel")
@pytest.mark.parametrize(("kernel", "name", "k"), in_turns(inputs_of("gemm_bf16x6", "small_m_bf16x6"), 64, 1024))
def test_six_products_err_no_more_than_sums_in_float32(kernel, name, k):
    a, b = ORDINARY[name](np.random.default_rng(k), 64, 64, k)
    of_elements, of_all = errors(product(a, b, kernel), a, b)
    usual, usual_of_all = errors(one_after_the_other(a, b), a, b)
    assert of_elements <= 1.5 * usual
    assert of_all <= (5 if name in ONE_PRODUCT else 1) * max(usual_of_all, UNIT)


@pytest.mark.first(2)
@pytest.mark.parametrize("name", ORDINARY)
def test_the_tensor_cores_of_ampere_keep_what_is_promised(name):
    """They keep a bit less than Hopper's, and add eight products at a time."""
    a, b = ORDINARY[name](np.random.default_rng(0), 64, 64, 200)
    usual, usual_of_all = errors(one_after_the_other(a, b), a, b)
    of_elements, of_all = errors(product(a, b, "gemm_mma_bf16x6"), a, b)
    assert of_elements <= 1.5 * usual
    assert of_all <= (4 if name in ONE_PRODUCT else 1) * max(usual_of_all, UNIT)
    assert errors(product(a, b, "gemm_mma_fp16x3"), a, b)[0] <= max(2.0**-21 + UNIT, 1.1 * usual)


@pytest.mark.one_of_each("kernel", "name")
@pytest.mark.parametrize(("kernel", "name", "k"), in_turns(inputs_of("gemm_bf16x6", "small_m_bf16x6"), 4, 28))
def test_short_sums_of_six_products_err_by_a_few_units(kernel, name, k):
    """Sums of float32 err by less there, one by no more than one unit: they round, tensor cores truncate."""
    a, b = ORDINARY[name](np.random.default_rng(k), 64, 64, k)
    assert errors(product(a, b, kernel), a, b)[0] <= 8 * UNIT


@pytest.mark.further
@pytest.mark.parametrize(("kernel", "name", "k"), in_turns(inputs_of("gemm_fp16x3", "small_m_fp16x3"), 4, 64, 1024))
def test_three_products_of_scaled_parts_keep_21_bits(kernel, name, k):
    """And round once; but in sums that float32 itself does not add up so exactly: long ones of one sign, and those in
    which a few products are most. Sums of one sign that are promoted only once or twice keep 20 bits. Factors of which
    parts lose too much are multiplied in float32."""
    a, b = ORDINARY[name](np.random.default_rng(k), 64, 64, k)
    usual, _ = errors(one_after_the_other(a, b), a, b)
    assert errors(product(a, b, kernel), a, b)[0] <= max(2.0**-20 if 32 < k < 128 else 2.0**-21 + UNIT, 1.1 * usual)


@pytest.mark.parametrize("powers", [(100, -100), (-80, 10), (-100, 90)])
@THREE
def test_scales_hold_what_float16_does_not(kernel, powers):
    a, b = ORDINARY["normal"](np.random.default_rng(0), 72, 52, 200)
    near = product(a, b, kernel)
    scaled = product(a * np.float32(2.0 ** powers[0]), b * np.float32(2.0 ** powers[1]), kernel)
    np.testing.assert_array_equal(scaled, near * 2.0 ** sum(powers))


@pytest.mark.one_of_each("kernel", "name")
@pytest.mark.parametrize("k", [8, 132])
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("kernel", ["gemm_bf16x6", "gemm_mma_bf16x6", "small_m_bf16x6"])
def test_six_products_are_exact_where_float32_is(kernel, name, k):
    a, b = EXACT[name](np.random.default_rng(k), 48, 40, k)
    np.testing.assert_array_equal(product(a, b, kernel), a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.further
@SIX
def test_errors_do_not_grow_with_k_as_those_of_tensor_cores(kernel):
    """On numbers of one sign all that a long sum cuts off points one way: a step's sums begin anew."""
    random = np.random.default_rng(0)
    a, b = (random.uniform(0, 1, shape).astype(np.float32) for shape in ((64, 4096), (4096, 64)))
    _, short = errors(product(a[:, :64], b[:64], kernel), a[:, :64], b[:64])
    _, long = errors(product(a, b, kernel), a, b)
    assert long < 8 * short, "64 steps"


@pytest.mark.further
def test_three_products_leave_what_two_parts_do_not_hold():
    a, b = ORDINARY["normal"](np.random.default_rng(0), 64, 64, 300)
    _, of_three = errors(product(a, b, "gemm_bf16x3"), a, b)
    _, of_six = errors(product(a, b), a, b)
    assert 2.0**-19 < of_three < 2.0**-16
    assert of_six < 2.0**-22


@pytest.mark.further
@pytest.mark.parametrize("sizes", [(9, 17, 136), (1, 67, 50)], ids=str)
def test_the_checker_finds_nothing_where_rows_are_few(sizes):
    """Lines of a tile that are not loaded hold what the splitters left there, or a part of it. Of larger ones, and each
    form, see test_out_of_range.py."""
    kernel, config = find(FORMS[1][0]), find(FORMS[1][0]).config(FORMS[1][1])
    assert findings(kernel, config, of_size(kernel, "NN", *sizes), left=LEFT[kernel.name]) == []
