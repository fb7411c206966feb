"""The kernel `relayout`, run by the emulator: copies of matrices, transposed or not, split into parts or not."""

import ctypes
import itertools

import ml_dtypes  # noqa: F401 - teaches NumPy the name bfloat16
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launching import launch_source
from tilewright.kernels.library import relayout
from tilewright.runtime.relayouts import together

KERNEL = relayout.KERNEL
UNTOUCHED = 7
TYPES = {"float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16", "float8_e4m3fn": "float8_e4m3"}


class Copy(ctypes.Structure):
    """struct Copy of relayout.cu."""

    _fields_ = (
        ("source", ctypes.c_void_p),
        ("target", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("range", ctypes.c_void_p),
        ("non_finite", ctypes.c_void_p),
        ("matrix_stride", ctypes.c_longlong),
        ("lines", ctypes.c_int),
        ("length", ctypes.c_int),
        ("matrices", ctypes.c_int),
        ("across", ctypes.c_int),
        ("ld_from", ctypes.c_int),
        ("ld", ctypes.c_int),
        ("along_k", ctypes.c_int),
    )


def aligned(elements, dtype):
    memory = np.full(elements + 64, UNTOUCHED, dtype)
    return memory[-memory.ctypes.data % 64 // memory.itemsize :][:elements]


def relaid(views, config, result=None):
    """Copies of one view or two, each of matrices, lines and elements; parts of another type, if one is given, are one
    more dimension, the second."""
    targets, copies = [], []
    for view in views:
        matrices, lines, length = view.shape
        ld = -(-length // 16) * 16
        parts = (config.SPLIT_PARTS,) if result else ()
        target = aligned(matrices * config.SPLIT_PARTS * lines * ld, result or view.dtype).reshape(
            matrices, *parts, lines, ld
        )
        matrix_stride, line_stride, element_stride = (stride // view.itemsize for stride in view.strides)
        across = element_stride != 1
        numbers = matrix_stride, lines, length, matrices, across, element_stride if across else line_stride, ld
        copies.append(Copy(view.ctypes.data, target.ctypes.data, None, None, None, *numbers))
        targets.append(target)
    if len(copies) == 1:
        copies.append(Copy())
    blocks = sum(relayout.squares(config, *view.shape[1:], view.shape[0]) for view in views)
    factors = views[0].dtype.name
    defines = {**config, "FACTOR": TYPES[factors], "RESULT": TYPES[result or factors]}
    launch_source(KERNEL.source, "relayout", (blocks, 1, 1), KERNEL.block(config), copies, defines=defines)
    for view, target in zip(views, targets, strict=True):
        length, unit = view.shape[2], together(target.dtype.name)
        written = -(-length // unit) * unit
        assert (target[..., length:written] == 0).all(), "a line's end is not filled up with zeros"
        assert (target[..., written:] == UNTOUCHED).all(), "what lies between the lines has changed"
    return [target[..., : view.shape[2]] for view, target in zip(views, targets, strict=True)]


SIZES = st.sampled_from([1, 2, 3, 4, 7, 31, 32, 33, 64, 65, 100, 128, 150])


@st.composite
def views(draw, dtype):
    """A batch of matrices with gaps between lines and matrices, lines along either axis; or one matrix for all."""
    matrices, rows, cols = draw(st.tuples(st.sampled_from([1, 2, 3]), SIZES, SIZES))
    ld = cols + draw(st.sampled_from([0, 1, 4, -cols % 16]))
    stride = draw(st.sampled_from([0, rows * ld, rows * ld + 1, rows * ld + 4, rows * ld + -rows * ld % 16]))
    offset = draw(st.sampled_from([0, 0, 1, 4]))
    memory = aligned(offset + (matrices - 1) * stride + rows * ld, np.dtype(dtype))
    numbers = np.arange(memory.size) % 251
    memory[:] = numbers if memory.itemsize > 1 else numbers.astype(np.uint8).view(memory.dtype)
    strides = [memory.itemsize * stride for stride in (stride, ld, 1)]
    view = np.lib.stride_tricks.as_strided(memory[offset:], (matrices, rows, cols), strides)
    # An axis of one element could be read either way.
    return view.swapaxes(1, 2) if rows > 1 and cols > 1 and draw(st.booleans()) else view


BYTES = [("float8_e4m3fn", {"SIDE": 128, "THREADS": threads}) for threads in (256, 128)]


@pytest.mark.first(3)
@pytest.mark.parametrize(
    ("dtype", "overrides"),
    [*itertools.product(("float32", "bfloat16"), ({}, {"SIDE": 64, "THREADS": 128})), *BYTES],
    ids=str,
)
@given(data=st.data())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_copies_are_as_the_views(dtype, overrides, data):
    drawn = data.draw(st.lists(views(dtype), min_size=1, max_size=2))
    for copy, view in zip(relaid(drawn, KERNEL.config(overrides)), drawn, strict=True):
        bits = f"u{view.itemsize}"
        np.testing.assert_array_equal(np.ascontiguousarray(copy).view(bits), np.ascontiguousarray(view).view(bits))


def test_bits_stay_as_they_are():
    """NaN of any payload, and numbers below the smallest normal one."""
    bits = np.array([0x7F800001, 0xFFC12345, 0x00000001, 0x80000000], np.uint32).view(np.float32)
    view = np.tile(bits, (1, 33, 9)).swapaxes(1, 2)
    (copy,) = relaid([view], KERNEL.config())
    np.testing.assert_array_equal(copy.view(np.uint32), np.ascontiguousarray(view).view(np.uint32))


@pytest.mark.first(1)
@pytest.mark.parametrize(("result", "parts", "bits"), [("bfloat16", 3, 24), ("bfloat16", 2, 16), ("float16", 2, 22)])
@given(data=st.data())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_parts_are_what_is_left_of_an_element_rounded(result, parts, bits, data):
    (view,) = data.draw(st.lists(views("float32"), min_size=1, max_size=1))
    seed = data.draw(st.integers(0, 100))
    view[...] = np.random.default_rng(seed).uniform(-4, 4, view.shape)
    (copy,) = relaid([view], KERNEL.config({"SPLIT_PARTS": parts}), result)
    left = view.astype(np.float64)
    for part in copy.swapaxes(0, 1):
        np.testing.assert_array_equal(part, left.astype(np.float32).astype(result))
        left = left - part.astype(np.float64)
    assert (abs(left) <= 2.0 ** -(bits - 1) * abs(view.astype(np.float64)) + 2.0**-25).all()
    if bits == 24:
        assert (left == 0).all(), "three parts have all bits"
