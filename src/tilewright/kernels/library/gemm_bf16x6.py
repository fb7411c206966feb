"""gemm_bf16x6: float32 factors as three bfloat16 terms each: six products on Hopper's tensor cores."""

from tilewright.kernels.library import gemm_sm90
from tilewright.kernels.spec import Split

KERNEL = gemm_sm90.of_terms(
    "gemm_bf16x6",
    "float32 factors as three bfloat16 terms each: six products on Hopper's tensor cores",
    split=Split("bfloat16", 3),
    bn=128,
    stages=2,
    promote=16,
)
