"""Problem and the words it is made of: defaults, checks, layouts, text, arithmetic."""

import math
from itertools import product

import numpy as np
import pytest

from tilewright.core.errors import DtypeError, ProblemError
from tilewright.core.problem import (
    ACTIVATIONS,
    LAYOUTS,
    PRECISIONS,
    SCALINGS,
    UNSCALED,
    Arithmetic,
    Epilogue,
    Layout,
    Problem,
    Scalars,
    Scale,
    Scaling,
    orders,
)

ORDERS = ("row", "column")


def lds(problem):
    return problem.a.ld, problem.b.ld, problem.d.ld


def test_rows_touch_where_no_leading_dimension_is_given():
    assert lds(Problem(2, 3, 5)) == (5, 3, 3)


def test_columns_touch_in_column_major_factors():
    assert lds(Problem(2, 3, 5, a=Layout("column"), b=Layout("column"))) == (2, 5, 3)


def test_leading_dimensions_of_empty_rows_are_one():
    assert lds(Problem(2, 0, 0)) == (1, 1, 1)


def test_leading_dimensions_that_are_given_stay():
    assert lds(Problem(2, 3, 5, a=Layout(ld=7), b=Layout(ld=4), d=Layout(ld=3))) == (7, 4, 3)


def test_matrices_of_a_batch_follow_one_another_where_no_stride_is_given():
    problem = Problem(2, 3, 5, batch=4, a=Layout(ld=7), b=Layout("column"), d=Layout(batch_stride=100))
    assert [layout.batch_stride for layout in (problem.a, problem.b, problem.d)] == [2 * 7, 3 * 5, 100]
    assert Problem(2, 3, 5, batch=4, b=Layout(batch_stride=0)).b.batch_stride == 0


def test_a_single_product_has_no_stride():
    assert Problem(2, 3, 5, a=Layout(batch_stride=99)) == Problem(2, 3, 5)


def test_sizes_may_be_integers_of_any_type():
    problem = Problem(*map(np.int64, (2, 3, 5)), batch=np.int32(7), a=Layout(ld=np.int64(8), batch_stride=np.int64(20)))
    assert problem == Problem(2, 3, 5, batch=7, a=Layout(ld=8, batch_stride=20))
    numbers = (problem.m, problem.n, problem.k, problem.batch, problem.a.ld, problem.a.batch_stride, problem.d.ld)
    assert {type(number) for number in numbers} == {int}


def test_c_lies_as_d_where_it_is_not_said():
    assert Problem(2, 3, 5, d=Layout(ld=8)).addend == Layout(ld=8, batch_stride=0)
    assert Problem(2, 3, 5, d=Layout(ld=8), c=Layout(ld=4)).addend == Layout(ld=4, batch_stride=0)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"m": -1}, "m must be from 0 to 2147479552, got -1"),
        ({"n": 2**31 - 1}, "n must be from 0 to 2147479552, got 2147483647"),
        ({"k": 1.5}, "k must be an integer, got 1.5"),
        ({"m": True}, "m must be an integer, got True"),
        ({"batch": -1}, "batch must be from 0 to 2147479552, got -1"),
        ({"a": Layout(ld=4)}, "lda must be at least the row length 5, got 4"),
        ({"a": Layout("column", ld=1)}, "lda must be at least the column length 2, got 1"),
        ({"b": Layout(ld=2)}, "ldb must be at least the row length 3, got 2"),
        ({"b": Layout(ld=2**31)}, "ldb must be from 0 to 2147479552, got 2147483648"),
        ({"d": Layout(ld=2)}, "ldd must be at least the row length 3, got 2"),
        ({"c": Layout(ld=2)}, "ldc must be at least the row length 3, got 2"),
        ({"batch": 2, "a": Layout(batch_stride=-1)}, "batch stride of a must be from 0 to"),
        ({"d": Layout("column")}, "c and d must be row-major: multiply the transposed factors in the other order"),
        ({"c": Layout("column")}, "c and d must be row-major: multiply the transposed factors in the other order"),
    ],
)
def test_what_cannot_be_computed_is_named(fields, words):
    with pytest.raises(ProblemError) as caught:
        Problem(**{"m": 2, "n": 3, "k": 5, **fields})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("alpha", "beta", "words"),
    [
        (math.nan, 0, "alpha must be a number, got nan"),
        (1, "1", "beta must be a number, got '1'"),
        (False, 0, "alpha must be a number, got False"),
        (1, None, "beta must be a number, got None"),
        (complex(1, math.nan), 0, r"alpha must be a number, got \(1\+nanj\)"),
        (1e39j, 0, r"alpha must be a number, got 1e\+39j"),
        (1, 1j, "beta must be a number, got 1j"),
        (1e39, 0, r"alpha must be infinite or at most 3.402823e\+38 in magnitude, what float32 holds, got 1e\+39"),
        (1, -(10**400), r"beta must be infinite or at most 3.402823e\+38 in magnitude, .*, got -1000"),
    ],
)
def test_scalars_that_are_no_numbers(alpha, beta, words):
    with pytest.raises(ProblemError, match=words):
        Scalars.checked(alpha, beta)


def test_scalars_that_float32_holds_are_taken():
    largest = float(np.finfo(np.float32).max)
    assert Scalars.checked(largest, -largest)[:2] == (largest, -largest)
    assert Scalars.checked(-math.inf, math.inf)[:2] == (-math.inf, math.inf)


def test_scalars_are_floats():
    checked = Scalars.checked(2, math.inf)
    assert checked == (2.0, math.inf, 1)
    assert [type(value) for value in checked[:2]] == [float, float]
    assert Scalars() == (1.0, 0.0, 1)


def test_a_complex_alpha_is_a_factor_of_b():
    assert Scalars.checked(2 - 1j, 3) == (1.0, 3.0, 2 - 1j)
    assert Scalars.checked(2 + 0j, 3 + 0j) == (2.0, 3.0, 1)


def test_an_element_type_that_is_not_supported_is_named_with_those_that_are():
    known = "float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, int8, uint8"
    with pytest.raises(DtypeError, match=f"^dtype must be one of {known}, got 'float64'"):
        Problem(2, 3, 5, "float64")
    with pytest.raises(DtypeError, match=f"^dtype of b must be one of {known}, got 'int32'"):
        Arithmetic("int8", "int32", of_b="int32")
    with pytest.raises(DtypeError, match=f"^out_dtype must be one of {known}, int32, got 'int16'"):
        Arithmetic("float16", "int16")


def test_text_stands_for_factors_with_a_result_of_float32():
    problem = Problem(2, 3, 5, "bfloat16")
    assert problem.arithmetic == Arithmetic("bfloat16", "float32")
    assert (problem.dtype, problem.result) == ("bfloat16", "float32")


def test_an_unknown_activation_gets_the_nearest():
    with pytest.raises(ProblemError, match="activation must be None or a known function, got 'gelu_tan'; did you mean"):
        Epilogue(activation="gelu_tan")
    with pytest.raises(ProblemError, match=f"got 'sin'; .*{ACTIVATIONS[-1]}"):
        Epilogue(activation="sin")
    with pytest.raises(ProblemError, match="bias must be None, 'row' or 'column', got 'diagonal'"):
        Epilogue(bias="diagonal")


@pytest.mark.parametrize(
    ("epilogue", "text"),
    [
        (Epilogue(), ""),
        (Epilogue("row"), "bias"),
        (Epilogue("column", "gelu"), "column_bias+gelu"),
        (Epilogue(activation="relu"), "relu"),
    ],
)
def test_an_epilogue_as_text(epilogue, text):
    assert str(epilogue) == text


@pytest.mark.parametrize(
    ("fields", "case"),
    [
        ({}, "NN float32"),
        ({"a": Layout("column")}, "TN float32"),
        ({"b": Layout("column"), "arithmetic": Arithmetic("float16", "float16")}, "NT float16->float16"),
        ({"arithmetic": "bfloat16", "epilogue": Epilogue("row", "gelu")}, "NN bfloat16 bias+gelu"),
    ],
)
def test_the_case_says_orders_types_and_epilogue(fields, case):
    assert Problem(2, 3, 5, **fields).case == case


def test_orders_read_what_layout_writes():
    for text in LAYOUTS:
        a, b = orders(text)
        assert Problem(2, 3, 5, a=a, b=b).layout == text
    with pytest.raises(ProblemError, match="layout must be one of NN, NT, TN, TT, A's order then B's, got 'nt'"):
        orders("nt")


# Layouts.


def test_a_layout_is_completed_to_itself():
    once = Layout("column").complete("a", 3, 4, 2)
    assert once == Layout("column", 3, 12)
    assert once.complete("a", 3, 4, 2) is once


@pytest.mark.parametrize("order", ORDERS)
def test_the_transposed_layout_is_that_of_the_transposed_matrix(order):
    layout = Layout(order, 7, 50)
    assert layout.transposed == Layout("column" if order == "row" else "row", 7, 50)
    assert layout.transposed.transposed == layout
    assert layout.lines(3, 4) == layout.transposed.lines(4, 3)


@pytest.mark.parametrize(("order", "ld", "stride"), list(product(ORDERS, (0, 9), (None, 0, 70))))
@pytest.mark.parametrize(("rows", "cols", "batch"), [(3, 4, 1), (3, 4, 5), (1, 1, 2), (0, 4, 2), (3, 4, 0)])
def test_the_extent_ends_at_the_last_element(order, ld, stride, rows, cols, batch):
    layout = Layout(order, ld, stride).complete("a", rows, cols, batch)
    row, col = (layout.ld, 1) if order == "row" else (1, layout.ld)
    places = [matrix * layout.batch_stride + i * row + j * col for matrix, i, j in np.ndindex(batch, rows, cols)]
    assert layout.extent(rows, cols, batch) == (max(places) + 1 if places else 0)


@pytest.mark.parametrize(
    ("layout", "item_bytes", "aligned"),
    [
        (Layout(ld=8, batch_stride=0), 4, True),
        (Layout(ld=6, batch_stride=0), 4, False),
        (Layout(ld=12, batch_stride=0), 2, False),
        (Layout(ld=8, batch_stride=26), 4, False),
        (Layout("column", 8, 24), 2, True),
    ],
)
def test_lines_are_aligned_where_both_strides_are(layout, item_bytes, aligned):
    assert layout.aligned(item_bytes, 16) is aligned


# Text, equality, arithmetic.


@pytest.mark.parametrize(
    ("text", "sizes"), [("2x3x5", (2, 3, 5)), ("2X3*5", (2, 3, 5)), (" 64 ", (64, 64, 64)), ("0x3x0", (0, 3, 0))]
)
def test_a_shape_is_read(text, sizes):
    problem = Problem.parse(text, batch=7)
    assert ((problem.m, problem.n, problem.k), problem.batch) == (sizes, 7)


@pytest.mark.parametrize("text", ["", "2x3", "2x3x5x7", "-1x3x5", "2x3xk", "2 3 5", "1.5"])
def test_a_shape_that_does_not_parse_is_quoted(text):
    with pytest.raises(ProblemError) as caught:
        Problem.parse(text)
    assert f"shape must read MxNxK, as in 4096x4096x4096, got {text!r}" in str(caught.value)


def test_a_shape_is_written_as_it_is_read():
    assert Problem.parse(Problem(2, 3, 5).shape) == Problem(2, 3, 5)
    assert Problem(2, 3, 5, batch=8).shape == "8 of 2x3x5"


def test_equal_problems_are_one_key():
    given = Problem(2, 3, 5, Arithmetic(), 4, Layout(ld=5), Layout(batch_stride=15), Layout("row", 3, 6))
    assert given == Problem(2, 3, 5, batch=4)
    assert hash(given) == hash(Problem(2, 3, 5, batch=4))


@pytest.mark.parametrize(
    "fields",
    [
        {"m": 4},
        {"arithmetic": "float16"},
        {"batch": 5},
        {"a": Layout(ld=6)},
        {"b": Layout(batch_stride=0)},
        {"c": Layout(ld=6)},
        {"d": Layout(ld=6)},
        {"epilogue": Epilogue("row")},
    ],
    ids=str,
)
def test_problems_that_differ_are_two_keys(fields):
    plain = {"m": 2, "n": 3, "k": 5, "batch": 4}
    assert Problem(**plain | fields) != Problem(**plain)


def test_without_products_nothing_of_the_factors_is_left():
    problem = Problem(2, 3, 5, batch=4, a=Layout("column"), b=Layout(ld=9), c=Layout(ld=7), epilogue=Epilogue("row"))
    left = problem.without_products
    assert (left.k, left.flops, left.layout) == (0, 0, "NN")
    assert (left.m, left.n, left.batch, left.c, left.d, left.epilogue) == (
        *(2, 3, 4),
        problem.c,
        problem.d,
        problem.epilogue,
    )


@pytest.mark.parametrize(
    ("m", "n", "k", "batch", "empty"), [(0, 1, 1, 1, True), (1, 0, 1, 1, True), (1, 1, 0, 1, False), (1, 1, 1, 0, True)]
)
def test_a_problem_is_empty_where_its_result_is(m, n, k, batch, empty):
    assert Problem(m, n, k, batch=batch).is_empty is empty


def test_operations_and_their_rate():
    problem = Problem(1024, 1024, 1024)
    assert problem.flops == 2**31
    assert Problem(1024, 1024, 1024, batch=3).flops == 3 * 2**31
    assert problem.gflops(2.0**31 / 1e3) == 1.0
    assert problem.gflops(0.0) == 0.0


def test_a_single_row_without_gaps_is_row_major():
    a, b = orders("TT")
    assert Problem(1, 5, 7, a=a, b=b).layout == "NT"
    assert Problem(4, 5, 1, a=a, b=b).layout == "TN"
    assert Problem(1, 5, 7, a=Layout("column", 3), b=b).layout == "TT"


@pytest.mark.parametrize("precision", [None, "float32"])
@pytest.mark.parametrize("factors", ["float32", "bfloat16"])
def test_the_promise_of_float32_is_that_of_no_precision(factors, precision):
    assert Arithmetic(factors, precision=precision) == Arithmetic(factors)
    assert str(Arithmetic(factors, precision=precision)) == str(Arithmetic(factors))


@pytest.mark.parametrize("precision", PRECISIONS[1:])
def test_a_precision_is_part_of_the_arithmetic_and_of_its_text(precision):
    found = Arithmetic("float32", "bfloat16", precision)
    assert found != Arithmetic("float32", "bfloat16")
    assert str(found) == f"float32:{precision}->bfloat16"
    assert Problem(1, 1, 1, Arithmetic(precision=precision)).case == f"NN float32:{precision}"


@pytest.mark.parametrize(
    ("precision", "words"),
    [
        ("fp16x4", "precision must be one of float32, ieee, fp16x3, bf16x3, tf32, got 'fp16x4'; did you mean 'fp16x3'"),
        ("IEEE", "got 'IEEE'; did you mean 'ieee'"),
        ("tf", "did you mean 'tf32'"),
        (3, "precision must be one of float32, ieee, fp16x3, bf16x3, tf32, got 3"),
        ([], r"got \[\]"),
    ],
)
def test_an_unknown_precision_gets_the_nearest(precision, words):
    with pytest.raises(ProblemError, match=words):
        Arithmetic(precision=precision)


@pytest.mark.parametrize("factors", ["float16", "bfloat16"])
def test_a_precision_is_for_float32_factors(factors):
    with pytest.raises(DtypeError, match=f"precision is for float32 factors, got precision='ieee' with .* {factors}"):
        Arithmetic(factors, precision="ieee")


def test_scales_are_of_a_whole_factor_of_lines_or_of_blocks():
    assert Scaling.dense(None, 200, 300) == UNSCALED == Scaling()
    for kind in SCALINGS:
        assert Scaling.dense(kind, 200, 300).kind == kind
    of_a, of_b = Scaling.dense("blocks", 200, 300)
    assert (of_a, of_b) == (Scale("1x128", 3, 1), Scale("128x128", 1, 2))
    assert (of_a.extent(70, 300), of_b.extent(200, 300)) == (70 * 3, 3 * 2)
    assert Scaling(of_a, None).swapped == Scaling(None, of_a)
    with pytest.raises(ProblemError, match="scales must be one of tensor, lines, blocks, got 'line'; did you mean"):
        Scaling.dense("line", 200, 300)
    with pytest.raises(DtypeError, match="scales are for factors of 8 bits, got factors of bfloat16"):
        Problem(2, 3, 4, "bfloat16", scaling=Scaling.dense("tensor", 3, 4))


def test_types_of_factors_may_be_mixed_of_float8_alone():
    mixed = Arithmetic("float8_e4m3fn", "bfloat16", "fast", of_b="float8_e5m2")
    assert str(mixed) == "float8_e4m3fn*float8_e5m2:fast->bfloat16"
    assert mixed.swapped == Arithmetic("float8_e5m2", "bfloat16", "fast", of_b="float8_e4m3fn")
    assert Arithmetic("float16", of_b="float16") == Arithmetic("float16")
    with pytest.raises(
        DtypeError, match="b must have the element type of a, or both be of float8, or of int8 and uint8: got float16"
    ):
        Arithmetic("float32", of_b="float16")
