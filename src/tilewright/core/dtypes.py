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
    """Number in the enum cudaDataType, as CUDA_R_32F."""
    mantissa: int
    """Bits of its mantissa, the leading one counted; of an integer those of its magnitude."""


ELEMENT_TYPES = {
    one.name: one
    for one in (
        ElementType("float32", 4, "float", "FLOAT32", 0, 24),
        ElementType("float16", 2, "__half", "FLOAT16", 2, 11),
        ElementType("bfloat16", 2, "__nv_bfloat16", "BFLOAT16", 14, 8),
        ElementType("float8_e4m3fn", 1, "float8_e4m3", "UINT8", 28, 4),
        ElementType("float8_e5m2", 1, "float8_e5m2", "UINT8", 29, 3),
        ElementType("int8", 1, "int8", "UINT8", 3, 7),
        ElementType("uint8", 1, "uint8", "UINT8", 8, 8),
        ElementType("int32", 4, "int", "INT32", 10, 31),
    )
}

DTYPES = tuple(ELEMENT_TYPES)

COMPLEX = "complex64"
"""Element type of pairs of float32. Kernels multiply it as float32: see `runtime/complex_factors.py`."""

ARRAYS = (*DTYPES, COMPLEX)
"""Element types of arrays that are multiplied."""

ITEM_BYTES = {one.name: one.bytes for one in ELEMENT_TYPES.values()} | {COMPLEX: 8}

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
"""Floating-point types of 8 bits, for A and B, each of which may have either. A result may have the first alone."""

INT8 = ("int8", "uint8")
"""Integer types of 8 bits, for A and B, each of which may have either; sums of their products are int32."""

SUMS_OF_INT8 = "int32"
"""The element type of results that are such sums."""

FACTORS = tuple(dtype for dtype in DTYPES if dtype != SUMS_OF_INT8)
"""Element types of A and B."""

RESULTS = ("float32", "float16", "bfloat16")
"""Element types of results, whatever the factors; some may have others too, see `results_of`."""

LARGEST_FLOAT8 = 448.0
"""The largest number of float8_e4m3fn, which has no infinity: results that are larger become it."""


def default_result(factors: str) -> str:
    """The element type of results where none is named: that of the factors, float32 of float8 factors, and of 8-bit
    integers int32, which holds their sums, as `torch._int_mm` has it."""
    return "float32" if factors in FLOAT8 else SUMS_OF_INT8 if factors in INT8 else factors


def results_of(factors: str) -> tuple[str, ...]:
    """The element types that results of factors of a type may have."""
    if factors in FLOAT8:
        return (*RESULTS, FLOAT8[0])
    return (SUMS_OF_INT8, *RESULTS) if factors in INT8 else RESULTS


def multiplied(a: str, b: str) -> bool:
    """Whether factors of these two element types are multiplied with each other."""
    return a == b or any(a in either and b in either for either in (FLOAT8, INT8))
