"""thin_bf16x6: float32 products of few rows as those of three bfloat16 terms."""

from tilewright.kernels.library import gemm_bf16x6, thin_terms

KERNEL = thin_terms.of_type(
    "thin_bf16x6",
    "few rows of float32: the large factor is read once and split in registers, six products on tensor cores",
    gemm_bf16x6.SPLIT,
)
