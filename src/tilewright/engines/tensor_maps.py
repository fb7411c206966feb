"""What a tensor map describes, for both engines: matrices in memory, and the box of one that is moved at a time."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tilewright.kernels.spec import BOX_SIDE, Config, Kernel, TensorBox
from tilewright.kernels.takes import VECTOR_BYTES
from tilewright.problem import ITEM_BYTES, Layout, Problem

_ADDRESS = 1 << 32
"""What a template holds for an address: any multiple of 16 but 0."""


class TensorLayout(NamedTuple):
    """All that a tensor map says."""

    pointer: int
    """Address of element (0, 0) of the first matrix."""
    rows: int
    cols: int
    row_stride: int
    """Bytes from one row to the next."""
    dtype: str
    box: TensorBox
    matrices: int = 1
    """Of the batch."""
    matrix_stride: int = 0
    """Bytes from one matrix to the next, a multiple of `VECTOR_BYTES`; of no use where there is one."""
    rounds: bool = False
    """Whether loads round elements of float32 to TF32: to nearest, ties to even. NaN and infinity stay as they are."""

    @property
    def item_bytes(self) -> int:
        """Size of an element."""
        return ITEM_BYTES.get(self.dtype) or np.dtype(self.dtype).itemsize


def of_lines(pointer: int, count: int, length: int, stride: int, dtype: str, box: TensorBox) -> TensorLayout:
    """What a map says of one matrix.

    Args:
        pointer: its address.
        count, length, stride: of its lines, how many there are; of each, its elements, and bytes to the next one.
        dtype, box: of the map. Panels divide a line.
    """
    if not box.panel:
        return TensorLayout(pointer, count, length, stride, dtype, box)
    found = TensorLayout(pointer, count, box.panel, stride, dtype, box, length // box.panel)
    return found._replace(matrix_stride=box.panel * found.item_bytes)


def layouts(kernel: Kernel, config: Config, problem: Problem, aligned: bool) -> dict[str, TensorLayout]:
    """What the maps that the kernel takes say, of A, B and D, but for their addresses.

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
        m, n = problem.m, problem.n
        sides = m if m < BOX_SIDE else BOX_SIDE, n if n < BOX_SIDE else BOX_SIDE
        box_a, box_b = _boxes(kernel, config, problem.layout, sides, ITEM_BYTES[problem.dtype])
        dtype, terms, rounds = problem.dtype, kernel.terms, kernel.precision == "tf32"
        if box_a is not None:
            found["A"] = _layout(problem, dtype, problem.a, problem.m, problem.k, box_a, terms, rounds)
        if box_b is not None:
            found["B"] = _layout(problem, problem.dtype_b, problem.b, problem.k, problem.n, box_b, terms, rounds)
    if kernel.stored_box is not None and aligned:
        item_bytes = ITEM_BYTES[problem.result]
        box = kernel.stored_box(config, item_bytes)
        if box is not None:
            box.check(item_bytes)
            found["D"] = _layout(problem, problem.result, problem.d, problem.m, problem.n, box)
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
    problem: Problem,
    dtype: str,
    layout: Layout,
    rows: int,
    cols: int,
    box: TensorBox,
    terms: int = 1,
    rounds: bool = False,
) -> TensorLayout:
    item = ITEM_BYTES[dtype]
    count, length = layout.lines(rows, cols)
    stride = layout.ld * item
    if count == 1:  # it is of no use then, and need not be what a map takes
        stride = -(-stride // VECTOR_BYTES) * VECTOR_BYTES
    matrices, matrix_stride = (problem.batch, layout.batch_stride * item) if layout.batch_stride else (1, 0)
    if box.panel:
        return of_lines(_ADDRESS, count, length, stride, dtype, box)
    if terms > 1:  # the lines of terms are right behind each other, those of all matrices
        matrices, matrix_stride = terms * matrices, count * stride
    return TensorLayout(_ADDRESS, count, length, stride, dtype, box, matrices, matrix_stride, rounds)
