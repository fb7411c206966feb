"""Activations on the host, as PyTorch defines them."""

import math

import numpy as np
import pytest

from tilewright.api.activations import apply, erf
from tilewright.core.problem import ACTIVATIONS


def test_the_error_function_is_that_of_the_standard_library():
    points = np.concatenate([np.linspace(-7, 7, 20001), [1e-300, -0.0, 5.999999, 6.0]])
    expected = [math.erf(point) for point in points]
    assert np.abs(erf(points) - expected).max() < 1e-14


def test_the_error_function_of_infinities_and_nan():
    np.testing.assert_array_equal(erf(np.array([np.inf, -np.inf, np.nan])), [1, -1, np.nan])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("relu", [0, 0, 0, 0.5, 3]),
        ("gelu", [-0.0040496941, -0.1542687694, 0, 0.3457312306, 2.9959503059]),
        ("gelu_tanh", [-0.0036373920, -0.1542859902, 0, 0.3457140098, 2.9963626080]),
        ("silu", [-0.1422776195, -0.1887703344, 0, 0.3112296656, 2.8577223805]),
        (None, [-3, -0.5, 0, 0.5, 3]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_are_those_of_pytorch(name, values, dtype):
    result = apply(name, np.array([-3, -0.5, 0, 0.5, 3], dtype))
    assert result.dtype == dtype
    np.testing.assert_allclose(result, values, rtol=0, atol=3e-7 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_nan_stays_and_large_numbers_are_kept(name):
    result = apply(name, np.array([np.nan, np.inf, 1e30], np.float32))
    np.testing.assert_array_equal(result, np.array([np.nan, np.inf, 1e30], np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_nothing_is_said_of_overflow_and_underflow(name, dtype):
    x = np.array([-np.inf, -1e30, -800, -120, -1e-40, 0, 1e-40, 120, 1e30, np.inf, np.nan], dtype)
    with np.errstate(all="raise"):
        assert apply(name, x).dtype == dtype
