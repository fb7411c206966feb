"""The kernel `relayout`, run by the emulator: copies of matrices of any strides."""

import ctypes

import ml_dtypes  # noqa: F401 - teaches NumPy the name bfloat16
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.engines.emulator.program import launch_source
from tilewright.kernels.library import relayout

KERNEL = relayout.KERNEL
UNTOUCHED = 7
TYPES = {"float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"}


class Copy(ctypes.Structure):
    """struct Copy of relayout.cu."""

    _fields_ = (
        ("source", ctypes.c_void_p),
        ("target", ctypes.c_void_p),
        ("line_stride", ctypes.c_longlong),
        ("element_stride", ctypes.c_longlong),
        ("matrix_stride", ctypes.c_longlong),
        ("lines", ctypes.c_int),
        ("length", ctypes.c_int),
        ("matrices", ctypes.c_int),
        ("ld", ctypes.c_int),
    )


def aligned(elements, dtype):
    memory = np.full(elements + 64, UNTOUCHED, dtype)
    return memory[-memory.ctypes.data % 64 // memory.itemsize :][:elements]


def relaid(views, config):
    """Copies of one view or two, each of matrices, lines and elements."""
    targets, copies = [], []
    for view in views:
        matrices, lines, length = view.shape
        ld = -(-length // 8) * 8
        target = aligned(matrices * lines * ld, view.dtype).reshape(matrices, lines, ld)
        matrix_stride, *strides = (stride // view.itemsize for stride in view.strides)
        copies.append(Copy(view.ctypes.data, target.ctypes.data, *strides, matrix_stride, lines, length, matrices, ld))
        targets.append(target)
    if len(copies) == 1:
        copies.append(Copy())
    blocks = sum(relayout.squares(config, *view.shape[1:], view.shape[0]) for view in views)
    defines = {**config, "FACTOR": TYPES[views[0].dtype.name]}
    launch_source(KERNEL.source, "relayout", (blocks, 1, 1), KERNEL.block(config), copies, defines=defines)
    for view, target in zip(views, targets, strict=True):
        assert (target[..., view.shape[2] :] == UNTOUCHED).all(), "what lies between the lines has changed"
    return [target[..., : view.shape[2]] for view, target in zip(views, targets, strict=True)]


SIZES = st.sampled_from([1, 2, 3, 4, 7, 31, 32, 33, 64, 65, 100])


@st.composite
def views(draw, dtype):
    """A batch of matrices with axes in any order, steps, some of them backwards, and gaps; or one for all."""
    shape = draw(st.tuples(st.sampled_from([1, 2, 3]), SIZES, SIZES))
    order = draw(st.permutations(range(3)))
    steps = draw(st.tuples(*[st.sampled_from([1, 1, 1, 2, -1, 3])] * 3))
    gap, offset = draw(st.sampled_from([0, 1, 4])), draw(st.sampled_from([0, 0, 1, 4]))
    inner = [shape[axis] * abs(steps[axis]) for axis in order]
    inner[2] += gap
    memory = aligned(offset + int(np.prod(inner)), np.dtype(dtype))
    memory[:] = np.arange(memory.size) % 251
    whole = memory[offset:].reshape(inner)
    whole = whole[..., : inner[2] - gap].transpose(np.argsort(order))
    view = whole[tuple(slice(None, None, step) for step in steps)]
    return np.broadcast_to(view[:1], view.shape) if draw(st.booleans()) else view


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("overrides", [{}, {"SIDE": 64, "THREADS": 128}], ids=str)
@given(data=st.data())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_copies_are_as_the_views(dtype, overrides, data):
    drawn = data.draw(st.lists(views(dtype), min_size=1, max_size=2))
    for copy, view in zip(relaid(drawn, KERNEL.config(overrides)), drawn, strict=True):
        np.testing.assert_array_equal(copy, view)


def test_bits_stay_as_they_are():
    """NaN of any payload, and numbers below the smallest normal one."""
    bits = np.array([0x7F800001, 0xFFC12345, 0x00000001, 0x80000000], np.uint32).view(np.float32)
    view = np.tile(bits, (1, 33, 9)).swapaxes(1, 2)
    (copy,) = relaid([view], KERNEL.config())
    np.testing.assert_array_equal(copy.view(np.uint32), np.ascontiguousarray(view).view(np.uint32))
