"""gemm_bf16x6: float32 factors as three bfloat16 terms each: six products on Hopper's tensor cores.

Source: "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations", Henry, Tang and
Heinecke, 2019, for the terms; "Recovering single precision accuracy from Tensor Cores while surpassing the FP32
theoretical peak performance", Ootomo and Yokota, 2022, for sums that threads take over.
"""

from tilewright.kernels.library import gemm_sm90
from tilewright.kernels.spec import Split

SPLIT = Split("bfloat16", 3)
KERNEL = gemm_sm90.of_type(
    "gemm_bf16x6",
    "float32 factors as three bfloat16 terms each: six products on Hopper's tensor cores",
    split=SPLIT,
    bn=128,
    stages=2,
)
