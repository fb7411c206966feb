"""gemm_tf32, gemm_tf32_nn, gemm_tf32_tt: gemm_sm90 for float32 factors that are rounded to TF32's 10 bits of mantissa.

The copy engine rounds elements to nearest as it loads them. wgmma takes TF32 from shared memory along k alone, and
its A from registers too. `gemm_tf32` reads a row-major A and a column-major B in place, `gemm_tf32_tt` a column-major
A too, and `gemm_tf32_nn` row-major factors, as those of D^T = B^T A^T. Others are transposed by `relayout` first.
Infinity and NaN stay as they are. Numbers from 2^128 - 2^116 on, next to infinity, become infinite.
"""

from tilewright.kernels.library import gemm_sm90

KERNEL = gemm_sm90.of_type(
    "gemm_tf32",
    "float32 factors rounded to TF32 on Hopper's tensor cores by warpgroups",
    presets={"narrow": {"BN": 64, "STAGES": 6}},
    portfolio=gemm_sm90.OF_OTHER_TYPES,
)
ROW_MAJOR = gemm_sm90.of_type(
    "gemm_tf32_nn",
    "row-major float32 factors rounded to TF32, of which threads hand the tensor cores B in registers",
    across_k="B",
    presets={
        "narrow": {"BN": 64, "STAGES": 8},
        "few_tiles": {"BN": 128, "STAGES": 7, "SPLITS": 2},
        "few_rows": {"BN": 128, "STAGES": 7, "SPLITS": 4},
        "fewest_rows": {"BN": 16, "STAGES": 12, "SPLITS": 2},
    },
    portfolio=gemm_sm90.OF_OTHER_TYPES,
)
COLUMN_MAJOR = gemm_sm90.of_type(
    "gemm_tf32_tt",
    "column-major float32 factors rounded to TF32, of which threads hand the tensor cores A in registers",
    across_k="A",
    presets={"narrow": {"BN": 64, "STAGES": 8}},
    portfolio=gemm_sm90.OF_OTHER_TYPES,
)
