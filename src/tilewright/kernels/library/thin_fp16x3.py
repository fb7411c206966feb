"""thin_fp16x3: float32 products of few rows as those of two scaled float16 terms.

Each 16 columns of B, and each 16 rows of A, have a scale of their own for each 32 of k.
"""

from tilewright.kernels.library import gemm_fp16x3, thin_terms

KERNEL = thin_terms.of_type(
    "thin_fp16x3",
    "few rows of float32: the large factor is read once, scaled and split in registers, three products on tensor cores",
    gemm_fp16x3.SPLIT,
)
