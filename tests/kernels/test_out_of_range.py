"""Float32 products on the emulator by kernels of parts, of factors that parts cannot represent: the same launch
multiplies them in float32, or stores anew what is infinite or NaN.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_library_on_emulator import ENGINE, WAYS, drawing, of_size
from test_split_products import FORMS, LEFT, USUAL, forms

from left_out import VARIABLE, copied, switchable
from library_cases import Case, Operands, cases, findings, multiply, place, reference
from tilewright.core.errors import LaunchError
from tilewright.core.problem import Layout, Problem, Scalars, orders
from tilewright.kernels import find
from tilewright.kernels.split import NON_FINITE, NON_FINITE_WORDS, SPLIT_COUNTERS
from tilewright.kernels.support import Addresses
from tilewright.runtime.nvrtc import INCLUDE
from tilewright.runtime.plan import Pointers

MOST = float(np.finfo(np.float32).max)
"""Too large for parts, which round it to infinity."""


def bits(array):
    return array.view(f"u{array.itemsize}")


def computed_by(kernel, config, case, operands):
    """'parts' or 'float32': by which the rows of D behind the first are computed.

    In float32 a row of D has the same bits whatever other rows of A hold: those that it has where an element of the
    first row is too large for parts.
    """
    known = replace(operands, a=operands.a.copy())
    known.a[:, 0] = MOST
    found, in_float32 = (bits(multiply(ENGINE, kernel, config, case, one))[:, 1:] for one in (operands, known))
    return "float32" if np.array_equal(found, in_float32) else "parts"


def check_float32(case, operands, result, left=0.0):
    """Raise AssertionError unless D is as float32 has it, but where products come near to the end of its range."""
    with np.errstate(all="ignore"):
        expected, allowed = reference(case, operands, left)
        difference = abs(result.astype(np.float64) - expected)
    ordinary = np.isfinite(allowed) & (allowed < 2.0**100)
    assert (difference <= allowed)[ordinary].all()
    if case.problem.epilogue.activation is None:
        of_a, of_b = (abs(x[np.isfinite(x)]).max(initial=0) for x in (operands.a, operands.b))
        if of_a < 2.0**100 > of_b:
            np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
            infinite = np.isinf(expected)
            np.testing.assert_array_equal(result[infinite], expected[infinite])


def usual(k=64, layout="NN", m=70, n=90):
    """A product whose rows, or columns, begin at multiples of 16 bytes."""
    a, b, d = (
        one._replace(ld=-(-length // 4) * 4)
        for one, length in zip(
            (*orders(layout), Layout()), (k if layout[0] == "N" else m, n if layout[1] == "N" else k, n), strict=True
        )
    )
    return Case(Problem(m, n, k, a=a, b=b, d=d))


# What no part represents, anywhere.

LARGE = [MOST, 2.0**127]
UNFIT = [np.nan, np.inf, -np.inf, *LARGE, -MOST, 2.0**-149, -(2.0**-127), 1.5 * 2.0**-130]


@pytest.mark.first(1)
@forms
@given(data=st.data())
@drawing(8)
def test_one_element_that_parts_cannot_hold_is_enough(name, overrides, data):
    """In any place of A or B, with what an epilogue adds, in batches, with alpha and beta of any kind."""
    kernel, config = find(name), find(name).config(overrides)
    case = data.draw(cases(kernel, config, [USUAL]))
    operands = Operands.draw(case)
    factor, layout = data.draw(st.sampled_from([(operands.a, case.problem.a), (operands.b, case.problem.b)]))
    value = data.draw(st.sampled_from(UNFIT))
    if factor.size:
        matrix, row, col = (data.draw(st.integers(0, extent - 1)) for extent in factor.shape)
        if kernel.split.scaled and 0 < abs(value) < 2.0**-126:  # found where it is the largest of a square
            factor[:, row // 64 * 64 :][:, :64, col // 64 * 64 :][:, :, :64] = 0
        factor[slice(None) if layout.batch_stride == 0 else matrix, row, col] = value
    left = 0.0 if abs(value) in LARGE else LEFT[name]
    check_float32(case, operands, multiply(ENGINE, kernel, config, case, operands), left)


@pytest.mark.first(2)
@forms
def test_what_parts_hold_is_theirs(name, overrides):
    kernel, case = find(name), usual(132)
    assert computed_by(kernel, kernel.config(overrides), case, Operands.draw(case)) == "parts"


@pytest.mark.further
@pytest.mark.parametrize(
    ("name", "overrides", "gap", "layout"),
    [(*FORMS[form], gap, layout) for form, gap, layout in ((0, 3, "TT"), (1, 0, "NT"), (3, 3, "NN"), (4, 3, "TN"))],
    ids=str,
)
def test_every_order(name, overrides, gap, layout):
    """In batches whose rows start anywhere, with what D held."""
    kernel = find(name)
    config, case = kernel.config(overrides), of_size(kernel, layout, 70, 90, 130, gap)
    operands = Operands.draw(case)
    operands.b[1, -1, -1] = MOST
    assert computed_by(kernel, config, case, operands) == "float32"
    check_float32(case, operands, multiply(ENGINE, kernel, config, case, operands))


@pytest.mark.further
def test_elements_that_lie_far_apart():
    """Offsets of float32 elements in place may pass 2^31 though those of the parts do not."""
    kernel, far = find("gemm_bf16x6"), 2**31 // 69 // 4 * 4 + 4
    case = Case(Problem(70, 8, 16, a=Layout("row", far)))
    a = np.lib.stride_tricks.as_strided  # memory that nobody touches costs none
    memory = np.zeros(69 * far + 16, np.float32)
    factor = a(memory, (70, 16), (4 * far, 4))
    operands = Operands.draw(case)
    operands.a[0, 69, 15] = np.inf
    factor[...] = operands.a[0]
    b, d = place(ENGINE, operands.b, case.problem.b, 0), place(ENGINE, operands.c, case.problem.d, 0)
    pointers = Pointers(memory.ctypes.data, b.pointer, d.pointer)
    plan = ENGINE.plan(kernel, kernel.config(), case.problem, Addresses(*pointers[:3]))
    ENGINE.start(plan, pointers)
    check_float32(case, operands, ENGINE.download(d))


# Limits: exponents of A's elements, of B's, and of one element of A; k; and whether parts represent them.

LIMITS = {
    "gemm_bf16x6": [
        (-50, 0, -110, 64, True),  # a product underflows, and parts cut off an element, in sums that are large
        (-50, 20, -149, 64, True),
        (-60, -40, -61, 64, True),
        (-62, -42, -62, 64, False),  # and in sums that are not
        (100, -40, 126, 64, True),
        (100, -40, 127, 64, False),
        (60, 57, 60, 64, True),
        (60, 58, 60, 64, False),  # sums of 64
        (60, 58, 60, 63, True),
        (60, 58, 60, 127, False),
    ],
    "gemm_bf16x3": [(-90, 0, -118, 64, True), (-108, 0, -119, 64, False), (100, -40, 127, 64, False)],
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

LIMITS["small_m_bf16x6"] = LIMITS["gemm_bf16x6"]
LIMITS["small_m_fp16x3"] = LIMITS["gemm_fp16x3"]


@pytest.mark.one_of_each("name")
@pytest.mark.parametrize("factor", "ab")
@pytest.mark.parametrize(("name", "limit"), [(name, one) for name, of in LIMITS.items() for one in of], ids=str)
def test_what_is_just_inside_is_of_the_parts_and_what_is_just_outside_is_not(name, limit, factor):
    kernel = find(name)
    of_a, of_b, of_one, k, held = limit
    case = usual(k)
    operands = Operands.draw(case)
    random = np.random.default_rng(k)
    one, other = (operands.a, operands.b) if factor == "a" else (operands.b, operands.a)
    for values, exponent in ((one, of_a), (other, of_b)):  # of one sign, so that no sum is small
        values[:] = np.ldexp(random.uniform(1, 1.999, values.shape), exponent)
    one[0, one.shape[1] // 2, one.shape[2] // 3] = np.ldexp(1.25, of_one)
    assert computed_by(kernel, kernel.config(), case, operands) == ("parts" if held else "float32")


# What scales lose, and parts of small elements.


POWERS = (-27, -29, -60, -120, -180)


@pytest.mark.one_of_each("power")
@pytest.mark.parametrize(
    ("form", "power"),
    [
        *((("gemm_bf16x6", {}, "NN"), power) for power in POWERS),
        *(
            (form, POWERS[(number + more) % len(POWERS)])
            for number, form in enumerate(
                (
                    ("gemm_mma_bf16x6", {}, "NN"),
                    ("small_m_bf16x6", {}, "NN"),
                    ("gemm_fp16x3", {}, "NN"),
                    ("gemm_fp16x3", {"SPLITS": 2}, "TT"),
                    (*FORMS[3], "NN"),
                    ("small_m_fp16x3", {}, "NN"),
                    ("small_m_fp16x3", {"BM": 64, "BN": 64, "BK": 64, "STAGES": 2, "SPLITS": 2}, "NT"),
                )
            )
            for more in (0, 2)
        ),
    ],
    ids=str,
)
def test_an_element_too_small_for_its_square_counts_where_a_sum_is_as_small(form, power):
    """The largest of its row meets zeros alone: it is all that there is of an element of the result.

    D, which is C too, is not stored before it is known.
    """
    name, overrides, layout = form
    kernel = find(name)
    lost = power < (-28 if name.endswith("fp16x3") else -120)
    config, case = kernel.config(overrides), replace(usual(200, layout), scalars=Scalars(1.0, 2.0**-40))
    operands = Operands.draw(case)
    operands.a[0, 65], operands.a[0, 64:, 128:192] = 0, 0
    operands.a[0, 65, 130:135] = 2.0**60
    operands.a[0, 65, 140] = 1.2345 * 2.0 ** (60 + power)
    operands.b[0, 130:135, 77] = 0
    operands.c[0, 65, 77] = 0
    found = multiply(ENGINE, kernel, config, case, operands)
    check_float32(case, operands, found, LEFT["gemm_fp16x3"])
    exact = operands.a[0, 65].astype(np.float64) @ operands.b[0, :, 77].astype(np.float64)
    assert abs(found[0, 65, 77] - exact) <= 2.0**-21 * abs(exact)
    in_float32 = replace(operands, a=operands.a.copy())
    in_float32.a[0, 64 if name == "small_m_fp16x3" and config.BM == 64 else 0] = MOST  # in the same tile
    by_float32 = multiply(ENGINE, kernel, config, case, in_float32)
    assert np.array_equal(bits(found[0, 65]), bits(by_float32[0, 65])) == lost


@pytest.mark.parametrize("name", ["gemm_fp16x3", "small_m_fp16x3"])
def test_a_lost_element_outside_of_the_result_is_not_looked_for(name):
    """Sums of rows and columns that tiles have and the matrix has not are 0."""
    kernel = find(name)
    case = usual(64, m=65, n=65)
    operands = Operands.draw(case)
    for values in (operands.a, operands.b):
        values[:] = np.random.default_rng(0).uniform(1, 2, values.shape)
    operands.a[0, 3, 5] = 2.0**-50
    assert computed_by(kernel, kernel.config(), case, operands) == "parts"


# Plans.


def planned(kernel, config, case, operands):
    a, b = (
        place(ENGINE, values, layout, case.offset)
        for values, layout in ((operands.a, case.problem.a), (operands.b, case.problem.b))
    )
    d = place(ENGINE, operands.c, case.problem.d, case.offset)
    pointers = Pointers(a.pointer, b.pointer, d.pointer, d.pointer)
    return ENGINE.plan(kernel, config, case.problem, Addresses(*pointers[:4])), pointers, (a, b, d)


@pytest.mark.first(1)
@forms
def test_a_plan_of_one_launch_serves_inputs_of_either_kind_in_turns(name, overrides):
    kernel = find(name)
    config, case = kernel.config(overrides), usual(132)
    operands = Operands.draw(case)
    plan, pointers, (a, *_, d) = planned(kernel, config, case, operands)
    (step,) = plan.steps
    assert step.function.executable.kernel is kernel
    assert plan.needs.counters == SPLIT_COUNTERS
    element = a.owner.owner.view(np.float32)[7:8]
    for value in (1.0, np.nan, 1.0, -np.inf, MOST, 1.0):
        element[:] = operands.a[0, 0, 7] = value
        ENGINE.start(plan, pointers)
        result = ENGINE.download(d)
        np.testing.assert_array_equal(bits(result), bits(multiply(ENGINE, kernel, config, case, operands)))
        check_float32(case, operands, result, 0.0 if value == MOST else LEFT[name])


@pytest.mark.further
@pytest.mark.parametrize(
    ("factor", "place", "least", "most"),
    [("a", (0, 0), 0.01, 0.1), ("b", (-1, -1), 0.9, 1), ("a", None, 0.98, 1)],
    ids=["first", "last", "fit"],
)
@pytest.mark.parametrize(("name", "overrides"), [("gemm_bf16x6", {"BN": 64}), FORMS[4]], ids=str)
def test_squares_are_split_until_one_shows_that_parts_do_not_hold(name, overrides, factor, place, least, most):
    """By one block: others may have taken squares before they know."""
    kernel = find(name)
    config, case = kernel.config(overrides), usual(64 * 60, m=64, n=64)
    operands = Operands.draw(case)
    if place:
        getattr(operands, factor)[0][place] = MOST
    plan, pointers, (*_, d) = planned(kernel, config, case, operands)
    (step,) = plan.steps
    parts = np.full(plan.needs.relayout_bytes // 8 + 1, 0xA5A5A5A5A5A5A5A5, np.uint64)
    ENGINE.launch(step, pointers, relayout=parts.ctypes.data)
    if place:
        check_float32(case, operands, ENGINE.download(d))
    lists = 2 * NON_FINITE * NON_FINITE_WORDS // 2
    split = (parts[:-1] != parts[-1]).sum() / (len(parts) - 1 - lists)
    assert least <= split <= most  # between matrices there are gaps


@pytest.mark.further
@pytest.mark.parametrize("cached", [None, "A"])
@pytest.mark.parametrize(("name", "overrides"), [FORMS[1]], ids=str)
def test_counters_that_are_not_set_back_are_detected(name, overrides, cached, tmp_path):
    """The emulator looks at them behind each launch of every test here."""
    kernel = find(name)
    faulty, case = copied(kernel, tmp_path), usual(70)
    text = (INCLUDE / "float32_parts/split_factors.cuh").read_text()
    assert text.count("*counters = {};") == 1
    (tmp_path / "float32_parts/split_factors.cuh").write_text(text.replace("*counters = {};", "counters->blocks = 0;"))
    with pytest.raises(LaunchError, match="leaves counters other than 0"):
        multiply(ENGINE, faulty, kernel.config(overrides), case, Operands.draw(case), cached)


def test_products_of_nothing_split_nothing():
    kernel = find("gemm_bf16x6")
    plan = ENGINE.plan(kernel, kernel.config(), Problem(64, 64, 0))
    assert len(plan.steps) == 1
    assert not any(plan.needs)
    case = replace(usual(64), scalars=Scalars(0.0, 0.5))
    operands = Operands.draw(case)
    operands.a[0, 0, 0] = np.nan
    np.testing.assert_array_equal(
        multiply(ENGINE, kernel, kernel.config(), case, operands), np.float32(0.5) * operands.c
    )


def test_alpha_may_be_0_in_a_plan_made_for_another():
    """The launcher has one plan for every alpha."""
    kernel = find("gemm_fp16x3")
    case = usual(64)
    operands = Operands.draw(case)
    for value in (1.0, 2.0**-60, np.nan):
        operands.a[0, 0, 0] = value
        plan, pointers, (*_, d) = planned(kernel, kernel.config(), case, operands)
        ENGINE.start(plan, pointers, Scalars(0.0, 0.0))
        assert not ENGINE.download(d).any()


def test_rungs_take_parts_to_hold_their_factors_and_keep_no_promise():
    for name in ("split", "promoted", "interleaved"):
        kernel = find(name)
        assert not kernel.splits
        assert not kernel.meets(None)
        assert len(ENGINE.plan(kernel, kernel.config(), Problem(128, 128, 128)).steps) == 2


# What the checker finds.


def fit(operands):
    """As they are drawn."""


def make_unfit(operands):
    operands.a[:] *= np.float32(2.0**-130)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("form", "way", "change"),
    [
        (0, "unaligned rows", fit),
        (1, "edges", fit),
        (1, "edges", make_unfit),
        (2, "unaligned rows", fit),
        (3, "whole tiles", fit),
        (4, "unaligned rows", make_unfit),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_the_checker_finds_nothing(form, way, change):
    """Where rows are unaligned, with a factor that is kept too: see test_cached_operands.py."""
    name, overrides = FORMS[form]
    kernel = find(name)
    config, (extra, gap) = kernel.config(overrides), WAYS[way]
    tile = kernel.tile(config)
    sizes = (tile.m + extra, tile.n + extra, tile.k + extra)
    case = of_size(kernel, "NN", *sizes, gap)
    assert findings(kernel, config, case, left=LEFT[name], change=change) == []


FAULTS = {
    "blocks that do not wait for the squares of others": (
        "float32_parts/split_factors.cuh",
        "wait_for_count(&counters->done, all);",
        "",
        r"writes the 11 elements from counters\[0\] on .*nothing orders the two",
    ),
    "the largest of a block takes the place of a larger one": (
        "float32_parts/part_range.cuh",
        "atomicMax(word, to);",
        "*word = to;",
        r"writes counters\[\d\] .*nothing orders the two",
    ),
}


def changed(kernel, folder, name, right, wrong):
    """The kernel with one place of a header changed."""
    faulty = copied(kernel, folder)
    text = (INCLUDE / name).read_text()
    assert text.count(right) == 1
    (folder / name).write_text(text.replace(right, wrong))
    return faulty


@pytest.mark.further
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault, tmp_path):
    name, right, wrong, words = FAULTS[fault]
    kernel, config = find("gemm_bf16x6"), find("gemm_bf16x6").config({"BN": 32})
    faulty = changed(kernel, tmp_path, name, right, wrong)
    found = findings(faulty, config, of_size(kernel, "NN", 300, 40, 130), left=LEFT[kernel.name])
    assert any(re.search(words, one) for one in found), found


WRONG = {
    "parts that are read before they have come": (
        "gemm_bf16x6",
        "float32_parts/float32_warpgroups.cuh",
        "barrier_wait(&full[turn.stage], turn.parity);",
    ),
    "parts that are replaced before they have been read": (
        "gemm_bf16x6",
        "float32_parts/float32_warpgroups.cuh",
        "barrier_wait(&empty[turn.stage], turn.parity ^ 1);",
    ),
    "parts that are shown before they have come": (
        "gemm_bf16x6",
        "float32_parts/float32_warpgroups.cuh",
        "wait_copies<1>();",
    ),
    "slices that do not wait for each other's sums": (
        "gemm_bf16x3",
        "float32_parts/float32_tile.cuh",
        "sync();\n#pragma unroll",
    ),
    "parts that all threads copy and read before they have synced": (
        "gemm_mma_bf16x3",
        "float32_parts/float32_block.cuh",
        "sync();",
    ),
}


@pytest.mark.further
@pytest.mark.parametrize("fault", WRONG)
def test_planted_faults_of_float32_tiles_make_them_wrong_or_wait_for_ever(fault, tmp_path, monkeypatch):
    """Faults of one kernel and header are in one compiled kernel."""
    name, header, statement = WRONG[fault]
    statements = [one for *where, one in WRONG.values() if where == [name, header]]
    monkeypatch.setenv(VARIABLE, str(1 + statements.index(statement)))
    kernel = find(name)
    faulty = copied(kernel, tmp_path)
    (tmp_path / header).write_text(switchable((INCLUDE / header).read_text(), statements))
    config = kernel.config({"BN": 64})
    with pytest.raises((AssertionError, LaunchError)):
        findings(faulty, config, of_size(kernel, "NN", 140, 70, 330), left=LEFT[name], change=make_unfit)


@pytest.mark.further
def test_slices_that_replace_sums_which_are_still_read_are_found(tmp_path):
    """Two slices add up sums through memory that the next tile takes."""
    kernel = find("gemm_bf16x6")
    faulty = changed(kernel, tmp_path, "float32_parts/float32_tile.cuh", "sync();  // all", "// all")
    case = of_size(kernel, "NN", 1100, 70, 30)  # a block has more than one tile
    found = findings(faulty, kernel.config({"BN": 32}), case, left=LEFT[kernel.name], change=make_unfit)
    assert any("float32_tile.cuh" in one for one in found), found


# What is infinite or NaN.


@pytest.mark.first(2)
@forms
def test_sums_with_an_infinity_are_stored_anew_and_no_others(name, overrides):
    """Sums of one row and one column: the others are of the parts, in which an infinity counts as 0."""
    kernel = find(name)
    config, case = kernel.config(overrides), usual(132)
    operands = Operands.draw(case)
    operands.a[0, 37, 41] = operands.b[0, 5, 60] = 0
    without = multiply(ENGINE, kernel, config, case, operands)
    operands.a[0, 37, 41], operands.b[0, 5, 60] = np.inf, np.nan
    found = multiply(ENGINE, kernel, config, case, operands)
    check_float32(case, operands, found, LEFT[name])
    met = np.zeros(found.shape, bool)
    met[0, 37, :] = met[0, :, 60] = True
    np.testing.assert_array_equal(np.isfinite(found), ~met)
    np.testing.assert_array_equal(bits(found)[~met], bits(without)[~met])


@pytest.mark.first(1)
@forms
def test_infinities_of_both_factors_meet(name, overrides):
    """Infinities of either sign, with zeros, in one row, behind each other."""
    kernel = find(name)
    config, case = kernel.config(overrides), usual(132)
    operands = Operands.draw(case)
    operands.a[0, 3, [0, 17, 129]] = np.inf
    operands.a[0, 4, [1, 2]] = np.inf, -np.inf
    operands.a[0, 69, 64:] = np.nan
    operands.b[0, 17, [3, 4, 5]] = 0, -np.inf, np.inf
    operands.b[0, :, 89] = -np.inf
    check_float32(case, operands, multiply(ENGINE, kernel, config, case, operands), LEFT[name])


@pytest.mark.parametrize("cached", ["A", "B"])
@pytest.mark.parametrize(("name", "overrides"), [FORMS[1], FORMS[4]], ids=str)
def test_the_list_of_a_copy_is_kept_with_it(name, overrides, cached):
    """Factors of a batch: one has a matrix for each product, the other one for all."""
    kernel = find(name)
    a, b, d = Layout("row", 132), Layout("row", 92, 0), Layout("row", 92)
    case = Case(Problem(70, 90, 132, batch=2, a=a, b=b, d=d))
    operands = Operands.draw(case)
    operands.a[1, 40, 128] = np.inf
    operands.b[:, 3, 70] = np.nan
    found = multiply(ENGINE, kernel, kernel.config(overrides), case, operands, cached)
    check_float32(case, operands, found, LEFT[name])
    assert np.isfinite(found[0, :, :70]).all()
    assert not np.isfinite(found[1, 40]).any()


@pytest.mark.one_of_each("name", "count")
@pytest.mark.parametrize("factor", "ab")
@pytest.mark.parametrize(("name", "overrides"), [FORMS[0], FORMS[3], FORMS[4]], ids=str)
@pytest.mark.parametrize(("count", "held"), [(NON_FINITE, True), (NON_FINITE + 1, False)])
def test_a_list_that_is_full(count, held, name, overrides, factor):
    kernel = find(name)
    case = usual(132, m=90)
    operands = Operands.draw(case)
    values = (operands.a[0] if factor == "a" else operands.b[0].T)[:40]
    values[np.unravel_index(np.arange(count), values.shape)] = -np.inf
    config = kernel.config(overrides)
    found = multiply(ENGINE, kernel, config, case, operands)
    check_float32(case, operands, found, LEFT[name])
    too_large = replace(operands, a=operands.a.copy())
    too_large.a[0, 0, 0] = MOST
    in_float32 = bits(multiply(ENGINE, kernel, config, case, too_large))
    finite = np.isfinite(found)
    assert finite.sum() == (90 - 32 if factor == "a" else 90) * (90 if factor == "a" else 90 - 32)
    finite[0, 0] = False  # with an element that is too large
    assert np.array_equal(bits(found)[finite], in_float32[finite]) != held


@pytest.mark.parametrize(("name", "overrides"), [FORMS[1], FORMS[4]], ids=str)
def test_where_c_is_added_all_is_computed_in_float32(name, overrides):
    """D may be C, which is no longer there when sums are stored anew."""
    kernel = find(name)
    config, case = kernel.config(overrides), replace(usual(132), scalars=Scalars(0.5, 2.0))
    operands = Operands.draw(case)
    operands.a[0, 0, 3] = np.inf
    operands.c[0, 0, 3:7] = np.inf, -np.inf, np.nan, 1
    assert computed_by(kernel, config, case, operands) == "float32"
    check_float32(case, operands, multiply(ENGINE, kernel, config, case, operands), LEFT[name])


def test_probabilities_of_which_most_are_tiny_are_multiplied_as_parts():
    """As of attention: no sum is as small as what parts cut off."""
    kernel, case = find("gemm_bf16x6"), usual(132)
    operands = Operands.draw(case)
    scores = np.random.default_rng(0).normal(0, 40, operands.a.shape).astype(np.float32)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    operands.a[:] = weights / weights.sum(axis=-1, keepdims=True)
    operands.b[:] = abs(operands.b)
    assert ((operands.a > 0) & (operands.a < 2.0**-126)).any()
    assert computed_by(kernel, kernel.config(), case, operands) == "parts"
    check_float32(case, operands, multiply(ENGINE, kernel, kernel.config(), case, operands))


NON_FINITE_MEETINGS = (
    "sync();\n        link(a",
    "sync();\n        for",
    "sync();  // all have read",
)


@pytest.mark.further
@pytest.mark.parametrize("number", range(1, len(NON_FINITE_MEETINGS) + 1))
def test_no_meeting_around_the_lists_can_be_left_out_undetected(number, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(number))
    kernel, name = find("gemm_mma_fp16x3"), "float32_parts/non_finite.cuh"
    faulty = copied(kernel, tmp_path)
    (tmp_path / name).write_text(switchable((INCLUDE / name).read_text(), NON_FINITE_MEETINGS))
    case = of_size(kernel, "NN", 140, 90, 130)

    def change(operands):
        operands.a[0, 3, 5:9], operands.b[0, 7, 4] = np.inf, np.nan

    with pytest.raises(AssertionError):  # the result is wrong
        findings(faulty, kernel.config(), case, left=LEFT[kernel.name], change=change)
