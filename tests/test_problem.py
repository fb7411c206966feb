"""Problem: its defaults, its checks, its arithmetic."""

import math

import pytest

from tilewright.errors import DtypeError, ProblemError
from tilewright.problem import Layout, Problem


def test_rows_touch_where_no_leading_dimension_is_given():
    problem = Problem(2, 3, 5)
    assert (problem.a.ld, problem.b.ld, problem.d.ld) == (5, 3, 3)


def test_leading_dimensions_of_empty_rows_are_one():
    problem = Problem(2, 0, 0)
    assert (problem.a.ld, problem.b.ld, problem.d.ld) == (1, 1, 1)


def test_leading_dimensions_that_are_given_stay():
    problem = Problem(2, 3, 5, a=Layout(ld=7), b=Layout(ld=4), d=Layout(ld=3))
    assert (problem.a.ld, problem.b.ld, problem.d.ld) == (7, 4, 3)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"m": -1}, "m must be from 0 to 2147479552, got -1"),
        ({"n": 2**31 - 1}, "n must be from 0 to 2147479552, got 2147483647"),
        ({"k": 1.5}, "k must be an integer, got 1.5"),
        ({"m": True}, "m must be an integer, got True"),
        ({"lda": 4}, "lda must be at least the row length 5, got 4"),
        ({"ldb": 2}, "ldb must be at least the row length 3, got 2"),
        ({"ldc": 2}, "ldc must be at least the row length 3, got 2"),
        ({"alpha": math.nan}, "alpha must be a number, got nan"),
        ({"beta": "1"}, "beta must be a number, got '1'"),
        ({"alpha": False}, "alpha must be a number, got False"),
    ],
)
def test_what_cannot_be_computed_is_named(fields, words):
    with pytest.raises(ProblemError) as caught:
        Problem(**{"m": 2, "n": 3, "k": 5, **fields})
    assert words in str(caught.value)


def test_an_element_type_that_is_not_supported_is_named_with_those_that_are():
    with pytest.raises(DtypeError, match="dtype must be one of float32, float16, bfloat16, got 'float64'"):
        Problem(2, 3, 5, dtype="float64")


@pytest.mark.parametrize(
    ("text", "sizes"), [("2x3x5", (2, 3, 5)), ("2X3*5", (2, 3, 5)), (" 64 ", (64, 64, 64)), ("0x3x0", (0, 3, 0))]
)
def test_a_shape_is_read(text, sizes):
    problem = Problem.parse(text, beta=0.5)
    assert ((problem.m, problem.n, problem.k), problem.beta) == (sizes, 0.5)


@pytest.mark.parametrize("text", ["", "2x3", "2x3x5x7", "-1x3x5", "2x3xk", "2 3 5", "1.5"])
def test_a_shape_that_does_not_parse_is_quoted(text):
    with pytest.raises(ProblemError) as caught:
        Problem.parse(text)
    assert f"shape must read MxNxK, as in 4096x4096x4096, got {text!r}" in str(caught.value)


def test_a_shape_is_written_as_it_is_read():
    assert Problem.parse(Problem(2, 3, 5).shape) == Problem(2, 3, 5)


def test_operations_and_their_rate():
    problem = Problem(1024, 1024, 1024)
    assert problem.flops == 2**31
    assert problem.gflops(2.0**31 / 1e3) == 1.0
    assert problem.gflops(0.0) == 0.0
