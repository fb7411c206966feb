"""gemm_tf32: gemm_sm90 for float32 factors that are rounded to TF32's 10 bits of mantissa.

The copy engine rounds elements to nearest as it loads them, so a factor whose lines run along k is read in place.
wgmma takes TF32 along k alone: others are transposed by `relayout` first. Infinity and NaN stay as they are. Numbers
from 2^128 - 2^116 on, next to infinity, become infinite.
"""

from dataclasses import replace

from tilewright.kernels.library import gemm_sm90

KERNEL = replace(
    gemm_sm90.of_type("gemm_tf32", "float32 factors rounded to TF32 on Hopper's tensor cores by warpgroups"),
    presets={"narrow": {"BN": 64, "STAGES": 6}},
)
