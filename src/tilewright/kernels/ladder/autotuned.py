"""Rung 9, autotuned: rung 6's kernel, with the config that was found best on each GPU.

Source: "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", kernel 9, for the A6000 (compute
capability 8.6) and the A100 (8.0). The H200's (9.0) was the fastest at 4096 of all configs of 64 to 512 threads.
"""

from dataclasses import replace

from tilewright.kernels.ladder import vectorized

KERNEL = replace(
    vectorized.KERNEL,
    rung=9,
    name="autotuned",
    idea="rung 6, config searched: BM, BN, BK, TM and TN for this GPU",
    presets={
        **vectorized.KERNEL.presets,
        "sm_80": vectorized.KERNEL.presets["a100"],
        "sm_86": vectorized.KERNEL.presets["a6000"],
        "sm_90": {"BM": 64, "BN": 64, "BK": 16, "TM": 16, "TN": 4},
    },
)
