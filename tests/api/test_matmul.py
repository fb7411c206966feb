"""matmul() on NumPy arrays: what it computes, where, and what it refuses. Other libraries: test_arrays.py."""

import cProfile
import itertools
import math
import os
import pstats
import re
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tilewright
from stand_ins import NumPyEngine
from tilewright import ArrayError, ConfigError, DtypeError, EngineUnavailableError, KernelNotFoundError, ProblemError
from tilewright.core.dtypes import ARRAYS
from tilewright.core.problem import PRECISIONS, Arithmetic
from tilewright.kernels import KERNELS, LADDER, find

calls = import_module("tilewright.api.call")

SIZES = st.integers(0, 40)
SCALARS = st.sampled_from([0.0, 1.0, -1.0, 0.5, 3])
LAYOUTS = st.sampled_from(["rows", "gap", "columns", "reversed", "every other", "broadcast"])


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch):
    """These tests say the same on a machine with a GPU: matmul is told that there is none."""
    monkeypatch.setattr(calls, "cuda_unavailable", lambda: "a test says so")


def draw(rows, cols, layout="rows", seed=0):
    """A matrix of normal numbers that lies in memory as `layout` says."""
    values = np.random.default_rng([seed, rows, cols]).standard_normal((2 * rows, 2 * cols + 3), np.float32)
    return {
        "rows": lambda: values[:rows, :cols].copy(),
        "gap": lambda: values[:rows, 1 : cols + 1],
        "columns": lambda: np.asfortranarray(values[:rows, :cols]),
        "reversed": lambda: values[rows - 1 :: -1, :cols] if rows else values[:0, :cols],
        "every other": lambda: values[::2, : 2 * cols : 2],
        "broadcast": lambda: np.broadcast_to(values[:1, :cols], (rows, cols)) if rows else values[:0, :cols],
    }[layout]()


def reference(a, b, alpha=1.0, beta=0.0, c=None):
    result = float(alpha) * (a.astype(np.float64) @ b.astype(np.float64))
    return result + beta * c if beta else result


def check(result, expected, k):
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5 * max(k, 4))


ENGINES = {"numpy": None, "engine": NumPyEngine(None)}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.tuples(SIZES, SIZES, SIZES),
    layouts=st.tuples(LAYOUTS, LAYOUTS, LAYOUTS),
    alpha=SCALARS,
    beta=SCALARS,
    target=st.sampled_from(["new", "out", "out with a gap", "out by columns", "in place"]),
)
def test_any_shape_layout_and_scalars(engine, sizes, layouts, alpha, beta, target):
    m, n, k = sizes
    a, b, c = draw(m, k, layouts[0], 1), draw(k, n, layouts[1], 2), draw(m, n, layouts[2], 3)
    if target == "in place":
        c = draw(m, n, "gap", 3).copy()
    out = {
        "new": None,
        "out": np.full((m, n), np.nan, np.float32),
        "out with a gap": np.full((m, n + 5), np.nan, np.float32)[:, 2 : n + 2],
        "out by columns": np.full((n, m), np.nan, np.float32).T,
        "in place": c,
    }[target]
    expected = reference(a, b, alpha, beta, c)
    result = tilewright.matmul(a, b, out=out, c=c, alpha=alpha, beta=beta, engine=engine)
    assert result is out or (out is None and result.shape == (m, n))
    check(result, expected, k)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_c_is_not_read_where_beta_is_zero(engine):
    a, b = draw(5, 7), draw(7, 3)
    c = np.full((5, 3), np.nan, np.float32)
    check(tilewright.matmul(a, b, c=c, engine=engine), reference(a, b), 7)
    check(tilewright.matmul(a, b, c=c, out=c, engine=engine), reference(a, b), 7)


PRODUCTS = {
    "matrices": ((5, 7), (7, 3)),
    "two vectors": ((7,), (7,)),
    "vector and matrix": ((7,), (7, 3)),
    "matrix and vector": ((5, 7), (7,)),
    "a batch of a": ((2, 5, 7), (7, 3)),
    "batches that broadcast": ((2, 1, 5, 7), (3, 7, 3)),
    "a batch of one": ((1, 5, 7), (1, 7, 3)),
    "two vectors of nothing": ((0,), (0,)),
    "nothing": ((0, 7), (7, 3)),
    "no products": ((5, 0), (0, 3)),
    "an empty batch": ((0, 5, 7), (7, 3)),
}
ZEROS = [0, -0.0, np.float32(0), 1e-60]
"""And what is 0 in float32, in which kernels are given scalars."""


def shape_of(a, b):
    return np.matmul(np.zeros(a), np.zeros(b)).shape


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("a", "b"), PRODUCTS.values(), ids=PRODUCTS)
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_a_and_b_are_not_read_where_alpha_is_zero(engine, a, b, dtype):
    c = np.random.default_rng(3).standard_normal(shape_of(a, b)).astype(dtype)
    bias = np.ones(b[-1] if len(b) > 1 else 1, dtype)
    z = 2 * c.astype(np.float32) + 1
    cases = [
        ({}, np.zeros(c.shape)),
        ({"c": np.full(c.shape, np.nan, dtype)}, np.zeros(c.shape)),
        ({"c": c, "beta": 2}, z - 1),
        ({"c": c, "beta": 2, "bias": bias, "activation": "silu"}, z / (1 + np.exp(-z))),
    ]
    for alpha, bad in itertools.product(ZEROS, (np.nan, np.inf)):
        first, second = np.full(a, bad, dtype), np.full(b, bad, dtype)
        for named, expected in cases:
            result = tilewright.matmul(first, second, alpha=alpha, engine=engine, **named)
            np.testing.assert_allclose(result.astype(np.float32), expected, rtol=2**-7, atol=1e-6)


@pytest.mark.first(22)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("a", "b"), PRODUCTS.values(), ids=PRODUCTS)
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_c_is_not_read_in_any_shape_where_beta_is_zero(engine, a, b, dtype):
    a, b = (np.random.default_rng(1).standard_normal(shape).astype(dtype) for shape in (a, b))
    expected = np.matmul(a.astype(np.float32), b.astype(np.float32))
    for beta in ZEROS:
        c = np.full(expected.shape, np.nan, dtype)
        for out in (None, c.copy(), c):
            result = tilewright.matmul(a, b, c=c, beta=beta, out=out, engine=engine)
            np.testing.assert_allclose(result.astype(np.float32), expected, rtol=2**-7, atol=1e-2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_sums_of_16_bit_factors_are_float32(engine, dtype):
    a, b = (draw(*shape).astype(dtype) for shape in ((5, 300), (300, 3)))
    check(tilewright.matmul(a, b, out_dtype="float32", engine=engine), reference(a, b), 300)
    large = np.full((2, 256), 256, dtype)  # whose sums no float16 holds
    assert (tilewright.matmul(large, large.T, alpha=2**-10, engine=engine) == 2**14).all()


@pytest.mark.parametrize(("a", "b"), PRODUCTS.values(), ids=PRODUCTS)
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_a_bias_of_columns_in_any_shape(engine, a, b):
    a, b = (np.random.default_rng(1).standard_normal(shape, np.float32) for shape in (a, b))
    rows = a.shape[-2] if a.ndim > 1 else 1
    bias = np.arange(rows, dtype=np.float32)[:, None]
    of_rows = bias[:, 0] if a.ndim > 1 else bias[0, 0]  # of the result's
    expected = np.matmul(a, b) + (of_rows[:, None] if a.ndim > 1 and b.ndim > 1 else of_rows)
    result = tilewright.matmul(a, b, bias=bias, engine=engine)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("a", "b"), PRODUCTS.values(), ids=PRODUCTS)
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_results_are_of_the_kind_that_numpy_gives(engine, a, b, dtype):
    a, b = np.ones(a, dtype), np.ones(b, dtype)
    expected, result = np.matmul(a, b), tilewright.matmul(a, b, engine=engine)
    assert (type(result), result.dtype, result.shape) == (type(expected), expected.dtype, expected.shape)
    assert type(tilewright.plan(a, b, engine=engine)(a, b)) is type(expected)
    out = np.empty(expected.shape, dtype)
    assert tilewright.matmul(a, b, out=out, engine=engine) is out
    np.testing.assert_array_equal(out, expected)


def test_a_product_of_vectors_of_bfloat16_is_a_scalar():
    a = np.ones(3, "bfloat16")
    result = tilewright.matmul(a, a, c=np.array(2, "bfloat16"), beta=0.5)
    assert (type(result), float(result)) == (a.dtype.type, 4)


@pytest.mark.parametrize(("beta", "loads"), [(0, 2), (2, 3)])
def test_only_what_is_read_is_copied_to_the_engine(beta, loads):
    a, b, c = draw(5, 7), draw(7, 3), draw(5, 3)
    engine = NumPyEngine(None)
    check(tilewright.matmul(a, b, c=c, beta=beta, engine=engine), reference(a, b, 1.0, beta, c), 7)
    assert engine.loads == loads


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_inputs_are_left_as_they_were(engine):
    a, b, c = draw(5, 7, "columns"), draw(7, 3, "gap"), draw(5, 3)
    before = a.copy(), b.copy(), c.copy()
    tilewright.matmul(a, b, c=c, alpha=2, beta=3, engine=engine)
    for array, copy in zip((a, b, c), before, strict=True):
        np.testing.assert_array_equal(array, copy)


TWO = {
    "float": 2.0,
    "int": 2,
    "float32": np.float32(2),
    "float64": np.float64(2),
    "int64": np.int64(2),
    "bfloat16": np.ones(1, "bfloat16")[0] + np.ones(1, "bfloat16")[0],
    "Fraction": Fraction(2),
    "array": np.array(2.0),
    "array of float16": np.array(2, np.float16),
    "array of bfloat16": np.array(2, "bfloat16"),
    "array of int8": np.array(2, np.int8),
    "array of another byte order": np.array(2, ">f4"),
    "array of objects": np.array(Fraction(2), object),
}


@pytest.mark.parametrize("two", TWO.values(), ids=TWO)
def test_scalars_may_be_numbers_of_any_type(two):
    a, b, c = draw(5, 7), draw(7, 3), draw(5, 3)
    expected = reference(a, b, 2, 2, c)
    check(tilewright.matmul(a, b, c=c, alpha=two, beta=two), expected, 7)
    check(tilewright.plan(a, b, c=c, alpha=two, beta=two)(a, b, c=c, alpha=two, beta=two), expected, 7)


NO_NUMBERS = {
    "a bool": np.True_,
    "an array of bool": np.array(True),
    "an array of complex": np.array(2j),
    "an array of NaN": np.array(np.nan),
    "an array of text": np.array("2"),
    "an array of one dimension": np.array([2.0]),
    "an array of two": np.array([2.0, 3.0]),
    "a masked array": np.ma.array(2.0, mask=True),
    "what is masked": np.ma.masked,
    "a duration": np.timedelta64(2, "s"),
    "a Decimal": Decimal(2),
    "a large long double": np.longdouble("1e300") * np.longdouble("1e300"),
    "nothing": None,
    "a list": [2.0],
}


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize("value", NO_NUMBERS.values(), ids=NO_NUMBERS)
def test_what_is_no_number_is_no_scalar(name, value):
    plan = tilewright.plan(A, B, c=C)
    for call in (tilewright.matmul, tilewright.plan, plan):
        with pytest.raises(ProblemError, match=f"{name} must be (a number|infinite or at most 3.4)"):
            call(A, B, c=C, **{name: value})


def test_numpy_multiplies_where_there_is_no_gpu_and_no_kernel_is_named(monkeypatch):
    monkeypatch.setattr(calls, "resolve_engine", lambda _: pytest.fail("no engine is needed"))
    a, b = draw(5, 7), draw(7, 3)
    np.testing.assert_array_equal(tilewright.matmul(a, b), a @ b)


def test_a_gpu_multiplies_where_there_is_one(monkeypatch):
    gpu = NumPyEngine((9, 0))
    monkeypatch.setattr(calls, "cuda_unavailable", lambda: None)
    monkeypatch.setattr(calls, "resolve_engine", {"auto": gpu}.get)
    a, b = draw(5, 7), draw(7, 3)
    check(tilewright.matmul(a, b), reference(a, b), 7)
    assert len(gpu.planned) == 1


@pytest.mark.parametrize("named", [{"kernel": "shared_tiled"}, {"engine": "emulator"}])
def test_the_emulator_runs_where_a_kernel_or_it_is_named(monkeypatch, named):
    emulator, asked = NumPyEngine(None), []
    monkeypatch.setattr(calls, "resolve_engine", lambda engine: asked.append(engine) or emulator)
    a, b = draw(5, 7), draw(7, 3)
    check(tilewright.matmul(a, b, **named), reference(a, b), 7)
    assert asked == [named.get("engine", "auto")]
    assert len(emulator.planned) == 1


@pytest.mark.parametrize("kernel", [find("vectorized"), "vectorized", "6", 6, np.int64(6)])
@pytest.mark.parametrize("config", [{"BM": 64}, "BM=64", {"BM": np.int64(64)}])
def test_kernels_and_configs_in_every_form(kernel, config):
    engine = NumPyEngine(None)
    tilewright.matmul(draw(5, 7), draw(7, 3), kernel=kernel, config=config, engine=engine)
    assert (engine.planned[0].kernel, engine.planned[0].config) == (
        find("vectorized"),
        find("vectorized").config({"BM": 64}),
    )


def test_a_preset_and_what_differs_from_it():
    engine = NumPyEngine(None)
    tilewright.matmul(draw(5, 7), draw(7, 3), kernel="vectorized:fastcuda_v3", config="BK=32", engine=engine)
    preset = find("vectorized").presets["fastcuda_v3"]
    assert engine.planned[0].config == find("vectorized").config({**preset, "BK": 32})


def test_what_was_tuned_for_a_gpu_is_used_on_it():
    engine = NumPyEngine((8, 0))
    tilewright.matmul(draw(5, 7), draw(7, 3), kernel="autotuned", engine=engine)
    assert engine.planned[0].config == find("autotuned").config(capability=(8, 0))


def test_a_plan_says_which_factors_are_copied_first():
    x, weights = np.ones((60, 64), np.float32), np.ones((96, 64), np.float32)
    for copied, names in enumerate(("", "A", "B", "AB")):
        config = {"COPIED": copied, "WORKERS": 0}
        plan = tilewright.plan(x, weights.T, kernel="tma_transposed", config=config, engine="emulator")
        words = plan.describe()
        assert [name for name in "AB" if f"{name} is copied to the order" in words] == list(names)
        assert words.count("launch: ") == (2 if names else 1)
        assert (plan(x, weights.T) == 64).all()


def test_a_call_like_an_earlier_one_is_not_prepared_again():
    engine = NumPyEngine(None)
    for _ in range(3):
        tilewright.matmul(draw(5, 8), draw(8, 4), engine=engine)
    assert len(engine.planned) == 1
    assert len(engine.streams) == 3


def test_calls_that_differ_by_scalars_alone_have_one_plan():
    engine = NumPyEngine(None)
    a, b, c = draw(5, 8), draw(8, 4), draw(5, 4)
    for alpha, beta in ((1.0, 2.0), (-0.5, 2.0), (3.0, 0.25), (1e-20, 1.0)):
        result = tilewright.matmul(a, b, c=c, alpha=alpha, beta=beta, engine=engine)
        check(result, reference(a, b, alpha, beta, c), 8)
    for alpha in (1.0, 2.0):
        check(tilewright.matmul(a, b, alpha=alpha, engine=engine), reference(a, b, alpha), 8)
    assert len(engine.planned) == 2, "of what reads c, and of what does not"


@pytest.mark.first(3)
@pytest.mark.parametrize("kernel", LADDER, ids=lambda kernel: kernel.name)
def test_every_rung_on_the_emulator(kernel):
    arithmetic = kernel.support.arithmetic()
    integers = arithmetic.result == "int32"
    many, alpha = (20, 3) if integers else (1, 0.5)
    a, b, c = (many * one for one in (draw(37, 21, "gap"), draw(21, 66, "columns"), draw(37, 66)))
    a, b, c = a.astype(arithmetic.factors), b.astype(arithmetic.factors), c.astype(arithmetic.result)
    options = {"kernel": kernel.name, "engine": "emulator", "out_dtype": arithmetic.result}
    result = tilewright.matmul(a, b, c=c, alpha=alpha, beta=2.0, **options)
    expected = reference(a, b, alpha, 2.0, c)
    if integers:
        np.testing.assert_array_equal(result, expected)
    elif arithmetic.result == "float32":
        check(result, expected, 21 * (100 if kernel.support.precision else 1))
    else:
        np.testing.assert_allclose(result.astype(np.float32), expected, rtol=2**-8, atol=1e-4)


@pytest.mark.parametrize("sizes", [(0, 4, 5), (4, 0, 5), (4, 5, 0), (0, 0, 0)])
def test_empty_matrices_on_the_emulator(sizes):
    m, n, k = sizes
    a, b, c = draw(m, k), draw(k, n), draw(m, n)
    check(tilewright.matmul(a, b, c=c, beta=2.0, engine="emulator"), reference(a, b, 1.0, 2.0, c), k)


A, B, C = draw(5, 7), draw(7, 3), draw(5, 3)
SQUARE = np.zeros((20, 20), np.float32)
TAKEN = [one for one in ARRAYS if one != "int32"]
REFUSED = {
    "inner dimensions": (
        {"b": draw(6, 3)},
        ArrayError,
        "b must have 7 rows, as a has columns: got b of 6 x 3, and a of 5 x 7",
    ),
    "vector": (
        {"a": A[0, :6]},
        ArrayError,
        "b must have 6 rows, as a has columns: got b of 7 x 3, and a of 6 elements",
    ),
    "batches": (
        {"a": np.stack([A] * 2), "b": np.stack([B] * 3)},
        ArrayError,
        "batches must be equal or 1 in each dimension: got a of 2 of 5 x 7, and b of 3 of 7 x 3",
    ),
    "bias length": ({"bias": A[0]}, ArrayError, "bias must have 3 elements, or 5 x 1, got shape (7,)"),
    "bias type": ({"bias": B[0].astype("f2")}, DtypeError, "bias must have the result's element type float32: got flo"),
    "activation": ({"activation": "geluu"}, ProblemError, "got 'geluu'; did you mean 'gelu'?"),
    "out_dtype": (
        {"out_dtype": "float64"},
        DtypeError,
        f"out_dtype must be one of {', '.join(ARRAYS)}, got 'f",
    ),
    "out and out_dtype": (
        {"out": np.empty((5, 3), "f4"), "out_dtype": "float16"},
        DtypeError,
        "out must have the result's element type float16: got float32",
    ),
    "bias of a rung": (
        {"kernel": "naive", "bias": B[0]},
        ProblemError,
        "naive has no bias and no activation, got bias",
    ),
    "batch of a rung": (
        {"kernel": "naive", "a": np.stack([A] * 2), "b": np.stack([B] * 2)},
        ProblemError,
        "naive computes one product at a time, got a batch of 2",
    ),
    "scalar": ({"c": np.float32(1)}, ArrayError, "c must be an array of NumPy, CuPy, PyTorch or JAX"),
    "list": ({"a": A.tolist()}, ArrayError, "got list"),
    "none": ({"b": None}, ArrayError, "got NoneType"),
    "float64": ({"a": A.astype("f8"), "b": B.astype("f8")}, DtypeError, "a has element type float64"),
    "mixed": (
        {"b": B.astype("f8")},
        DtypeError,
        f"b has element type float64; matmul takes {', '.join(TAKEN)}: pass b.astype('float32')",
    ),
    "half and float": ({"a": A.astype("f2")}, DtypeError, "b must have the element type of a: got float32, and fl"),
    "half for a kernel of floats": (
        {"a": A.astype("f2"), "b": B.astype("f2"), "kernel": "naive"},
        DtypeError,
        "naive takes float32, got float16",
    ),
    "float for a kernel of halves": ({"kernel": 14}, DtypeError, "wmma_f16 takes float16, bfloat16, got float32"),
    "integers": ({"b": B.astype("i4")}, DtypeError, "b has element type int32"),
    "complex": ({"a": A.astype("c8")}, DtypeError, "b must have the element type of a: got float32, and complex64"),
    "half": ({"c": C.astype("f2"), "beta": 1}, DtypeError, "c must have the result's element type float32: got flo"),
    "complex b": (
        {"b": B.astype("c16")},
        DtypeError,
        f"matmul takes {', '.join(TAKEN)}: pass b.astype('complex64')",
    ),
    "text": ({"a": A.astype("S4")}, DtypeError, "a has element type |S4; matmul takes float32"),
    "masked out": (
        {"out": np.ma.zeros((5, 3), np.float32)},
        ArrayError,
        "out must be a plain numpy.ndarray, got numpy.MaskedArray: out.data is one",
    ),
    "c of one element": (
        {"a": A[0], "b": A[0], "c": A[0, :1], "beta": 1},
        ArrayError,
        "c must be a number as a @ b is, got 1 element",
    ),
    "byte order": ({"a": A.astype(">f4")}, DtypeError, "a has element type >f4"),
    "structured": ({"a": A.view([("x", "f4")])}, DtypeError, "a has element type [('x', '<f4')]"),
    "objects": ({"a": A.astype(object)}, DtypeError, "a has element type object"),
    "masked": ({"a": np.ma.masked_less(A, 0)}, ArrayError, "a must be a plain numpy.ndarray, got numpy.MaskedArray"),
    "np.matrix": ({"b": B.view(np.matrix)}, ArrayError, "b must be a plain numpy.ndarray, got numpy.matrix"),
    "out shape": ({"out": np.empty((5, 4), "f4")}, ArrayError, "out must be 5 x 3 as a @ b is, got 5 x 4"),
    "out type": (
        {"out": np.empty((5, 3))},
        DtypeError,
        f"out has element type float64; matmul takes {', '.join(ARRAYS)}: pass an out of one of these",
    ),
    "c shape": ({"c": draw(3, 5), "beta": 1}, ArrayError, "c must be 5 x 3 as a @ b is, got 3 x 5"),
    "no c": ({"beta": 2}, ArrayError, "c must be given where beta is not 0, got beta=2.0"),
    "no c, but out": ({"beta": 2, "out": C.copy()}, ArrayError, "c must be given where beta is not 0"),
    "read-only": ({"out": np.broadcast_to(C, C.shape)}, ArrayError, "out must be an array that can be written"),
    "broadcast out": (
        {"out": np.lib.stride_tricks.as_strided(C.copy(), (5, 3), (0, 4))},
        ArrayError,
        "out must have memory for every element, got strides of (0, 4) bytes",
    ),
    "out is a": ({"a": SQUARE, "b": SQUARE.copy(), "out": SQUARE}, ArrayError, "out must not overlap a in memory"),
    "out is b": ({"a": SQUARE.copy(), "b": SQUARE, "out": SQUARE}, ArrayError, "out must not overlap b in memory"),
    "out in a": (
        {"a": SQUARE[:, :7], "b": draw(7, 3), "out": SQUARE[:, 6:9]},
        ArrayError,
        "out must not overlap a in memory",
    ),
    "out next to c": (
        {"c": SQUARE[:5, :3], "out": SQUARE[1:6, :3], "beta": 1},
        ArrayError,
        "out must not overlap c in memory, unless it is c",
    ),
    "transposed c": (
        {"a": draw(20, 4), "b": draw(4, 20), "c": SQUARE, "out": SQUARE.T, "beta": 1},
        ArrayError,
        "out must not overlap c in memory, unless it is c",
    ),
    "alpha": ({"alpha": "2"}, ProblemError, "alpha must be a number, got '2'"),
    "complex alpha": ({"alpha": 2j}, ProblemError, "alpha must be a number, got 2j"),
    "boolean beta": ({"beta": True}, ProblemError, "beta must be a number, got True"),
    "alpha nan": ({"alpha": float("nan")}, ProblemError, "alpha must be a number, got nan"),
    "precision": ({"precision": "fp16x4"}, ProblemError, "got 'fp16x4'; did you mean 'fp16x3'?"),
    "precision's type": (
        {"precision": 32},
        ProblemError,
        "precision must be one of float32, ieee, fp16x3, bf16x3, tf32",
    ),
    "precision of half": (
        {"a": draw(5, 7).astype(np.float16), "b": draw(7, 3).astype(np.float16), "precision": "bf16x3"},
        DtypeError,
        "precision is for float32 factors, got precision='bf16x3' with factors of float16",
    ),
    "precision that the kernel does not keep": (
        {"kernel": "gemm_bf16x3", "precision": "ieee"},
        DtypeError,
        "gemm_bf16x3 makes products of bf16x3, got precision 'ieee'",
    ),
    "kernel": ({"kernel": "warptield"}, KernelNotFoundError, "did you mean 'warptiled'?"),
    "preset": ({"kernel": "shared_tiled:x"}, KernelNotFoundError, "shared_tiled has no preset 'x'"),
    "kernel type": ({"kernel": 1.5}, KernelNotFoundError, "kernel must be a name, the number of a rung or a Kernel"),
    "config alone": ({"config": {"BM": 64}}, ConfigError, "config needs the kernel whose parameters it sets"),
    "parameter": ({"kernel": "naive", "config": "BM=64"}, ConfigError, "naive has no parameter 'BM'"),
    "config text": ({"kernel": "naive", "config": "BM"}, ConfigError, "config must read NAME=INTEGER,..."),
    "config type": ({"kernel": "naive", "config": 5}, ConfigError, "config must map parameters to integers"),
    "config list": ({"kernel": "vectorized", "config": {"BM": [1]}}, ConfigError, "BM must be an integer, got [1]"),
    "config float": ({"kernel": "vectorized", "config": {"BM": 64.0}}, ConfigError, "BM must be an integer, got 64.0"),
    "constraint": (
        {"kernel": "vectorized", "config": {"TM": 6}},
        ConfigError,
        "TM must be a multiple of 4: a fragment of A is read as float4s",
    ),
    "engine type": ({"engine": 3}, ValueError, "engine must be one of auto, cuda, emulator, or an Engine, got 3"),
    "parameter twice": (
        {"kernel": "vectorized", "config": "BM=64,BM=128"},
        ConfigError,
        "config must give each parameter once, got BM twice in 'BM=64,BM=128'",
    ),
    "engine": ({"engine": "gpu"}, ValueError, "engine must be one of auto, cuda, emulator, got 'gpu'"),
}


@pytest.mark.parametrize(("arguments", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_named(arguments, error, words):
    arguments = {"a": A, "b": B, "engine": NumPyEngine(None), **arguments}
    out = arguments.get("out")
    before = None if out is None else out.copy()
    with pytest.raises(error) as caught:
        tilewright.matmul(arguments.pop("a"), arguments.pop("b"), **arguments)
    assert words in str(caught.value)
    if out is not None:
        np.testing.assert_array_equal(out, before)


def test_what_an_error_advises_gives_the_product():
    """Each advice, followed to the letter."""
    wide, half = A.astype(np.float64), np.ma.masked_less(A, 0)
    with pytest.raises(DtypeError, match=re.escape("pass a.astype('float32')")):
        tilewright.matmul(wide, B)
    check(tilewright.matmul(wide.astype("float32"), B), reference(A, B), 7)
    with pytest.raises(ArrayError, match=re.escape("a.filled(0) is one")):
        tilewright.matmul(half, B)
    check(tilewright.matmul(half.filled(0), B), reference(np.maximum(A, 0), B), 7)
    values = A.astype("float64") + 1j * A[::-1]
    with pytest.raises(DtypeError, match=re.escape("pass a.astype('complex64')")):
        tilewright.matmul(values, B)
    found = tilewright.matmul(values.astype("complex64"), B.astype("complex64"))
    np.testing.assert_allclose(found, values @ B, rtol=0, atol=1e-4)
    for other in (A.astype(object), A.astype("S4"), A.view([("x", "f4")])):
        with pytest.raises(DtypeError) as caught:
            tilewright.matmul(other, B)
        assert "astype" not in str(caught.value)


@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_a_scalar_that_is_not_a_number_of_float32_is_refused_by_every_engine(name):
    for engine in ENGINES.values():
        for value, words in ((float("nan"), "must be a number, got nan"), (1e39, "must be infinite or at most 3.40")):
            with pytest.raises(ProblemError, match=f"{name} {words}"):
                tilewright.matmul(A, B, c=C, engine=engine, **{name: value})


def test_parts_of_one_array_that_do_not_overlap_may_be_inputs_and_out():
    whole = draw(20, 20)
    a, b, out = whole[:10, :10], whole[:10, 10:], whole[10:, 3:13]
    expected = reference(a, b)
    tilewright.matmul(a, b, out=out)
    check(out, expected, 10)
    left, right = whole[:, :10], whole[:, 10:]  # between one another in memory, row by row
    expected = reference(right, right[:10])
    check(tilewright.matmul(right, right[:10], out=left), expected, 10)


def test_a_file_mapped_to_memory_is_an_array(tmp_path):
    mapped = np.memmap(tmp_path / "a", np.float32, "w+", shape=(5, 7))
    mapped[...] = A
    result = tilewright.matmul(mapped, B, out=np.memmap(tmp_path / "out", np.float32, "w+", shape=(5, 3)))
    check(result, reference(A, B), 7)


def test_the_cuda_engine_says_why_it_is_not_there(monkeypatch):
    registry = import_module("tilewright.api.engines")
    monkeypatch.setattr(registry, "cuda_unavailable", lambda: "no driver is installed")
    registry._made.cache_clear()
    with pytest.raises(EngineUnavailableError, match="the cuda engine cannot run here: no driver is installed"):
        tilewright.matmul(A, B, engine="cuda")


def test_list_kernels_lists_the_ladder_and_hides_no_module():
    assert tilewright.list_kernels() is KERNELS
    assert tilewright.kernels.LADDER is LADDER


def test_every_public_name_is_there():
    assert all(hasattr(tilewright, name) for name in tilewright.__all__)


def test_importing_it_loads_no_cuda_and_no_array_library_but_numpy():
    code = (
        "import sys, tilewright\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "assert not loaded & {'cuda', 'torch', 'cupy', 'jax', 'rich', 'typer'}, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.first(1)
@pytest.mark.parametrize(("precision", "most"), [("ieee", 275), ("float32", 235)])
def test_a_new_shape_is_planned_quickly(precision, most):
    """By the calls it makes, as in test_selector.py. Not counted: the engine's part, which is a stand-in's here."""
    engine = NumPyEngine((9, 0))
    engine.device_name = "NVIDIA H200"
    profile = cProfile.Profile()
    for m, n, k in ((1012, 1004, 1020), (1000, 1004, 1008)):  # the first reads the table
        a, b = draw(m, k), draw(k, n)
        profile.clear()
        profile.runcall(tilewright.plan, a, b, engine=engine, precision=precision)
    assert [plan.kernel.support.multiplies_parts for plan in engine.planned] == [precision == "float32"] * 2
    assert 150 < pstats.Stats(profile).total_calls < most


def test_calls_of_two_precisions_have_two_plans():
    engine = NumPyEngine((9, 0))
    a, b = draw(5, 8), draw(8, 4)
    for precision in (None, "float32", *PRECISIONS[1:], None):
        check(tilewright.matmul(a, b, precision=precision, engine=engine), reference(a, b), 8)
    assert [plan.problem.arithmetic.precision for plan in engine.planned] == [None, *PRECISIONS[1:]]
    plans = [tilewright.plan(a, b, precision=precision, engine=engine) for precision in PRECISIONS]
    for plan, precision in zip(plans, PRECISIONS, strict=True):
        check(plan(a, b), reference(a, b), 8)
        assert plan.problem.arithmetic == Arithmetic(precision=precision)
        assert f"precision: {precision}, by " in plan.describe()


def test_a_plan_says_what_is_promised_and_what_makes_the_products():
    a, b = np.ones((2048, 2048), np.float32), np.ones((2048, 2048), np.float32)

    def words(capability=(9, 0), **options):
        return tilewright.plan(a, b, engine=NumPyEngine(capability), **options).describe()

    on_cuda_cores = "by float32 multiply-adds on CUDA cores"
    by_two = "by products of 2 float16 parts of each factor on tensor cores"
    by_three = "by products of 3 bfloat16 parts of each factor on tensor cores"
    assert f"precision: float32, {by_three}" in words()
    assert f"precision: ieee, {on_cuda_cores}" in words(precision="ieee")
    behind = "values of a and b that the parts cannot represent are detected on the GPU"
    assert behind in words()
    assert behind in words(precision="fp16x3")
    assert behind not in words(precision="ieee")
    assert behind not in words((8, 9))
    assert f"precision: fp16x3, {by_two}" in words(precision="fp16x3")
    assert f"precision: fp16x3, {on_cuda_cores}" in words((8, 9), precision="fp16x3")
    assert f"precision: fp16x3, since the kernel was named, {by_two}" in words(kernel="gemm_fp16x3")
    assert "precision: bf16x3, by products of 3 bfloat16 parts" in words(kernel="gemm_bf16x6", precision="bf16x3")
    assert "tf32, since the kernel was named, by products of factors rounded to tf32" in words(kernel="wmma_tf32")
    half = tilewright.plan(a.astype(np.float16), b.astype(np.float16), engine=NumPyEngine((9, 0)))
    assert "precision:" not in half.describe()


@pytest.mark.parametrize("engine", [None, "emulator"])
def test_a_precision_on_a_machine_without_a_gpu(monkeypatch, engine):
    monkeypatch.setattr(import_module("tilewright.api.call"), "cuda_unavailable", lambda: "a test says so")
    a, b = draw(5, 8), draw(8, 4)
    for precision in PRECISIONS:
        check(tilewright.matmul(a, b, precision=precision, engine=engine), reference(a, b), 8)
    with pytest.raises(ProblemError, match="did you mean 'fp16x3'"):
        tilewright.matmul(a, b, precision="fp16x", engine=engine)
    with pytest.raises(DtypeError, match="precision is for float32 factors"):
        tilewright.matmul(a.astype(np.float16), b.astype(np.float16), precision="ieee", engine=engine)


def test_the_readme_s_code_for_machines_without_a_gpu_runs(request, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", (request.config.rootpath / "README.md").read_text(), re.M | re.S)
    (code,) = (block for block in blocks if "numpy" in block)
    names = {}
    exec(code, names)
    a, b = names["a"].astype(np.float64), names["b"].astype(np.float64)
    sums = a @ b + a[0]
    expected = sums / 2 * (1 + np.vectorize(math.erf)(sums / math.sqrt(2)))
    assert np.linalg.norm(names["y"] - expected) <= 1e-6 * np.linalg.norm(expected)
    assert "NumPy's BLAS multiplies" in capsys.readouterr().out


FIRST_PRODUCT = """
import cProfile, pstats, sys
import numpy as np
import tilewright
from stand_ins import NumPyEngine

engine = NumPyEngine((9, 0))
engine.device_name = "NVIDIA H200"
m, n, k = map(int, sys.argv[1:])
a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
tilewright.matmul(a[:8, :8], b[:8, :8], engine=NumPyEngine((8, 0)), kernel="naive")  # imports what calls import
profile = cProfile.Profile()
profile.runcall(tilewright.plan, a, b, engine=engine)
print(pstats.Stats(profile).total_calls, "pydantic" in sys.modules)
"""


@pytest.mark.first(1)
@pytest.mark.parametrize(("shape", "most"), [("1024", 17_000), ("1000 1004 1008", 47_000)], ids=["tabled", "unseen"])
def test_the_first_product_of_a_process_is_planned_quickly(shape, most):
    """The first call of the process, which reads the tables; the engine's part is a stand-in's here."""
    sizes = shape.split() if " " in shape else 3 * [shape]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.fspath, (Path(__file__).parents[1], *sys.path)))}
    found = subprocess.run(
        [sys.executable, "-c", FIRST_PRODUCT, *sizes], env=environment, check=True, capture_output=True, text=True
    )
    calls, validated = found.stdout.split()
    assert 1000 < int(calls) < most
    assert validated == "False"
