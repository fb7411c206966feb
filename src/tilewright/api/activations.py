"""Activations of an epilogue, on host arrays, as PyTorch defines them.

Source: D. Hendrycks and K. Gimpel, "Gaussian Error Linear Units (GELUs)", 2016, for gelu and silu.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

_STEP = 1 / 256
"""Between the points at which the error function is tabled."""

_EDGE = 6.0
"""From here on it is 1 in float64."""


def apply(activation: str | None, x: NDArray[Any]) -> NDArray[Any]:
    """An activation (see `problem.ACTIVATIONS`; None: x itself) of float32 or float64 values; NaN stays NaN, and
    nothing is said of overflow and underflow.
    """
    with np.errstate(all="ignore"):
        if activation == "relu":
            return np.where(x < 0, x.dtype.type(0), x)
        if activation == "gelu":
            return np.asarray(0.5 * x * (1 + erf(x / math.sqrt(2))), x.dtype)
        if activation == "gelu_tanh":
            inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
            return np.asarray(0.5 * x * (1 + np.tanh(inner)), x.dtype)
        if activation == "silu":
            return np.asarray(x / (1 + np.exp(-x)), x.dtype)
    return x


def erf(x: NDArray[Any]) -> NDArray[np.float64]:
    """The error function of each element, to 1e-14: its Taylor series around the nearest tabled point."""
    x = np.clip(np.asarray(x, np.float64), -_EDGE, _EDGE)
    nearest = np.rint(x / _STEP)
    at = nearest * _STEP
    h = x - at
    series = h * (1 + h * (-at + h * ((2 * at * at - 1) / 3 + h * (at / 2 - at**3 / 3))))
    place = np.nan_to_num(nearest).astype(np.intp) + round(_EDGE / _STEP)
    value: NDArray[np.float64] = _tabled()[place] + 2 / math.sqrt(math.pi) * np.exp(-at * at) * series
    return value


@lru_cache(1)
def _tabled() -> NDArray[np.float64]:
    steps = round(_EDGE / _STEP)
    return np.array([math.erf(step * _STEP) for step in range(-steps, steps + 1)])
