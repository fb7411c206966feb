"""matmul of complex64, on the emulator: as a product of float32, of factors read in place or written for it."""

import itertools
import re
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright
from tilewright.core.errors import ArrayError, DtypeError, ProblemError
from tilewright.core.problem import Layout, Problem, Scalars
from tilewright.emulator.checker import checker_of
from tilewright.emulator.compiler import CHECKED
from tilewright.emulator.engine import EmulatorEngine
from tilewright.emulator.program import Watch
from tilewright.kernels.library import complex_factors, complex_join, split_k
from tilewright.kernels.support import Variant
from tilewright.runtime import complex_factors as factors
from tilewright.runtime import nvrtc
from tilewright.runtime.plan import Pointers

EPS = 2.0**-24


def whole(*shape, seed=0):
    """Small Gaussian integers: sums of their products are exact."""
    random = np.random.default_rng([seed, *shape])
    return (random.integers(-5, 6, shape) + 1j * random.integers(-5, 6, shape)).astype(np.complex64)


ENGINES = {way: EmulatorEngine() for way in ("in place", "doubled", "joined")}
"""Ways to make products, whatever that saves, with an engine each, since plans are kept by engine."""


def written(self, kernel, config):
    """In place of `ComplexFactors.suit`: no kernel reads factors in place."""
    return self.way != "in place"


@contextmanager
def made(way):
    """Have products made in this way where it is possible: in place by `split_k`, joined where no kernel is named."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(factors, "LEAST_SAVED_BYTES", -(2.0**60) if way == "joined" else 2.0**60)
        if way != "in place":
            patched.setattr(factors.ComplexFactors, "suit", written)
        yield ENGINES[way]


def multiply(a, b, precision="ieee", way="doubled", **named):
    with made(way) as engine:
        named |= {"kernel": "split_k:tiny"} if way == "in place" and "kernel" not in named else {}
        return tilewright.matmul(a, b, engine=engine, precision=precision, **named)


def reference(a, b, alpha=1, beta=0, c=0, bias=0):
    return alpha * (a.astype(np.complex128) @ b) + beta * np.asarray(c) + bias


def laid(array, how):
    """The array in another order, or with gaps, in memory."""
    if how == "column":
        return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)
    if how == "gaps":
        padded = np.full((*array.shape[:-1], array.shape[-1] + 3), np.nan, array.dtype)
        padded[..., 1:-2] = array
        return padded[..., 1:-2]
    return array[..., ::-1].copy()[..., ::-1] if how == "reversed" else array


HOW = ("row", "column", "gaps", "reversed")
SIZES = st.sampled_from([0, 1, 2, 3, 5, 16, 31, 33, 40])
BATCHES = st.sampled_from([((), ()), ((2,), ()), ((), (3,)), ((2,), (2,)), ((2, 1), (3,))])


@given(data=st.data())
@settings(max_examples=250, deadline=None, derandomize=True)
def test_products_are_exact_in_any_shape_and_order(data):
    torch = pytest.importorskip("torch")
    m, n, k = (data.draw(SIZES) for _ in range(3))
    batch_a, batch_b = data.draw(BATCHES)
    a, b = laid(whole(*batch_a, m, k), data.draw(st.sampled_from(HOW))), laid(whole(*batch_b, k, n, seed=1), "row")
    b = laid(b, data.draw(st.sampled_from(HOW)))
    conjugated = data.draw(st.tuples(st.booleans(), st.booleans()))
    alpha = data.draw(st.sampled_from([1, -2, 0, 2 - 3j, 1j]))
    given_a, given_b = (
        torch.from_numpy(one.copy() if one.strides[-1] < 0 else one) for one in (a, b)
    )  # PyTorch has no reversed ones
    if conjugated[0]:
        given_a, a = given_a.conj(), a.conj()
    if conjugated[1]:
        given_b, b = given_b.conj(), b.conj()
    expected = reference(a, b, alpha)
    named = {}
    if data.draw(st.booleans()):
        c = whole(*expected.shape, seed=2)
        named |= {"c": torch.from_numpy(c), "beta": 2.0}
        expected = expected + 2 * c
    if data.draw(st.booleans()):
        bias = whole(n, seed=3)
        named["bias"] = torch.from_numpy(bias)
        expected = expected + bias
    if data.draw(st.booleans()):
        how = data.draw(st.sampled_from(HOW[:3]))
        named["out"] = torch.from_numpy(laid(np.empty(expected.shape, np.complex64), how))
    ways = [("in place", "ieee"), ("doubled", "ieee"), ("joined", "ieee"), ("joined", "3m")]
    way, precision = data.draw(st.sampled_from(ways))
    found = multiply(given_a, given_b, precision, way, alpha=alpha, **named)
    np.testing.assert_array_equal(found.numpy(), expected)


ORDERS = tuple(itertools.product(("row", "column"), repeat=2))


@pytest.mark.parametrize(
    ("order_a", "order_b", "preset"),
    [(*orders, preset) for orders, preset in zip(ORDERS, ("few_rows", "odd", "uneven", "flat"), strict=True)],
)
def test_factors_read_in_place_make_the_bits_of_those_that_are_written(order_a, order_b, preset):
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(5)
    alike = zip(((37, 33, 67), (64, 64, 128)), ((False, True), (True, False), (True, True)), strict=False)
    for (m, n, k), conjugated in (*alike, ((20, 70, 130), (False, False))):
        a, b = (random.standard_normal((*s, 2)).astype("f4").view("c8")[..., 0] for s in ((m, k), (k, n)))
        a, b = torch.from_numpy(laid(a, order_a)), torch.from_numpy(laid(b, order_b))
        a, b = a.conj() if conjugated[0] else a, b.conj() if conjugated[1] else b
        found, expected = (
            multiply(a, b, way=way, alpha=0.7, kernel=f"split_k:{preset}").numpy() for way in ("in place", "doubled")
        )
        np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize(("shape_a", "shape_b"), [((7,), (7,)), ((7,), (7, 5)), ((5, 7), (7,)), ((2, 5, 7), (7,))])
def test_vectors_are_as_numpy_has_them(shape_a, shape_b):
    a, b = whole(*shape_a), whole(*shape_b, seed=1)
    found, expected = multiply(a, b), a @ b
    np.testing.assert_array_equal(found, expected)
    assert type(found) is type(expected)


def test_numpy_alone_is_numpys_blas(monkeypatch):
    monkeypatch.setattr("tilewright.api.call.cuda_unavailable", lambda: "no GPU")
    a, b, c, bias = whole(5, 7), whole(7, 3), whole(5, 3), whole(3)
    np.testing.assert_array_equal(tilewright.matmul(a, b), a @ b)
    found = tilewright.matmul(a, b, alpha=2 - 1j, beta=3, c=c, bias=bias)
    np.testing.assert_array_equal(found, reference(a, b, 2 - 1j, 3, c, bias))
    assert tilewright.matmul(a, b, alpha=0).dtype == np.complex64


@pytest.mark.parametrize("way", ENGINES)
def test_c_may_be_out_and_what_scalars_of_zero_leave_out_is_not_read(way):
    a, b, c = whole(5, 7), whole(7, 3), whole(5, 3)
    expected = reference(a, b, 1j, 2, c)
    assert multiply(a, b, way=way, c=c, out=c, alpha=1j, beta=2) is c
    np.testing.assert_array_equal(c, expected)
    nothing = np.full_like(a, np.nan)
    np.testing.assert_array_equal(multiply(nothing, b, way=way, alpha=0, beta=1, c=c), c)
    np.testing.assert_array_equal(multiply(a, b, way=way, c=np.full_like(c, np.nan)), reference(a, b))


def parts_of(a, b):
    """Sums of real products that are the parts of a product, in float64, and of their magnitudes."""
    wide = [one.astype(np.float64) for one in (a.real, a.imag, b.real, b.imag)]
    ar, ai, br, bi = wide
    sizes = [abs(one) for one in wide]
    with np.errstate(invalid="ignore"):
        exact = (
            np.concatenate((ar, ai), 1) @ np.concatenate((br, -bi)),
            np.concatenate((ar, ai), 1) @ np.concatenate((bi, br)),
        )
        return exact, (sizes[0] @ sizes[2] + sizes[1] @ sizes[3], sizes[0] @ sizes[3] + sizes[1] @ sizes[2])


@pytest.mark.parametrize("way", ENGINES)
@pytest.mark.parametrize("precision", ["ieee", "float32", "fp16x3", "bf16x3", "tf32"])
def test_each_part_errs_no_more_than_its_own_products(precision, way):
    """Where imaginary parts are far smaller than real ones, an error relative to the element would be all of theirs."""
    random = np.random.default_rng(5)
    m, n, k = 40, 36, 70
    scales = 10.0 ** random.integers(-4, 5, (m, 1)), 10.0 ** random.integers(-4, 5, (1, n))
    a = (random.standard_normal((m, k)) + 1e-5j * random.standard_normal((m, k))) * scales[0]
    b = (random.standard_normal((k, n)) + 1e-5j * random.standard_normal((k, n))) * scales[1]
    a, b = a.astype(np.complex64), b.astype(np.complex64)
    found = multiply(a, b, precision, way)
    exact, magnitudes = parts_of(a, b)
    each = {"bf16x3": 2.0**-15, "tf32": 2.0**-9}.get(precision, 0.0)
    for part, expected, magnitude in zip((found.real, found.imag), exact, magnitudes, strict=True):
        assert (abs(part - expected) <= (each + 2 * k * EPS) * magnitude).all()


@pytest.mark.parametrize(("precision", "word"), [("3m", "float32"), ("fp16x3_3m", "fp16x3")])
def test_three_products_err_relative_to_the_element(precision, word):
    random = np.random.default_rng(5)
    m, n, k = 40, 36, 70
    a, b = (random.standard_normal((*s, 2)).astype("f4").view("c8")[..., 0] for s in ((m, k), (k, n)))
    with made("joined") as engine:
        plan = tilewright.plan(a, b, engine=engine, precision=precision)
        assert f"three products of float32, joined after them\nprecision: {word}" in plan.describe()
        assert (plan.problem.batch, plan.problem.arithmetic.precision) == (3, None if word == "float32" else word)
        found = plan(a, b)
    exact, magnitudes = parts_of(a, b)
    whole_element = sum(magnitudes)
    for part, expected in zip((found.real, found.imag), exact, strict=True):
        assert (abs(part - expected) <= 4 * k * EPS * whole_element).all()


def test_three_products_are_four_where_that_is_faster():
    a, b = whole(33, 40), whole(40, 35)
    for arrays in ((a, b), (np.stack([a, a]), b)):
        plan = tilewright.plan(*arrays, engine="emulator", precision="3m")
        assert "three products" not in plan.describe()
        np.testing.assert_array_equal(plan(*arrays), reference(*arrays))
    with pytest.raises(ProblemError, match=r"precision must be one of float32, ieee, .*, got '3m'"):
        tilewright.matmul(a.real.copy(), b.real.copy(), engine="emulator", precision="3m")


@pytest.mark.parametrize("way", ENGINES)
@pytest.mark.parametrize("precision", ["ieee", "float32"])
def test_nan_and_infinity_are_those_of_four_products(precision, way):
    a, b = whole(20, 36), whole(36, 17)
    a[3, 5], a[7, 8], a[9, 9] = np.inf, complex(0, np.nan), complex(-np.inf, np.inf)
    b[5, 2], b[8, 4], b[30, 11] = 0, complex(np.nan, 1), complex(1, -np.inf)
    found = multiply(a, b, precision, way)
    exact, _ = parts_of(a, b)
    assert not np.isfinite(found).all()
    for part, expected in zip((found.real, found.imag), exact, strict=True):
        np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize(("order_a", "order_b"), ORDERS)
@pytest.mark.parametrize("way", ["doubled", "joined", "three"])
def test_the_checker_finds_nothing(order_a, order_b, way):
    """In the launches of products with complex alpha, batches and odd sizes, and in those before and after."""
    engine, checkers, kernels = checking()
    a, b, bias = laid(whole(2, 37, 35), order_a), laid(whole(2, 35, 33, seed=1), order_b), whole(33)
    c = whole(2, 37, 33)
    with made("joined" if way == "three" else way):
        asked = {"engine": engine, "precision": "3m" if way == "three" else "ieee"}
        found = tilewright.matmul(a, b, bias=bias, c=c, alpha=1 - 2j, beta=2, **asked)
    np.testing.assert_array_equal(found, reference(a, b, 1 - 2j, 2, c, bias))
    assert (kernels[0] == "complex_factors") == (way != "joined" or (order_a, order_b) != ("column", "row"))
    assert (kernels[-1] == "complex_join") == (way != "doubled")
    assert len(kernels) > 1
    assert [one for checker in checkers for one in checker.findings()] == []


def checking():
    """An engine whose launches are checked, and the checkers and names of kernels of all that it launches."""
    checkers, kernels = [], []

    def watch(facts):
        checkers.append(checker_of(facts, facts.arrays))
        kernels.append(facts.executable.kernel.name)
        return Watch(checkers[-1])

    return EmulatorEngine(CHECKED, watch), checkers, kernels


SIDES = st.sampled_from([1, 5, 16, 33, 64])


@given(data=st.data())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_checker_finds_nothing_where_factors_are_read_in_place(data):
    """With lines of any distance, in one launch, whose config may have blocks that share a tile."""
    draw = data.draw
    engine, checkers, kernels = checking()
    m, n, k, batch = draw(SIDES), draw(SIDES), draw(SIDES), draw(st.sampled_from([1, 2]))
    conjugated = draw(st.sampled_from([(False, True), (True, False), (True, True)]))
    preset, beta = draw(st.sampled_from(["tiny", "few_rows", "odd"])), draw(st.sampled_from([0, 2]))
    arrays, uploaded, layouts = [], [], []
    for seed, (rows, cols) in enumerate(((m, k), (k, n), (m, n))):
        order = draw(st.sampled_from(("row", "column"))) if seed < 2 else "row"
        ld = (cols if order == "row" else rows) + draw(st.integers(0, 3))
        arrays.append(whole(batch, rows, cols, seed=seed))
        uploaded.append(engine.upload(arrays[-1], ld, order))
        layouts.append(Layout(order, ld))
    a, b, d = arrays
    problem = Problem(m, n, k, batch=batch, a=layouts[0], b=layouts[1], d=layouts[2])
    product = factors.ComplexFactors(problem, *conjugated, False, True).ways[0]
    kernel, pointers = split_k.KERNEL, [one.pointer for one in uploaded]
    plan = engine.plan(kernel, kernel.config(kernel.preset(preset)), product.real, factors=product)
    engine.start(plan, Pointers(*pointers, pointers[-1]), Scalars(3, beta))
    a, b = a.conj() if conjugated[0] else a, b.conj() if conjugated[1] else b
    np.testing.assert_array_equal(engine.download(uploaded[-1]), reference(a, b, 3, beta, d))
    assert kernels == ["split_k_complex"]
    assert [one for checker in checkers for one in checker.findings()] == []


def test_named_kernels_multiply_it():
    a, b, c = whole(33, 40), whole(40, 35), whole(33, 35)
    for kernel in ("naive", "split_k", "skinny"):
        found = tilewright.matmul(a, b, c=c, beta=2, alpha=1j, kernel=kernel)
        np.testing.assert_array_equal(found, reference(a, b, 1j, 2, c))


def test_a_plan_says_what_runs_and_is_for_its_kind():
    a, b = whole(33, 40), whole(40, 35)
    plan = tilewright.plan(a, b, engine="emulator", precision="ieee")
    assert "complex64, 33x35x40: a product of float32, for which B is written twice as large" in plan.describe()
    assert (plan.problem.m, plan.problem.n, plan.problem.k) == (33, 70, 80)
    np.testing.assert_array_equal(plan(a, b, alpha=2), reference(a, b, 2))
    with pytest.raises(ArrayError, match="alpha is complex, the plan's is not"):
        plan(a, b, alpha=2j)
    turned = tilewright.plan(a, b, alpha=1j, engine="emulator", precision="ieee")
    for alpha in (1j, 3 - 1j):
        np.testing.assert_array_equal(turned(a, b, alpha=alpha), reference(a, b, alpha))


A, B, C = whole(5, 7), whole(7, 3), whole(5, 3)


@pytest.mark.parametrize("beta", [2 - 3j, np.complex64(1j), np.array(0.5j), complex(4)], ids=repr)
def test_beta_may_be_complex(beta):
    expected = A.astype("c16") @ B * 2j + complex(beta) * C
    np.testing.assert_array_equal(tilewright.matmul(A, B, c=C, alpha=2j, beta=beta, engine="emulator"), expected)
    torch = pytest.importorskip("torch")
    a, b, c = map(torch.from_numpy, (A, B, C))
    out = c.clone()
    assert tilewright.matmul(a, b, c=out, out=out, alpha=2j, beta=beta, engine="emulator") is out
    np.testing.assert_array_equal(out.numpy(), expected)


REFUSED = {
    "activation": ({"activation": "relu"}, ProblemError, "activation must be None where a is complex64, got 'relu'"),
    "out_dtype": ({"out_dtype": "float32"}, DtypeError, "out_dtype must be complex64 where a is, got float32"),
    "real b": ({"b": B.real.copy()}, DtypeError, "b must have the element type of a: got float32, and complex64 for a"),
    "real a": ({"a": A.real.copy()}, DtypeError, "b must have the element type of a: got complex64, and float32 for a"),
    "complex128": ({"b": B.astype("c16")}, DtypeError, "b has element type complex128; .*: pass b.astype('complex64')"),
    "real c": (
        {"c": C.real.copy(), "beta": 1},
        DtypeError,
        "c must have the result's element type complex64: got floa",
    ),
    "real out": ({"out": C.real.copy()}, DtypeError, "out must have the result's element type complex64: got float32"),
    "bias of rows": ({"bias": C[:, :1]}, ArrayError, "bias must have an element for each column where a is complex64"),
    "complex beta of nothing": ({"beta": 2j}, ProblemError, "beta must be a number, got 2j"),
    "too large a beta": ({"c": C, "beta": 1e39j}, ProblemError, "beta must be a number, got 1e+39j"),
    "beta nan": ({"c": C, "beta": complex(np.nan, 1)}, ProblemError, "beta must be a number, got (nan+1j)"),
    "too large an alpha": ({"alpha": 1e39j}, ProblemError, "alpha must be a number, got 1e+39j"),
    "alpha nan": ({"alpha": complex(0, np.nan)}, ProblemError, "alpha must be a number, got nanj"),
    "scales": ({"scale_a": np.ones(1, "f4")}, DtypeError, "scale_a is for factors of float8"),
    "fast": ({"fast_accumulate": True}, DtypeError, "fast_accumulate is for float8 factors"),
    "half's kernel": ({"kernel": "gemm_sm90"}, DtypeError, "gemm_sm90 takes float16, bfloat16, got float32"),
    "memory_limit": ({"memory_limit": 2**20}, DtypeError, "devices and memory_limit are for factors of float32"),
}


@pytest.mark.parametrize(("named", "kind", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_taken_is_named(named, kind, words):
    with pytest.raises(kind, match=re.escape(words).replace(r"\.\*", ".*")):
        tilewright.matmul(**{"a": A, "b": B, "engine": "emulator", **named})


def test_other_products_refuse_it():
    with pytest.raises(DtypeError, match="b has element type complex64, and each product writes"):
        tilewright.prepare(B, engine="emulator")
    with pytest.raises(DtypeError, match="a has element type complex64; grouped_matmul takes"):
        tilewright.grouped_matmul(A, B[None], np.array([5], np.int32), engine="emulator")


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_120"])
def test_nvrtc_compiles_the_kernels_before_and_after(arch):
    every = dict.fromkeys(("CONJUGATE", "CONJUGATE_OTHER", "COMPLEX_ALPHA"), 1)
    joins, planes = dict.fromkeys(("PAIRS", "CONJUGATE_B", "COMPLEX_ALPHA"), 1), {"PLANES": 1}
    own, after = complex_factors.KERNEL, complex_join.KERNEL
    for kernel, overrides in (
        (own, {}),
        (own, every),
        (own, {"THREADS": 128}),
        (own, planes),
        *[(after, one) for one in ({}, joins, planes)],
    ):
        report = nvrtc.compile(kernel, kernel.config(overrides), Variant(True, False), arch).report
        assert report.spill_bytes == 0
        assert report.registers <= 40 or arch == "sm_75"
