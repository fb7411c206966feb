"""Descriptions of tensor maps, for both engines: matrices in memory, and the box of one that is moved at a time.

Maps of this package's kernels have three dimensions, the third being the batch; those of user kernels have one to five.
A plan's template has all but the address. The driver makes a map of it at the first launch, and the launcher then
replaces its address (`cuTensorMapReplaceAddress`).
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.hardware import round_up
from tilewright.core.problem import Layout, Problem
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import VECTOR_BYTES
from tilewright.kernels.tensor_box import BOX_SIDE, DIMENSIONS, TensorBox

_ADDRESS = 1 << 32
"""Address in a template of a map: any multiple of 16 but 0."""


class TensorLayout(NamedTuple):
    """All that a tensor map says."""

    pointer: int
    """Address of the first element."""
    extents: tuple[int, ...]
    """Elements along each dimension of the box, from those that are next to each other on: columns, rows, matrices."""
    strides: tuple[int, ...]
    """Bytes from one element to the next along all dimensions but the first, multiples of `VECTOR_BYTES`."""
    dtype: str
    box: TensorBox
    rounds: bool = False
    """Whether loads round elements of float32 to TF32: to nearest, ties to even. NaN and infinity stay as they are."""

    @property
    def item_bytes(self) -> int:
        """Size of an element."""
        return ITEM_BYTES.get(self.dtype) or np.dtype(self.dtype).itemsize

    def in_all_dimensions(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Extents, strides and the box's extents along as many dimensions as a map may have: 1 along further ones."""
        box, ones, further = _in_all_dimensions(self.box)
        return self.extents + ones, self.strides + (self.strides or (VECTOR_BYTES,))[-1:] * further, box


@lru_cache
def _in_all_dimensions(box: TensorBox) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Extents of a box in all dimensions, a 1 for each dimension that it has not, and the number of these."""
    further = DIMENSIONS - box.dimensions
    ones = (1,) * further
    return box.extents + ones, ones, further


def of_array(pointer: int, shape: tuple[int, ...], stride: int, dtype: str, box: TensorBox) -> TensorLayout:
    """Layout that a tensor map describes for an array.

    Args:
        pointer: its address.
        shape: elements along each dimension; those of the last one, a line, are next to each other, and lines lie one
            after the other.
        stride: bytes from one line to the next.
        dtype, box: of the map. Panels divide a line. Of a box with fewer dimensions the array's first ones are one; one
            with more has first ones with one element.
    """
    item, count = TensorLayout(0, (), (), dtype, box).item_bytes, box.dimensions - (box.panel != 0)
    padded = (1,) * (count - len(shape)) + shape
    first = len(padded) - count + 1
    *outer, length = math.prod(padded[:first]), *padded[first:]
    extents = (length, *reversed(outer))
    strides = tuple(stride * math.prod(extents[1:i]) for i in range(1, count))
    if box.panel:
        extents = (box.panel, extents[1], length // box.panel, *extents[2:])
        strides = (strides[0], box.panel * item, *strides[1:])
    return TensorLayout(pointer, extents, strides, dtype, box)


def layouts(kernel: Kernel, config: Config, problem: Problem, aligned: bool) -> dict[str, TensorLayout]:
    """Layouts of the maps of A, B and D that the kernel supports, without their addresses.

    A and B have none where they have no elements, which no map can say, and D has none where its rows are not known to
    be aligned.

    Args:
        kernel, config, problem: what is launched.
        aligned: as in its variant.

    Raises:
        ConfigError: the kernel asks for a box that a GPU does not take.
    """
    found: dict[str, TensorLayout] = {}
    if kernel.tensor_maps is not None and problem.k:
        m, n, k, batch = problem.m, problem.n, problem.k, problem.batch
        sides = m if m < BOX_SIDE else BOX_SIDE, n if n < BOX_SIDE else BOX_SIDE
        box_a, box_b = _boxes(kernel, config, problem.layout, sides, ITEM_BYTES[problem.dtype])
        dtype, parts, rounds = problem.dtype, kernel.parts, kernel.maps_round
        if box_a is not None:
            found["A"] = _layout(batch, dtype, problem.a, m, k, box_a, parts, rounds)
        if box_b is not None:
            found["B"] = _layout(batch, problem.dtype_b, problem.b, k, n, box_b, parts, rounds)
    if kernel.stored_box is not None and aligned:
        item_bytes = ITEM_BYTES[problem.result]
        box = kernel.stored_box(config, item_bytes)
        if box is not None:
            box.check(item_bytes)
            found["D"] = _layout(problem.batch, problem.result, problem.d, problem.m, problem.n, box)
    return found


@lru_cache
def _boxes(
    kernel: Kernel, config: Config, layout: str, sides: tuple[int, int], item_bytes: int
) -> tuple[TensorBox | None, TensorBox | None]:
    """Boxes of A and B, checked."""
    assert kernel.tensor_maps is not None
    boxes = kernel.tensor_maps(config, layout, sides)
    for box in boxes:
        if box is not None:
            box.check(item_bytes)
    return boxes


def _layout(
    batch: int, dtype: str, layout: Layout, rows: int, cols: int, box: TensorBox, parts: int = 1, rounds: bool = False
) -> TensorLayout:
    item = ITEM_BYTES[dtype]
    count, length = layout.lines(rows, cols)
    stride = layout.ld * item
    if count == 1:  # it is of no use then, and need not be what a map takes
        stride = round_up(stride, VECTOR_BYTES)
    if box.panel or box.outer != (1,):
        return of_array(_ADDRESS, (count, length), stride, dtype, box)._replace(rounds=rounds)
    matrices, matrix_stride = (batch, layout.batch_stride * item) if layout.batch_stride else (1, stride)
    if parts > 1:  # the lines of parts are right behind each other, those of all matrices
        matrices, matrix_stride = parts * matrices, count * stride
    if matrices == 1:  # of no use either
        matrix_stride = stride
    return TensorLayout(_ADDRESS, (length, count, matrices), (stride, matrix_stride), dtype, box, rounds)
