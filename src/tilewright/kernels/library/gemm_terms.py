"""gemm_bf16x6, gemm_bf16x3, gemm_fp16x3: gemm_sm90 for float32 factors that are split into terms of 16 bits.

Two terms of bfloat16 hold 16 bits: half the products of three, and 2**-17 of each is left.

Source: "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations", Henry, Tang and
Heinecke, 2019, for terms of bfloat16; "Recovering single precision accuracy from Tensor Cores while surpassing the FP32
theoretical peak performance", Ootomo and Yokota, 2022, for those of float16, and for sums that threads take over.
"""

from tilewright.kernels.config import listed_configs
from tilewright.kernels.library import gemm_sm90
from tilewright.kernels.spec import Split

_PORTFOLIO = listed_configs(
    "BM BN STAGES BAND PINGPONG CLUSTER CLUSTER_N SPLITS",
    (
        (64, 128, 3, 8, 1, 1, 1, 1),
        (128, 96, 2, 8, 0, 1, 1, 1),
        (128, 96, 2, 8, 0, 1, 1, 2),
        (128, 128, 2, 16, 0, 1, 1, 1),
        (128, 112, 2, 8, 0, 1, 1, 1),
        (64, 96, 3, 8, 1, 1, 1, 1),
        (128, 80, 2, 8, 0, 1, 1, 1),
        (128, 128, 2, 8, 0, 2, 1, 1),
        (64, 64, 4, 8, 1, 1, 1, 1),
        (128, 64, 3, 8, 0, 1, 1, 1),
    ),
)
_OF_TWO = tuple(one | {"STAGES": one["STAGES"] + 1} for one in _PORTFOLIO if one["BN"] % 64 == 0 or one["BN"] == 96)
"""Two terms leave memory for more stages."""

THREE_BF16, TWO_FP16 = Split("bfloat16", 3), Split("float16", 2, scaled=True)

BF16X6 = gemm_sm90.of_type(
    "gemm_bf16x6",
    "float32 factors as three bfloat16 terms each: six products on Hopper's tensor cores",
    split=THREE_BF16,
    bn=128,
    stages=2,
    portfolio=_PORTFOLIO,
)
BF16X3 = gemm_sm90.of_type(
    "gemm_bf16x3",
    "float32 factors as two bfloat16 terms each: three products on Hopper's tensor cores",
    split=Split("bfloat16", 2),
    bn=128,
    stages=3,
    portfolio=_OF_TWO,
)
FP16X3 = gemm_sm90.of_type(
    "gemm_fp16x3",
    "float32 factors as two scaled float16 terms each: three products on Hopper's tensor cores",
    split=TWO_FP16,
    bn=128,
    stages=3,
    portfolio=_OF_TWO,
)
