"""Calls of the compiled launcher with arrays of CuPy, which have attributes in place of an exchange API."""

import struct
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from launcher_products import factors

from tilewright.runtime.plan import Needs


@pytest.fixture
def cupy(monkeypatch):
    """The part of CuPy that is used; its arrays are nowhere. Its current stream is 0x50 on GPU 0."""
    module = ModuleType("cupy")

    class ndarray:  # noqa: N801 - CuPy's name
        def __init__(self, shape, dtype="float32", at=0x90000000, strides=None, device=0):
            self.shape, self.dtype = shape, np.dtype(dtype)
            self.strides = strides or np.empty(shape, dtype).strides
            self.data = SimpleNamespace(ptr=at, device_id=device)

    module.ndarray = ndarray
    module.cuda = SimpleNamespace(get_current_stream=lambda device: SimpleNamespace(ptr=0x50 + device))
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


@pytest.fixture
def operands(cupy):
    return cupy.ndarray((4, 3), at=0x10000000), cupy.ndarray((3, 5), at=0x20000000)


def remember(product, cupy, *operands, **named):
    return product.remember(*operands, **{"new": (cupy.ndarray, ((4, 5), "float32"), {})} | named)


def test_a_call_launches_on_cupys_stream_and_makes_its_array(driver, product, cupy, operands):
    assert product.misses(*operands)
    assert remember(product, cupy, *operands, needs=Needs(100, 3, 1000))
    result = product(*operands, alpha=2)
    assert (type(result), result.shape, result.data.ptr) == (cupy.ndarray, (4, 5), 0x90000000)
    (launch,) = driver.launches
    assert launch.stream == 0x50
    assert launch.parameters == struct.pack("5Q2f", 0x10000000, 0x20000020, 0, 0x90000000, 0, 2.0, 0.0)


def test_every_operand_has_its_shape_and_strides(driver, product, cupy, operands):
    c, out = (cupy.ndarray((4, 5), at=at) for at in (0x30000000, 0x40000000))
    bias = cupy.ndarray((5,), at=0x50000000)
    remember(product, cupy, *operands, c, out, bias, scaled=True, new=None)
    assert product(*operands, c, out, bias, beta=1) is out
    addresses = struct.unpack_from("5Q", driver.launches[0].parameters)
    assert addresses == (0x10000000, 0x20000020, 0x30000000, 0x40000000, 0x50000000)
    assert product.misses(*operands, c, out, cupy.ndarray((1, 5), at=0x50000000), beta=1)


OTHERS = {
    "shape": {"shape": (6, 3)},
    "Fortran order": {"shape": (4, 3), "strides": (4, 16)},
    "gaps": {"shape": (4, 3), "strides": (16, 4)},
    "halves": {"shape": (4, 3), "dtype": "float16"},
    "alignment": {"shape": (4, 3), "at": 0x10000004},
    "device": {"shape": (4, 3), "device": 1},
    "element type": {"shape": (4, 3), "dtype": "float64"},
    "strides that are no whole elements": {"shape": (4, 3), "strides": (14, 4)},
    "dimensions": {"shape": (1,) * 9},
    "a shape that is no tuple": {"shape": 4, "strides": (4,)},
}


@pytest.mark.parametrize("kind", OTHERS.values(), ids=OTHERS)
def test_other_arrays_have_other_plans_or_none(product, cupy, operands, kind):
    remember(product, cupy, *operands)
    assert product.misses(cupy.ndarray(**{"at": 0x10000000} | kind), operands[1])


def test_arrays_whose_attributes_differ_are_left_to_python(product, cupy, operands):
    remember(product, cupy, *operands)
    del operands[0].data
    assert product.misses(*operands)


def test_other_types_and_f_order_have_plans_too(driver, product, cupy):
    results = {
        "float16": "float16",
        "bfloat16": "bfloat16",
        "complex64": "complex64",
        "int8": "int32",
        "uint8": "int32",
    }
    for dtype, result in results.items():
        item = np.dtype(dtype).itemsize
        a = cupy.ndarray((4, 3), dtype, at=0x10000000, strides=(item, 4 * item))
        b = cupy.ndarray((3, 5), dtype, at=0x20000000)
        assert remember(product, cupy, a, b, new=(cupy.ndarray, ((4, 5), result), {}))
        assert product(a, b).dtype == result
    assert driver.launch_count == 5


def test_subclasses_and_other_libraries_are_left_to_python(product, cupy, operands):
    class Named(cupy.ndarray):
        pass

    remember(product, cupy, *operands)
    assert product.misses(Named((4, 3), at=0x10000000), operands[1])
    assert product.misses(factors()[0], operands[1])


def test_a_result_on_another_gpu_is_left_to_python(product, cupy, operands):
    remember(product, cupy, *operands, new=(cupy.ndarray, ((4, 5), "float32", 0x90000000, None, 1), {}))
    assert product.misses(*operands)
