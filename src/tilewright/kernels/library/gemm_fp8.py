"""gemm_fp8, gemm_fp8_nn, gemm_fp8_fast, gemm_fp8_blocks: gemm_sm90 for float8 factors, mixed too, with scales.

Tensor cores keep 13 bits of mantissa of sums of float8 products. So of gemm_fp8 threads add what they made to float32
sums every 128 of k, gemm_fp8_blocks times the scales of these blocks; of gemm_fp8_fast tensor cores add up all
products. wgmma takes float8 from shared memory along k alone, and its A from registers too: `gemm_fp8_nn` reads
row-major factors, as those of D^T = B^T A^T. Other factors are transposed by `relayout` first, byte by byte.

Scales of rows and columns are multiplied by at the end, before alpha; one scale of a matrix is a vector whose step is
0, so no variant is compiled for it. Scales of blocks are multiplied by with the promotion: BN divides 128, and a thread
loads two scales of A and one of B for 64 rows and a step, a step ahead. Scales are arrays on the device, so nothing
waits for their values; with alpha = 0 they are not read. Results of float8_e4m3fn are rounded to nearest; larger than
448, infinity too, becomes 448, and NaN stays.

Where registers hold two steps' sums and the total (`MADE`), tensor cores need not wait for a promotion: tiles of 64
rows a warpgroup and at most 128 columns. ptxas lets products of one set run while threads read the other only if no
value of the two is moved, so each has a name of its own over two steps of a loop. The bits are the same.

Tables of float8 are of an H100; elsewhere the cost model counts float8 as 16 bits at twice the rate. One row or a few
go to skinny_fp8, skinny's source: threads convert two elements by an instruction and add up in float32, and scales are
last.
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
)

FAST = gemm_sm90.of_type(
    "gemm_fp8_fast", "float8 factors on Hopper's tensor cores by warpgroups, sums of 13 bits", factors=FLOAT8
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
)
