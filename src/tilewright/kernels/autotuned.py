"""Rung 9, autotuned: rung 6's kernel, with the config that was found best on each GPU.

Source: "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", kernel 9, for the A6000 (compute
capability 8.6) and the A100 (8.0); the H200's (9.0) is measured, see results/.
"""

from dataclasses import replace

from tilewright.kernels import vectorized

KERNEL = replace(
    vectorized.KERNEL,
    rung=9,
    name="autotuned",
    idea="rung 6 with BM, BN, BK, TM, TN searched for this GPU",
    tuned={
        (8, 0): vectorized.KERNEL.presets["a100"],
        (8, 6): vectorized.KERNEL.presets["a6000"],
    },
)
