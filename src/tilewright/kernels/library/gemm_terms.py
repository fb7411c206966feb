"""gemm_bf16x6, gemm_bf16x3, gemm_fp16x3: gemm_sm90 for float32 factors that are split into terms of 16 bits.

Two terms of bfloat16 hold 16 bits: half the products of three, and 2**-17 of each is left.

Errors, on the emulator, which adds as tensor cores do:

    gemm_bf16x6    an element's within 1.5 times that of sums in float32; the Frobenius error no larger from k = 64 on,
                   except where one product is most of an element, which float32 rounds and tensor cores truncate. Exact
                   where these are: identity, permutations, powers of two, integers up to 2^24.
    gemm_fp16x3    within 2^-21 of |A| @ |B| (parts of each operand leave 2^-23 of it, the product that is not made
                   2^-22) and a rounding of 2^-24, or within 1.1 times float32's where that is more. Where k is 33 to
                   127, sums of one sign, which tensor cores cut off with every 16 of k and which are promoted once or
                   twice, within 2^-20. Elements 2^28 below the largest of their 64 x 64 lose bits; where that matters
                   the product is computed in float32.
    gemm_bf16x3    about 2^-16 of |A| @ |B|.

Sums begin again with every step, 64 of k, and threads add them up, the smaller products first. More often is slower,
and less exact where k is large, since each addition by threads rounds.

Tests: tests/kernels/test_split_products.py has inputs of many kinds, test_what_terms_cannot_hold.py values that the
parts cannot represent.

Source: "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations", Henry, Tang and
Heinecke, 2019, for terms of bfloat16; "Recovering single precision accuracy from Tensor Cores while surpassing the FP32
theoretical peak performance", Ootomo and Yokota, 2022, for those of float16, and for sums that threads take over.
"""

from tilewright.kernels.library import gemm_sm90
from tilewright.kernels.spec import Split

THREE_BF16, TWO_FP16 = Split("bfloat16", 3), Split("float16", 2, scaled=True)

BF16X6 = gemm_sm90.of_type(
    "gemm_bf16x6",
    "float32 factors as three bfloat16 terms each: six products on Hopper's tensor cores",
    split=THREE_BF16,
    bn=128,
    stages=2,
)
BF16X3 = gemm_sm90.of_type(
    "gemm_bf16x3",
    "float32 factors as two bfloat16 terms each: three products on Hopper's tensor cores",
    split=Split("bfloat16", 2),
    bn=128,
    stages=3,
)
FP16X3 = gemm_sm90.of_type(
    "gemm_fp16x3",
    "float32 factors as two scaled float16 terms each: three products on Hopper's tensor cores",
    split=TWO_FP16,
    bn=128,
    stages=3,
)
