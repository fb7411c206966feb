"""Float32 products of terms with their wide form behind them, on the emulator.

Whatever the factors hold, the result is that of one of two kernels, bit for bit: of the terms alone where these hold
the factors, else of the float32 kernel alone.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_library_on_emulator import ENGINE, WAYS, drawing, of_size
from test_split_products import FORMS, LEFT, forms

from library_cases import Case, Operands, cases, findings, kinds, multiply, place
from tilewright.engines import relayouts
from tilewright.engines.plan import Pointers
from tilewright.engines.relayouts import SEEN_WORDS
from tilewright.kernels import find, resolve
from tilewright.kernels.spec import Choice
from tilewright.kernels.takes import Addresses
from tilewright.problem import LAYOUTS, Problem, Scalars, orders
from tilewright.select.selector import wide_form


def choice(name):
    kernel, overrides = resolve(name)
    return Choice(kernel, kernel.config(overrides))


INCLUDE = find("gemm_sm90").source.parents[1] / "include"
SPLIT_K, TMA = choice("split_k:tiny"), choice("tma_transposed:small")
"""The second reads aligned rows alone in place."""


def bits(array):
    return array.view(f"u{array.itemsize}")


def computed_by(kernel, config, case, operands, wide=SPLIT_K):
    """Which kernel's result a plan of both has: 'terms' or 'wide', or 'both' where they are the same."""
    by_terms, by_wide, found = (
        bits(multiply(ENGINE, *one, case, operands, behind))
        for one, behind in (((kernel, config), None), (wide, None), ((kernel, config), wide))
    )
    by = [name for name, of in (("terms", by_terms), ("wide", by_wide)) if np.array_equal(found, of)]
    assert by, "of neither"
    return "both" if len(by) == 2 else by[0]


def usual(k=64, layout="NN", m=70, n=90):
    a, b = orders(layout)
    return Case(Problem(m, n, k, a=a, b=b))


# What no term holds, anywhere.

MOST = float(np.finfo(np.float32).max)
UNFIT = [np.nan, np.inf, -np.inf, MOST, -MOST, 2.0**127, 2.0**-149, -(2.0**-127), 1.5 * 2.0**-130]


@forms
@given(data=st.data())
@drawing(12)
def test_one_element_that_terms_cannot_hold_is_enough(name, overrides, data):
    """In any place of A or B, with what an epilogue adds, in batches, with alpha and beta of any kind."""
    kernel = find(name)
    case = data.draw(cases(kernel, kinds(kernel, overrides)[::2]))  # each is compiled
    operands = Operands.draw(case)
    factor, layout = data.draw(st.sampled_from([(operands.a, case.problem.a), (operands.b, case.problem.b)]))
    value = data.draw(st.sampled_from(UNFIT))
    if factor.size:
        matrix, row, col = (data.draw(st.integers(0, extent - 1)) for extent in factor.shape)
        if kernel.split.scaled and 0 < abs(value) < 2.0**-126:  # found where it is the largest of a square
            factor[:, row // 64 * 64 :][:, :64, col // 64 * 64 :][:, :, :64] = 0
        factor[slice(None) if layout.batch_stride == 0 else matrix, row, col] = value
    with np.errstate(all="ignore"):
        by = computed_by(kernel, kernel.config(overrides), case, operands)
    sums = case.scalars.alpha != 0 and factor.size
    assert by in (("wide", "both") if sums else ("terms", "both"))


@forms
@given(data=st.data())
@drawing(8)
def test_what_terms_hold_is_theirs(name, overrides, data):
    kernel = find(name)
    case = data.draw(cases(kernel, kinds(kernel, overrides)[::2]))
    assert computed_by(kernel, kernel.config(overrides), case, Operands.draw(case)) in ("terms", "both")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("wide", [SPLIT_K, TMA], ids=lambda one: one.kernel.name)
@pytest.mark.parametrize(("name", "overrides"), [FORMS[0], FORMS[3]], ids=str)
def test_every_order(name, overrides, wide, layout):
    kernel, more = find(name), wide is TMA
    config, case = kernel.config(overrides), of_size(kernel, layout, 70 + 2 * more, 90 + 2 * more, 130 + 2 * more)
    operands = Operands.draw(case)
    assert computed_by(kernel, config, case, operands, wide) == "terms"
    operands.b[1, -1, -1] = np.inf
    with np.errstate(all="ignore"):
        assert computed_by(kernel, config, case, operands, wide) == "wide"


# Limits: exponents of A's elements, of B's, and of one element of A; k; and whether terms hold them.

LIMITS = {
    "gemm_bf16x6": [
        (-50, 0, -110, 64, False),  # the product
        (-50, 0, -100, 64, True),
        (-50, 20, -110, 64, True),
        (-50, 20, -111, 64, False),  # the element
        (-60, -40, -60, 64, True),
        (-60, -40, -61, 64, False),
        (100, -40, 126, 64, True),
        (100, -40, 127, 64, False),
        (60, 57, 60, 64, True),
        (60, 58, 60, 64, False),  # sums of 64
        (60, 58, 60, 63, True),
        (60, 58, 60, 127, False),
    ],
    "gemm_bf16x3": [(-50, 20, -118, 64, True), (-50, 20, -119, 64, False), (100, -40, 127, 64, False)],
    "gemm_fp16x3": [
        (-126, 50, -126, 64, True),
        (-127, 50, -127, 64, False),  # the largest element of a square
        (-50, -37, -50, 64, True),
        (-50, -38, -50, 64, False),
        (100, -40, 126, 64, True),
        (100, -40, 127, 64, False),
        (60, 57, 60, 64, True),
        (60, 58, 60, 64, False),
        (0, 0, -28, 64, True),
        (0, 0, -60, 64, True),  # an element that is lost, in sums that are large
    ],
}


@pytest.mark.parametrize("factor", "ab")
@pytest.mark.parametrize(("name", "limit"), [(name, one) for name, of in LIMITS.items() for one in of], ids=str)
def test_what_is_just_inside_is_of_the_terms_and_what_is_just_outside_is_not(name, limit, factor):
    kernel = find(name)
    of_a, of_b, of_one, k, held = limit
    case = usual(k)
    operands = Operands.draw(case)
    random = np.random.default_rng(k)
    one, other = (operands.a, operands.b) if factor == "a" else (operands.b, operands.a)
    for values, exponent in ((one, of_a), (other, of_b)):  # of one sign, so that no sum is small
        values[:] = np.ldexp(random.uniform(1, 1.999, values.shape), exponent)
    one[0, one.shape[1] // 2, one.shape[2] // 3] = np.ldexp(1.25, of_one)
    assert computed_by(kernel, kernel.config(), case, operands) == ("terms" if held else "wide")


# What scales lose.


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize(("power", "lost"), [(-27, False), (-29, True), (-60, True), (-120, True), (-180, True)])
def test_an_element_too_small_for_its_square_counts_where_a_sum_is_as_small(power, lost, splits, layout):
    """The largest of its row meets zeros alone: it is all that there is of an element of the result."""
    kernel = find("gemm_fp16x3")
    config, case = kernel.config({"SPLITS": splits}), usual(200, layout)
    operands = Operands.draw(case)
    operands.a[0, 65], operands.a[0, 64:, 128:192] = 0, 0
    operands.a[0, 65, 130:135] = 2.0**60
    operands.a[0, 65, 140] = 1.2345 * 2.0 ** (60 + power)
    operands.b[0, 130:135, 77] = 0
    by = computed_by(kernel, config, case, operands)
    assert by == ("wide" if lost else "terms")
    found = multiply(ENGINE, kernel, config, case, operands, SPLIT_K)[0, 65, 77].astype(np.float64)
    exact = operands.a[0, 65].astype(np.float64) @ operands.b[0, :, 77].astype(np.float64)
    assert abs(found - exact) <= 2.0**-21 * abs(exact)


def test_a_lost_element_outside_of_the_result_is_not_looked_for():
    """Sums of rows and columns that tiles have and the matrix has not are 0."""
    kernel = find("gemm_fp16x3")
    case = usual(64, m=65, n=65)
    operands = Operands.draw(case)
    for values in (operands.a, operands.b):
        values[:] = np.random.default_rng(0).uniform(1, 2, values.shape)
    operands.a[0, 3, 5] = 2.0**-50
    assert computed_by(kernel, kernel.config(), case, operands) == "terms"


# Plans.


def planned(kernel, config, case, operands, wide):
    a, b = (
        place(ENGINE, values, layout, case.offset)
        for values, layout in ((operands.a, case.problem.a), (operands.b, case.problem.b))
    )
    d = place(ENGINE, operands.c, case.problem.d, case.offset)
    pointers = Pointers(a.pointer, b.pointer, d.pointer, d.pointer)
    return ENGINE.plan(kernel, config, case.problem, Addresses(*pointers[:4]), wide=wide), pointers, (a, b, d)


@forms
def test_the_words_are_0_after_the_product_whoever_computes_it(name, overrides):
    kernel = find(name)
    case = usual(130)
    for unfit in (False, True):
        operands = Operands.draw(case)
        operands.a[0, 3, 5] = np.inf if unfit else 1.0
        plan, pointers, _ = planned(kernel, kernel.config(overrides), case, operands, SPLIT_K)
        launched = [step.function.executable.kernel.source.stem for step in plan.steps]
        assert launched == ["relayout", kernel.source.stem, "split_k"]
        assert plan.needs.tickets >= SEEN_WORDS
        relayout, seen = np.full(plan.needs.relayout_bytes + 256, 0xFF, np.uint8), np.zeros(SEEN_WORDS, np.uint32)
        start = relayout.ctypes.data + -relayout.ctypes.data % 256
        (of_fits,) = (
            slot for slot in plan.steps[1].slots if slot.source == "relayout" and slot.shift not in _copies(plan)
        )
        fits = relayout[start - relayout.ctypes.data + of_fits.shift :][:4].view(np.uint32)
        ENGINE.launch(plan.steps[0], pointers, Scalars(), start, seen)
        assert seen.any()
        ENGINE.launch(plan.steps[1], pointers, Scalars(), start, seen)
        assert not seen.any()
        assert fits[0] == (not unfit)


def _copies(plan):
    """Where in the memory for copies the operands of a product of terms are, and its scales."""
    copies = plan.steps[0].function.copies
    return {copy.shift for copy in copies} | {copy.scales for copy in copies if copy.split.scaled}


@forms
def test_a_plan_serves_inputs_of_either_kind_in_turns(name, overrides):
    kernel = find(name)
    config, case = kernel.config(overrides), usual(130)
    operands = Operands.draw(case)
    plan, pointers, (a, *_, d) = planned(kernel, config, case, operands, SPLIT_K)
    element = a.owner.owner.view(np.float32)[7:8]
    for value in (1.0, np.nan, 1.0, -np.inf, MOST, 1.0):
        element[:] = operands.a[0, 0, 7] = value
        ENGINE.start(plan, pointers)
        expected = multiply(ENGINE, *((kernel, config) if value == 1 else SPLIT_K), case, operands)
        np.testing.assert_array_equal(bits(ENGINE.download(d)), bits(expected))


def test_nothing_is_behind_a_product_of_nothing():
    kernel = find("gemm_bf16x6")
    empty = Problem(64, 64, 0)
    assert wide_form(kernel, empty, None) is None
    assert len(ENGINE.plan(kernel, kernel.config(), empty, wide=SPLIT_K).steps) == 1
    case = replace(usual(64), scalars=Scalars(0.0, 0.5))
    operands = Operands.draw(case)
    operands.a[0, 0, 0] = np.nan
    np.testing.assert_array_equal(
        multiply(ENGINE, kernel, kernel.config(), case, operands, SPLIT_K), np.float32(0.5) * operands.c
    )


def test_alpha_may_be_0_in_a_plan_made_for_another():
    """The launcher has one plan for every alpha."""
    kernel = find("gemm_fp16x3")
    case = usual(64)
    operands = Operands.draw(case)
    operands.a[0, 0, 0] = 2.0**-60
    for value in (1.0, 2.0**-60, np.nan):
        operands.a[0, 0, 0] = value
        plan, pointers, (*_, d) = planned(kernel, kernel.config(), case, operands, SPLIT_K)
        ENGINE.start(plan, pointers, Scalars(0.0, 0.0))
        assert not ENGINE.download(d).any()


def test_a_kernel_that_notices_nothing_has_no_wide_form():
    problem = Problem(128, 128, 128)
    for name in ("split", "promoted", "interleaved", "gemm_sm90", "split_k"):
        assert wide_form(find(name), problem, None) is None
    for name in LEFT:
        for capability, device in ((None, ""), ((9, 0), "NVIDIA H200")):
            kernel, config = wide_form(find(name), problem, capability, device)
            assert kernel.keeps("ieee")
            assert config == kernel.config(config)


# What the checker finds.


def make_unfit(operands):
    operands.a[:] *= np.float32(2.0**-130)


@pytest.mark.parametrize("change", [lambda operands: None, make_unfit], ids=["fit", "unfit"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "overrides"), FORMS[::2], ids=str)
def test_the_checker_finds_nothing(name, overrides, way, change):
    kernel = find(name)
    config, (extra, gap) = kernel.config(overrides), WAYS[way]
    tile = kernel.tile(config)
    sizes = (tile.m + extra, tile.n + extra, tile.k + extra)
    case = of_size(kernel, "NN", *sizes, gap)
    wide = SPLIT_K if way == "unaligned rows" else TMA
    assert findings(kernel, config, case, left=LEFT[name], wide=wide, change=change) == []


FAULTS = {
    "a warp that reads the words when the last one has reset them": (
        "term_range.cuh",
        "return __syncthreads_and(",
        "return (",
        r"writes the 8 elements from tickets\[0\] on .*nothing orders the two",
    ),
    "the largest of a block takes the place of a larger one": (
        "term_range.cuh",
        "atomicMax(word, to);",
        "*word = to;",
        r"writes tickets\[\d\] at relayout.cu.*nothing orders the two",
    ),
    "a launch that looks too early": (
        "split_k.cu",
        "is_skipped(sizes.skip)",
        "sizes.skip != nullptr && *sizes.skip != 0",
        r"reads whether terms fit\[0\] .*has not waited for the launch before",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault, tmp_path, monkeypatch):
    name, right, wrong, words = FAULTS[fault]
    kernel, config = find("gemm_bf16x6"), find("gemm_bf16x6").config({"BN": 32})
    copied = relayouts._KERNEL
    sources = {one.source.name: one.source for one in (kernel, copied, SPLIT_K.kernel)}
    for source in sources.values():
        (tmp_path / source.name).write_text(source.read_text())
    text = sources.get(name, INCLUDE / name).read_text()
    assert text.count(right) == 1
    (tmp_path / name).write_text(text.replace(right, wrong))
    monkeypatch.setattr(relayouts, "_KERNEL", replace(copied, source=tmp_path / copied.source.name))
    faulty, wide = (replace(one, source=tmp_path / one.source.name) for one in (kernel, SPLIT_K.kernel))
    case = of_size(kernel, "NN", 300, 40, 130)
    found = findings(
        faulty, config, case, left=LEFT[kernel.name], wide=SPLIT_K._replace(kernel=wide), change=make_unfit
    )
    assert any(re.search(words, one) for one in found), found
