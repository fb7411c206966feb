"""What a tensor map describes, for both engines: matrices in memory, and the box of one that a load moves."""

import ctypes
from typing import Any, NamedTuple

from tilewright.engines.base import Matrix
from tilewright.kernels.spec import VECTOR_BYTES, Config, Kernel, TensorBox
from tilewright.problem import ITEM_BYTES, Problem

MAP_BYTES = 128
"""Size of a tensor map, as CUtensorMap."""

_ALIGNMENT = 64


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

    @property
    def item_bytes(self) -> int:
        """Size of an element."""
        return ITEM_BYTES[self.dtype]


def layouts(
    kernel: Kernel, config: Config, problem: Problem, a: Matrix, b: Matrix
) -> tuple[TensorLayout, TensorLayout] | None:
    """What the maps of A and B say; None where these have no elements, which no map can say.

    Raises:
        ConfigError: the kernel asks for a box that a GPU does not take.
        LaunchError: rows of A or B are not aligned as tensor maps need.
    """
    assert kernel.tensor_maps is not None
    kernel.check(problem, (a.pointer, b.pointer, 0))
    if problem.k == 0:
        return None
    box_a, box_b = kernel.tensor_maps(config)
    return (
        _layout(a, problem.dtype, box_a),
        _layout(b, problem.dtype, box_b),
    )


def map_memory() -> Any:
    """A blank tensor map: a ctypes array of `MAP_BYTES` bytes, on the boundary that a map must lie on."""
    memory = (ctypes.c_ubyte * (MAP_BYTES + _ALIGNMENT))()
    return (ctypes.c_ubyte * MAP_BYTES).from_buffer(memory, -ctypes.addressof(memory) % _ALIGNMENT)


def _layout(matrix: Matrix, dtype: str, box: TensorBox) -> TensorLayout:
    box.check(ITEM_BYTES[dtype])
    stride = matrix.ld * ITEM_BYTES[dtype]
    if matrix.rows == 1:  # it is of no use then, and need not be what a map takes
        stride = -(-stride // VECTOR_BYTES) * VECTOR_BYTES
    return TensorLayout(matrix.pointer, matrix.rows, matrix.cols, stride, dtype, box)
