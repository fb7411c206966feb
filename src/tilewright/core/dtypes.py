"""Element types of matrices. One is added here, and in the kernels that multiply it."""

from typing import NamedTuple


class ElementType(NamedTuple):
    """One element type of matrices: its names, its size, and what it is called elsewhere."""

    name: str
    """As NumPy, ml_dtypes and PyTorch call it."""
    bytes: int
    cpp: str
    """Its name in CUDA C++."""
    map_type: str
    """Type in a tensor map: the driver's CUtensorMapDataType, without `CU_TENSOR_MAP_DATA_TYPE_`."""
    cuda_type: int
    """Number in the enum cudaDataType: CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF, CUDA_R_8F_E4M3 or CUDA_R_8F_E5M2."""
    mantissa: int
    """Bits of its mantissa, the leading one counted."""


ELEMENT_TYPES = {
    one.name: one
    for one in (
        ElementType("float32", 4, "float", "FLOAT32", 0, 24),
        ElementType("float16", 2, "__half", "FLOAT16", 2, 11),
        ElementType("bfloat16", 2, "__nv_bfloat16", "BFLOAT16", 14, 8),
        ElementType("float8_e4m3fn", 1, "float8_e4m3", "UINT8", 28, 4),
        ElementType("float8_e5m2", 1, "float8_e5m2", "UINT8", 29, 3),
    )
}

DTYPES = tuple(ELEMENT_TYPES)

COMPLEX = "complex64"
"""Element type of pairs of float32. Kernels multiply it as float32: see `runtime/complex_factors.py`."""

ARRAYS = (*DTYPES, COMPLEX)
"""Element types of arrays that are multiplied."""

ITEM_BYTES = {one.name: one.bytes for one in ELEMENT_TYPES.values()} | {COMPLEX: 8}

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
"""Element types of 8 bits, for A and B, each of which may have either. A result may have the first alone."""

RESULTS = tuple(dtype for dtype in DTYPES if dtype not in FLOAT8)
"""Element types of results, whatever the factors; factors of `FLOAT8` may have results of float8_e4m3fn too."""

LARGEST_FLOAT8 = 448.0
"""The largest number of float8_e4m3fn, which has no infinity: results that are larger become it."""


def default_result(factors: str) -> str:
    """The element type of results where none is named: that of the factors, float32 of float8 factors."""
    return "float32" if factors in FLOAT8 else factors
