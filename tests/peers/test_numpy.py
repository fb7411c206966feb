"""NumPy's own tests of numpy.matmul, of tilewright.matmul instead: `python -m pytest tests/peers/test_numpy.py`.

The tests are those of the installed NumPy, `TestMatmul` in numpy/_core/tests/test_multiarray.py. They run on float16,
float32 and bfloat16. Operands that NumPy draws as float64 or booleans alone are converted to float32, and results back.
"""

from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

import tilewright

theirs = pytest.importorskip("numpy._core.tests.test_multiarray", reason="NumPy is installed without its tests")

pytestmark = pytest.mark.further

LEFT_OUT = {
    "test_out_arg": (TypeError, "out is an argument by name alone, and has the result's type"),
    "test_empty_out": (AssertionError, "the ValueError has other words"),
    "test_matmul_object": (TypeError, "elements are Python's objects"),
    "test_matmul_object_type_scalar": (TypeError, "elements are Python's objects"),
    "test_matmul_empty": (TypeError, "elements are Python's objects"),
}
"""Tests that must fail: the error in which they end, and why."""

ORDERS = "test_dot_equivalent_matrix_matrix_blastypes"
if hasattr(theirs.TestMatmul, ORDERS):  # NumPy 2.4 and later
    LEFT_OUT[f"{ORDERS}[complex128]"] = (TypeError, "elements are complex, of 128 bits")


def float32_of(array):
    """A copy in float32, with gaps between elements where the array has some."""
    strides = [stride // array.itemsize * 4 for stride in array.strides]
    extent = sum((size - 1) * stride for size, stride in zip(array.shape, strides, strict=True)) // 4 + 1
    copy = np.lib.stride_tricks.as_strided(np.empty(max(extent, 0), np.float32), array.shape, strides)
    copy[...] = array
    return copy


def product(a, b, *, out=None):
    """tilewright.matmul, in float32 where all is float64 or booleans."""
    if not all(array is None or array.dtype in (float, bool) for array in (a, b, out)):
        return tilewright.matmul(a, b, out=out)
    if out is None:
        return tilewright.matmul(float32_of(a), float32_of(b)).astype(a.dtype)
    out[...] = tilewright.matmul(float32_of(a), float32_of(b), out=float32_of(out))
    return out


class TestMatmul(theirs.TestMatmul):
    matmul = staticmethod(product)
    types = ("?", "e", "f", ml_dtypes.bfloat16)  # NumPy's tests of values skip the first, booleans

    @pytest.fixture(autouse=True)
    def _in_place_of_numpys(self, monkeypatch, request):
        """np.matmul in NumPy's tests is product, and float is float32; tests that are left out must fail."""
        numpy = ModuleType("numpy")
        vars(numpy).update(vars(np), matmul=product)
        monkeypatch.setattr(theirs, "np", numpy)
        monkeypatch.setattr(theirs, "float", np.float32, raising=False)
        if request.node.name in LEFT_OUT:
            error, reason = LEFT_OUT[request.node.name]
            request.applymarker(pytest.mark.xfail(raises=error, reason=reason, strict=True))

    def test_what_is_left_out_is_there(self, request):
        assert set(LEFT_OUT) <= {test.name for test in request.node.parent.collect()}
