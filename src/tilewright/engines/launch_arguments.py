"""Tensor maps as the GPU takes them."""

import ctypes
from functools import lru_cache

from cuda.bindings.driver import (
    CUtensorMapDataType,
    CUtensorMapFloatOOBfill,
    CUtensorMapInterleave,
    CUtensorMapL2promotion,
    CUtensorMapSwizzle,
    cuTensorMapEncodeTiled,
    cuuint32_t,
    cuuint64_t,
)

from tilewright.engines.arguments import MAP_BYTES
from tilewright.engines.driver import check
from tilewright.engines.tensor_maps import TensorLayout
from tilewright.kernels.spec import TensorBox

_DATA_TYPES = {
    "float32": CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    "float16": CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
    "bfloat16": CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    "tf32": CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
}

_SWIZZLES = {
    0: CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
    32: CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_32B,
    64: CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_64B,
    128: CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
}

_ONES = [cuuint32_t(1)] * 3
_PLAIN = CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE
_PROMOTION = CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B
_FILL = CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE


@lru_cache
def _extents(box: TensorBox) -> list[cuuint32_t]:
    return [cuuint32_t(box.cols), cuuint32_t(box.rows), cuuint32_t(1)]


def encode(layout: TensorLayout) -> bytes:
    """A tensor map as the GPU takes it.

    Raises:
        LaunchError: the driver refuses it.
    """
    # The driver wants a stride that is a multiple of 16 bytes though one matrix needs none.
    matrix_stride = layout.matrix_stride if layout.matrices > 1 else layout.row_stride
    made = check(
        cuTensorMapEncodeTiled(
            _DATA_TYPES["tf32" if layout.rounds else layout.dtype],
            3,
            layout.pointer,
            [cuuint64_t(layout.cols), cuuint64_t(layout.rows), cuuint64_t(layout.matrices)],
            [cuuint64_t(layout.row_stride), cuuint64_t(matrix_stride)],
            _extents(layout.box),
            _ONES,
            _PLAIN,
            _SWIZZLES[layout.box.swizzle],
            _PROMOTION,
            _FILL,
        )
    )
    return ctypes.string_at(int(made.getPtr()), MAP_BYTES)
