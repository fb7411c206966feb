"""Products with a copy of A or B that was made before and is cached, on the emulator.

Whatever the factors hold, their bits are those of the product that makes all its copies.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_library_on_emulator import ENGINE, WAYS, drawing, of_size
from test_out_of_range import UNFIT, bits, make_unfit
from test_split_products import FORMS, LEFT, USUAL

import tilewright
from library_cases import Operands, cases, findings, multiply
from tilewright.core.problem import Problem
from tilewright.kernels import find
from tilewright.kernels.support import Addresses

UNTIDY = [*UNFIT, 2.0**-140, 2.0**-60, 0.0, 1.0]


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("name", "overrides", "factor"), [(*form, "AB"[number % 2]) for number, form in enumerate(FORMS)], ids=str
)
@given(data=st.data())
@drawing(8)
def test_a_product_of_parts_has_the_same_bits(name, overrides, factor, data):
    """In batches, with any element anywhere. Forms keep A and B in turns, since a kernel that finds a
    copy of one is compiled for that."""
    kernel, config = find(name), find(name).config(overrides)
    case = data.draw(cases(kernel, config, [USUAL]))
    operands = Operands.draw(case)
    for values, layout in ((operands.a, case.problem.a), (operands.b, case.problem.b)):
        if values.size and data.draw(st.booleans()):
            matrix, row, col = (data.draw(st.integers(0, extent - 1)) for extent in values.shape)
            values[slice(None) if layout.batch_stride == 0 else matrix, row, col] = data.draw(st.sampled_from(UNTIDY))
    alone, cached = (multiply(ENGINE, kernel, config, case, operands, cached) for cached in (None, factor))
    np.testing.assert_array_equal(bits(cached), bits(alone))


@pytest.mark.first(1)
@pytest.mark.parametrize(("cached", "layout"), [("A", "NN"), ("B", "TT")])
@pytest.mark.parametrize("name", ["gemm_sm90", "tma_packed", "tma_transposed", "gemm_wmma"])
def test_a_product_that_copies_unaligned_or_in_another_order_has_the_same_bits(name, cached, layout):
    kernel = find(name)
    config, case = kernel.config(), of_size(kernel, layout, 70, 90, 67)
    operands = Operands.draw(case)
    alone, with_cached = (multiply(ENGINE, kernel, config, case, operands, cached=one) for one in (None, cached))
    np.testing.assert_array_equal(bits(with_cached), bits(alone))


FIT, UNFIT_AS_A_WHOLE = (lambda operands: None, "A"), (make_unfit, "B")


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("name", "overrides", "change", "cached"),
    [(*FORMS[0], *FIT), (*FORMS[0], *UNFIT_AS_A_WHOLE), (*FORMS[2], *UNFIT_AS_A_WHOLE), (*FORMS[4], *FIT)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_the_checker_finds_nothing(name, overrides, change, cached):
    """With no copy kept, these forms are checked with both kinds of values in test_out_of_range.py."""
    kernel = find(name)
    config, (extra, gap) = kernel.config(overrides), WAYS["unaligned rows"]
    tile = kernel.tile(config)
    case = of_size(kernel, "NN", tile.m + extra, tile.n + extra, tile.k + extra, gap)
    assert findings(kernel, config, case, left=LEFT[name], change=change, cached=cached) == []


def copied(step):
    return {copy.name for copy in step.function.job.copies if copy.made}


@pytest.mark.further
def test_launches_with_a_cached_operand():
    """A kernel of parts launches its own code, which splits the other factor; a kernel that copies one factor, its
    own."""
    kernel = find("gemm_bf16x6")
    plans = [ENGINE.plan(kernel, kernel.config(), Problem(70, 90, 130), cached=cached) for cached in (None, "B")]
    assert [len(plan.steps) for plan in plans] == [1, 1]
    assert [copied(plan.steps[0]) for plan in plans] == [{"A", "B"}, {"A"}]
    assert copied(plans[1].cached.step) == {"B"}
    assert plans[1].relaid == ("A",)
    assert plans[1].needs.relayout_bytes < plans[0].needs.relayout_bytes
    kernel = find("gemm_sm90")
    problem = Problem(64, 67, 64, tilewright.core.problem.Arithmetic("float16", "float16"))
    plan = ENGINE.plan(kernel, kernel.config(), problem, Addresses(), cached="B")
    assert len(plan.steps) == 1
    assert plan.cached is not None
    assert plan.needs.relayout_bytes == 0


# Through the front door.


def drawn(rows, cols, seed=0):
    return np.random.default_rng([seed, rows, cols]).standard_normal((rows, cols), np.float32)


@pytest.mark.further
@pytest.mark.parametrize(("name", "overrides"), FORMS[1::2], ids=str)
def test_one_prepared_factor_serves_products_of_any_kind_in_turns(name, overrides):
    """Each product looks at the elements of both factors anew, and results of one a are not left to the next."""
    named = {"kernel": name, "config": overrides, "engine": "emulator"}
    b = drawn(130, 90)
    whole, holed = tilewright.prepare(b, engine="emulator"), b.copy()
    holed[129, 3] = np.inf
    of_holed = tilewright.prepare(holed, engine="emulator")
    for m, value in ((70, 1.0), (70, np.inf), (3, 2.0**-149), (70, 1.0), (140, -np.inf), (3, 1.0)):
        a = drawn(m, 130)
        a[1, 2] = value
        for array, prepared in ((b, whole), (holed, of_holed)):
            with np.errstate(all="ignore"):
                expected, found = (tilewright.matmul(a, one, **named) for one in (array, prepared))
            np.testing.assert_array_equal(bits(found), bits(expected))
    assert whole.nbytes == of_holed.nbytes
    assert len(whole._copies) == 1


@pytest.mark.further
def test_kernels_that_split_alike_share_a_copy_and_others_do_not():
    b = drawn(130, 90)
    prepared = tilewright.prepare(b, engine="emulator")
    kinds_of = []
    for kernel, config in (
        ("gemm_bf16x6", {}),
        ("gemm_bf16x6", {"BN": 32}),
        ("gemm_fp16x3", {}),
        ("gemm_bf16x3", {}),
        ("naive", {}),
    ):
        for m in (70, 7):
            a = drawn(m, 130)
            found, expected = (
                tilewright.matmul(a, one, kernel=kernel, config=config, engine="emulator") for one in (prepared, b)
            )
            np.testing.assert_array_equal(found, expected)
        kinds_of.append(len(prepared._copies))
    assert kinds_of == [1, 1, 2, 3, 3]


@pytest.mark.further
def test_elements_that_change_later_are_not_seen_by_products_of_the_copy():
    a, b = drawn(70, 130), drawn(130, 90)
    prepared = tilewright.prepare(b, engine="emulator")
    before = tilewright.matmul(a, prepared, kernel="gemm_bf16x6", engine="emulator")
    b[:] = 0
    np.testing.assert_array_equal(tilewright.matmul(a, prepared, kernel="gemm_bf16x6", engine="emulator"), before)
