"""What the GPU's tensor maps are made of, as a launch finds it among a step's parameters."""

import struct
from functools import lru_cache

from cuda.bindings.driver import CUtensorMapDataType, CUtensorMapL2promotion, CUtensorMapSwizzle

from tilewright.core.dtypes import ELEMENT_TYPES
from tilewright.engines.tensor_maps import TensorLayout
from tilewright.kernels.spec import TensorBox

MAP_WORDS = struct.Struct("=9Q9I")
"""Extents along 5 dimensions, bytes from one element to the next along all but the first; a box's extents; element
type, swizzle, promotion and dimensions. As `MapWords` in steps.h."""

_DATA_TYPES = {
    name: getattr(CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{map_type}")
    for name, map_type in (*((one.name, one.map_type) for one in ELEMENT_TYPES.values()), ("tf32", "TFLOAT32"))
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
    extents, strides, box = layout.in_all_dimensions()
    return MAP_WORDS.pack(*extents, *strides, *box, *_of_box(layout.box, "tf32" if layout.rounds else layout.dtype))


@lru_cache
def _of_box(box: TensorBox, dtype: str) -> tuple[int, ...]:
    return int(_DATA_TYPES[dtype]), int(_SWIZZLES[box.swizzle]), _PROMOTION, box.dimensions
