"""Parameters of kernels that take tensor maps, laid out in memory as the driver takes them.

cuda.core passes scalars and pointers, and a tensor map only as an object of its own that takes long to make.
"""

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

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

from tilewright.engines.driver import check
from tilewright.engines.tensor_maps import MAP_BYTES, TensorLayout, map_memory
from tilewright.problem import Problem

_DATA_TYPES = {
    "float32": CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    "float16": CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
    "bfloat16": CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
}

_SWIZZLES = {
    0: CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
    32: CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_32B,
    64: CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_64B,
    128: CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
}


class LaunchArguments:
    """A kernel's parameters. They never change, so several threads may launch with them at the same time."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values
        self._pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        self.address = ctypes.addressof(self._pointers)
        """Of an array of pointers to the values."""


def with_maps(
    problem: Problem, layouts: tuple[TensorLayout, TensorLayout] | None, c: int, workspace: Sequence[int]
) -> LaunchArguments:
    """The parameters of a kernel that takes A and B as tensor maps.

    Args:
        problem: sizes, scalars and C's leading dimension.
        layouts: what the maps say; None for blank ones.
        c: address of C.
        workspace: addresses that the kernel takes besides.

    Raises:
        LaunchError: the driver refuses a map.
    """
    maps = [map_memory(), map_memory()]
    for memory, layout in zip(maps, layouts or (), strict=False):
        memory[:] = encode(layout)
    return LaunchArguments(
        [
            ctypes.c_int(problem.m),
            ctypes.c_int(problem.n),
            ctypes.c_int(problem.k),
            ctypes.c_float(problem.alpha),
            *maps,
            ctypes.c_float(problem.beta),
            ctypes.c_void_p(c),
            ctypes.c_int(problem.ldc),
            *map(ctypes.c_void_p, workspace),
        ]
    )


@lru_cache(maxsize=1024)
def encode(layout: TensorLayout) -> bytes:
    """A tensor map as the GPU takes it.

    Raises:
        LaunchError: the driver refuses it.
    """
    # The driver wants a stride that is a multiple of 16 bytes though one matrix needs none.
    matrix_stride = layout.matrix_stride if layout.matrices > 1 else layout.row_stride
    made = check(
        cuTensorMapEncodeTiled(
            _DATA_TYPES[layout.dtype],
            3,
            layout.pointer,
            [cuuint64_t(layout.cols), cuuint64_t(layout.rows), cuuint64_t(layout.matrices)],
            [cuuint64_t(layout.row_stride), cuuint64_t(matrix_stride)],
            [cuuint32_t(layout.box.cols), cuuint32_t(layout.box.rows), cuuint32_t(1)],
            [cuuint32_t(1)] * 3,
            CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            _SWIZZLES[layout.box.swizzle],
            CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )
    return ctypes.string_at(int(made.getPtr()), MAP_BYTES)
