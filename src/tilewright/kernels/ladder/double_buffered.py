"""Rung 11, double_buffered: two buffers in shared memory, the next tile loaded while this one is computed on.

Sources: the FastCuda GEMM guide, version 4; SGEMM_CUDA, kernel 11, has the idea but fails its own check.
"""

from dataclasses import replace

from tilewright.core.gpus import STATIC_SHARED_LIMIT
from tilewright.kernels import tiling
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.ladder import warptiled

KERNEL: Kernel = replace(
    warptiled.KERNEL,
    rung=11,
    name="double_buffered",
    idea="next tile loaded ahead: into registers, then a second buffer, while this one is computed on",
    constraints={
        **warptiled.CONSTRAINTS,
        "two tiles of A and of B must take at most 49152 bytes, a block's static shared memory": lambda c: (
            2 * tiling.shared_tiles_bytes(c) <= STATIC_SHARED_LIMIT
        ),
    },
    presets={"fastcuda_v4": {"BM": 128, "BN": 128, "BK": 8, "WM": 32, "WN": 64, "WNITER": 1, "TM": 8, "TN": 8}},
)
