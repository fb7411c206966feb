"""gemm_fp16x3: float32 factors as two scaled float16 terms each: three products on Hopper's tensor cores.

Source: that of `gemm_bf16x6`'s sums, for the terms too.
"""

from tilewright.kernels.library import gemm_sm90
from tilewright.kernels.spec import Split

SPLIT = Split("float16", 2, scaled=True)
KERNEL = gemm_sm90.of_type(
    "gemm_fp16x3",
    "float32 factors as two scaled float16 terms each: three products on Hopper's tensor cores",
    split=SPLIT,
    bn=128,
    stages=3,
)
