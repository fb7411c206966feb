"""Verification: what counts as right, and what is caught."""

import math

import numpy as np
import pytest

from tilewright.api import activations
from tilewright.core.problem import LAYOUTS, Arithmetic, Epilogue, Layout, Problem, Scalars, orders
from tilewright.tools.bench.verify import Operands, limit


@pytest.mark.parametrize("k", [1, 16, 1024, 20000])
def test_plain_float32_arithmetic_is_within_the_limit(k):
    operands = Operands.draw(Problem(17, 13, k))
    one_by_one = np.zeros((17, 13), np.float32)
    for i in range(k):
        one_by_one += operands.a[:, i : i + 1] * operands.b[i : i + 1]
    assert 0 <= operands.error(one_by_one) <= limit(operands.problem)


@pytest.mark.parametrize("k", [1024, 20000])
def test_reduced_precision_is_over_the_limit(k):
    operands = Operands.draw(Problem(64, 64, k))
    shortened = operands.a.view(np.uint32) & 0xFFFFE000  # 10 bits of mantissa, as in TF32
    assert operands.error(shortened.view(np.float32) @ operands.b) > limit(operands.problem)


def rounded_to_tf32(values):
    return (values.view(np.uint32) + 0x1000 & 0xFFFFE000).view(np.float32)


@pytest.mark.parametrize("k", [1, 16, 1024])
def test_rounding_to_tf32_is_within_its_limit_and_cutting_off_is_not(k):
    operands = Operands.draw(Problem(64, 64, k))
    allowed = limit(operands.problem, "tf32")
    rounded = rounded_to_tf32(operands.a).astype(float) @ rounded_to_tf32(operands.b).astype(float)
    assert 0.4 * allowed < operands.error(rounded) < 0.6 * allowed
    assert operands.error(rounded) > limit(operands.problem)
    cut = [(factor.view(np.uint32) & 0xFFFFE000).view(np.float32).astype(float) for factor in (operands.a, operands.b)]
    assert operands.error(cut[0] @ cut[1]) > allowed


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("k", [1, 16, 1024, 20000])
def test_sums_of_products_of_halves_that_are_cut_off_are_within_the_limit(dtype, k):
    operands = Operands.draw(Problem(17, 13, k, Arithmetic(dtype)))
    assert operands.a.dtype == operands.b.dtype == dtype
    a, b = operands.a.astype(float), operands.b.astype(float)
    sums = np.zeros((17, 13), np.float32)
    for first in range(0, k, 8):
        exact = sums + a[:, first : first + 8] @ b[first : first + 8]
        sums = exact.astype(np.float32)
        sums = np.where(np.abs(sums) > np.abs(exact), np.nextafter(sums, np.float32(0)), sums)
    assert operands.error(sums) <= limit(operands.problem)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_reference_of_halves_is_of_the_rounded_operands(dtype):
    operands = Operands.draw(Problem(64, 64, 256, Arithmetic(dtype)))
    exact = operands.a.astype(float) @ operands.b.astype(float)
    assert operands.error(exact.astype(np.float32)) <= limit(operands.problem)
    unrounded = Operands.draw(Problem(64, 64, 256)).reference
    assert operands.error(unrounded.astype(np.float32)) > limit(operands.problem)
    assert operands.error(exact.astype(dtype).astype(np.float32)) > limit(operands.problem)


def test_one_wrong_element_in_a_million_is_over_the_limit():
    operands = Operands.draw(Problem(1000, 1000, 64))
    result = operands.reference.astype(np.float32)
    assert operands.error(result) <= limit(operands.problem)
    result[999, 500] = 0
    assert operands.error(result) > limit(operands.problem)


def test_an_element_left_poisoned_is_an_error_of_nan():
    operands = Operands.draw(Problem(8, 8, 8))
    assert np.isnan(operands.c).all()
    result = operands.reference.astype(np.float32)
    result[3, 3] = operands.c[3, 3]
    assert np.isnan(operands.error(result))


def test_c_is_random_where_beta_counts():
    operands = Operands.draw(Problem(8, 8, 8), Scalars(2.0, 0.5))
    expected = 2.0 * operands.a.astype(float) @ operands.b + 0.5 * operands.c
    np.testing.assert_allclose(operands.reference, expected, rtol=1e-12)


def test_an_empty_sum_is_zero():
    operands = Operands.draw(Problem(4, 4, 0))
    assert operands.error(np.zeros((4, 4), np.float32)) == 0
    assert operands.error(np.ones((4, 4), np.float32)) > limit(operands.problem)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [1, 3])
def test_operands_lie_as_the_problem_says(layout, batch):
    problem = Problem(4, 6, 5, batch=batch, a=orders(layout)[0], b=orders(layout)[1])
    operands = Operands.draw(problem)
    count = () if batch == 1 else (batch,)
    assert (operands.a.shape, operands.b.shape, operands.c.shape) == ((*count, 4, 5), (*count, 5, 6), (*count, 4, 6))
    for array, letter in ((operands.a, layout[0]), (operands.b, layout[1])):
        assert (array if letter == "N" else array.swapaxes(-1, -2)).flags.c_contiguous
    singly = [a @ b for a, b in zip(operands.a.reshape(-1, 4, 5), operands.b.reshape(-1, 5, 6), strict=True)]
    np.testing.assert_allclose(operands.reference.reshape(-1, 4, 6), singly, rtol=1e-5, atol=1e-6)


def test_one_factor_may_serve_a_batch():
    operands = Operands.draw(Problem(4, 6, 5, batch=3, b=Layout(batch_stride=0)))
    assert (operands.a.shape, operands.b.shape, operands.sums.shape) == ((3, 4, 5), (5, 6), (3, 4, 6))


@pytest.mark.parametrize("side", ["row", "column"])
@pytest.mark.parametrize("activation", [None, "relu", "gelu", "gelu_tanh", "silu"])
def test_bias_and_activation_are_in_the_reference(side, activation):
    problem = Problem(4, 6, 5, epilogue=Epilogue(side, activation))
    operands = Operands.draw(problem, Scalars(0.5, 2.0))
    bias = operands.bias if side == "row" else operands.bias[:, np.newaxis]
    sums = 0.5 * operands.a.astype(float) @ operands.b + 2.0 * operands.c + bias
    functions = {
        None: lambda x: x,
        "relu": lambda x: max(x, 0.0),
        "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
        "gelu_tanh": lambda x: x * 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        "silu": lambda x: x / (1 + math.exp(-x)),
    }
    expected = np.vectorize(functions[activation])(sums)
    np.testing.assert_allclose(operands.reference, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("result", ["float16", "bfloat16"])
@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
@pytest.mark.parametrize("shape", ["1x1x1", "64x64x64", "16x16x4096"])
def test_rounding_a_result_is_within_its_limit_and_rounding_it_twice_as_far_is_not(result, activation, shape):
    problem = Problem.parse(shape, arithmetic=Arithmetic("float32", result), epilogue=Epilogue("row", activation))
    operands = Operands.draw(problem)
    assert operands.c.dtype == operands.bias.dtype == result
    assert operands.error(operands.reference.astype(result)) <= limit(problem)
    if problem.m > 1:
        unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[result]
        assert operands.error(operands.reference * (1 + 4 * unit)) > limit(problem)


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
def test_errors_of_sums_are_within_the_limit_of_their_activation(activation):
    problem = Problem(64, 64, 1024, epilogue=Epilogue(None, activation))
    operands = Operands.draw(problem)
    sums = operands.a @ operands.b
    assert operands.error(activations.apply(activation, sums)) <= limit(problem)
    assert operands.error(operands.sums.astype(np.float32)) > limit(problem)
