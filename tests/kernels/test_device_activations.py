"""The activations that kernels apply, compiled for the emulator, against float64."""

import ctypes
import math

import numpy as np
import pytest

from launching import launch_source
from tilewright.core.problem import ACTIVATIONS

SOURCE = """
#include "epilogue/activations.cuh"
extern "C" __global__ void kernel(const float* x, float* y, int count) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = {name}::of<{result}>(x[i]);
}}
"""

erfc = np.vectorize(math.erfc, otypes=[np.float64])

EXACT = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * erfc(-x / math.sqrt(2)),
    "gelu_tanh": lambda x: x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}

# By activation: units in the last place of the result that it errs by at most, for x >= 0, -1, -2 and -3; and by what
# part of max(1, |x|) anywhere.
LIMITS = {
    "relu": ((0, 0, 0, 0), 0),
    "gelu": ((4, 4, 7, 30), 1.1e-7),
    "gelu_tanh": ((3, 4, 8, 16), 1.6e-7),
    "silu": ((3, 3, 3, 3), 1.6e-7),
}


def computed(name, x, result="float"):
    """result: the type that the values are rounded to later, of which only the size counts."""
    y = np.full(x.size, 7, np.float32)
    arguments = [ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_int(x.size)]
    launch_source(SOURCE.format(name=name, result=result), "kernel", (-(-x.size // 256), 1, 1), (256, 1, 1), arguments)
    return y


def sweep():
    """Floats of every magnitude and both signs, and densely those whose results are neither 0 nor x."""
    patterns = np.arange(0, 0x7F800000, 30011, dtype=np.uint32).view(np.float32)
    dense = np.linspace(0, 20, 200_001, dtype=np.float32)
    positive = np.concatenate([patterns, dense])
    return np.concatenate([positive, -positive])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_errs_by_a_few_units(name):
    x = sweep()
    y = computed(name, x).astype(np.float64)
    with np.errstate(over="ignore"):
        exact = EXACT[name](x.astype(np.float64))
    error = abs(y - exact)
    units = error / np.spacing(np.maximum(abs(exact), 2.0**-126).astype(np.float32))
    limits, relative = LIMITS[name]
    for least, limit in zip((0, -1, -2, -3), limits, strict=True):
        assert units[x >= least].max() <= limit
    assert (error <= relative * np.maximum(1, abs(x))).all()


@pytest.mark.first(2)
@pytest.mark.parametrize(("name", "limit", "below"), [("gelu", 6.2e-5, 1), ("silu", 4e-7, 0)])
@pytest.mark.parametrize("result", ["unsigned short", "unsigned char"])
def test_results_that_are_rounded_to_16_bits_or_less_err_by_a_fraction_of_their_last_bit(name, limit, below, result):
    """float16 rounds by 2^-12 at least; a gelu that is smaller than a thousandth may err by more of itself."""
    x = np.linspace(-5, 20, 200_001, dtype=np.float32)
    exact = EXACT[name](x.astype(np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.nan_to_num(abs(computed(name, x, result) - exact) / abs(exact))
    assert (error <= limit * np.exp(below * np.maximum(abs(x) - 2, 0))).all()


def test_gelu_of_negative_numbers_is_as_exact_as_its_formula_in_float32():
    """As PyTorch computes it; below -5.6 that gives 0."""
    x = np.linspace(-12, -1, 200_001, dtype=np.float32)
    exact = EXACT["gelu"](x.astype(np.float64))
    erf = (1 - erfc((x * np.float32(math.sqrt(0.5))).astype(np.float64))).astype(np.float32)
    formula = np.float32(0.5) * x * (1 + erf)
    error, usual = abs(computed("gelu", x) - exact), abs(formula - exact)
    for first in np.arange(-12, -1, 0.5):
        bin_ = (x >= first) & (x < first + 0.5)
        assert error[bin_].max() <= usual[bin_].max()


@pytest.mark.parametrize("result", ["float", "unsigned short"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_of_values_that_are_not_finite_or_large(name, result):
    x = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, -100, 0.0, -0.0], np.float32)
    y = computed(name, x, result)
    lowest = 0 if name == "relu" else np.nan  # -infinity times 0
    np.testing.assert_array_equal(y, np.array([np.nan, np.inf, lowest, 3e38, 0, 0, 0, 0], np.float32))
