"""gemm_bf16x3: gemm_bf16x6 with two terms, which hold 16 bits: half the products, and 2**-17 of each is left."""

from tilewright.kernels.library import gemm_sm90
from tilewright.kernels.spec import Split

KERNEL = gemm_sm90.of_type(
    "gemm_bf16x3",
    "float32 factors as two bfloat16 terms each: three products on Hopper's tensor cores",
    split=Split("bfloat16", 2),
    bn=128,
    stages=3,
)
