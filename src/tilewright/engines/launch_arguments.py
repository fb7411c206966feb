"""What the GPU's tensor maps are made of, as a launch finds it among a step's parameters."""

import struct
from functools import lru_cache

from cuda.bindings.driver import CUtensorMapDataType, CUtensorMapL2promotion, CUtensorMapSwizzle

from tilewright.engines.tensor_maps import TensorLayout
from tilewright.kernels.spec import TensorBox
from tilewright.problem import FLOAT8

MAP_WORDS = struct.Struct("=5Q7I")
"""Extents of a row, of a matrix and of the batch; bytes from row to row and from matrix to matrix; a box's columns,
rows and matrices; element type, swizzle and promotion. As `MapWords` in steps.h."""

_DATA_TYPES = {
    "float32": CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    "float16": CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
    "bfloat16": CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    **dict.fromkeys(FLOAT8, CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT8),
    "tf32": CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
}

_SWIZZLES = {
    0: CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
    32: CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_32B,
    64: CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_64B,
    128: CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
}

_PROMOTION = int(CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B)
"""How much the L2 cache fetches at least. With 256 bytes, products whose rows begin within its lines (2056 in bfloat16)
take longer, and no others are faster: "maps of 128 bytes" in docs/performance.md."""


def describe(layout: TensorLayout) -> bytes:
    """What a tensor map says but for its address: the driver makes the map where a launch knows that."""
    _, rows, cols, row_stride, dtype, box, matrices, matrix_stride, rounds = layout
    # The driver wants a stride that is a multiple of 16 bytes though one matrix needs none.
    far = matrix_stride if matrices > 1 else row_stride
    return MAP_WORDS.pack(cols, rows, matrices, row_stride, far, *_of_box(box, "tf32" if rounds else dtype))


@lru_cache
def _of_box(box: TensorBox, dtype: str) -> tuple[int, ...]:
    return (
        box.line,
        box.rows,
        box.panels,
        int(_DATA_TYPES[dtype]),
        int(_SWIZZLES[box.swizzle]),
        _PROMOTION,
        box.dimensions,
    )
