"""gemm_fp8, gemm_fp8_nn, gemm_fp8_fast, gemm_fp8_blocks: gemm_sm90 for float8 factors, mixed too, with scales.

Tensor cores keep 13 bits of mantissa of sums of float8 products. So of gemm_fp8 threads add what they made to float32
sums every 128 of k, gemm_fp8_blocks times the scales of these blocks; of gemm_fp8_fast tensor cores add up all
products. wgmma takes float8 from shared memory along k alone, and its A from registers too: `gemm_fp8_nn` reads
row-major factors, as those of D^T = B^T A^T. Other factors are transposed by `relayout` first, byte by byte.
"""

from tilewright.core.dtypes import FLOAT8
from tilewright.kernels.library import gemm_sm90

KERNEL = gemm_sm90.of_type(
    "gemm_fp8",
    "float8 factors on Hopper's tensor cores by warpgroups, sums promoted to float32",
    factors=FLOAT8,
    fast=False,
    bn=128,
    stages=6,
    presets={
        "large": {"BM": 256, "STAGES": 4, "CLUSTER": 2},
        "narrow": {"BN": 64, "STAGES": 8},
        "split": {"BN": 64, "SPLITS": 4},
    },
    portfolio=gemm_sm90.OF_OTHER_TYPES,
)

ROW_MAJOR = gemm_sm90.of_type(
    "gemm_fp8_nn",
    "row-major float8 factors, of which threads hand the tensor cores B in registers, sums promoted to float32",
    factors=FLOAT8,
    fast=False,
    bn=128,
    stages=6,
    across_k="B",
    presets={
        "large": {"BM": 256, "STAGES": 4},
        "narrow": {"BN": 64, "STAGES": 8},
        "few_rows": {"BN": 16, "STAGES": 10},
    },
    portfolio=gemm_sm90.OF_OTHER_TYPES,
)

FAST = gemm_sm90.of_type(
    "gemm_fp8_fast",
    "float8 factors on Hopper's tensor cores by warpgroups, sums of 13 bits",
    factors=FLOAT8,
    portfolio=gemm_sm90.OF_OTHER_TYPES,
)

BLOCKS = gemm_sm90.of_type(
    "gemm_fp8_blocks",
    "float8 factors with a scale of each 128 of k and row, or 128 rows or columns, on Hopper's tensor cores",
    factors=FLOAT8,
    fast=False,
    blocks=True,
    bn=128,
    stages=6,
    presets={"large": {"BM": 256, "STAGES": 4, "CLUSTER": 2}},
    portfolio=gemm_sm90.OF_OTHER_TYPES,
)
