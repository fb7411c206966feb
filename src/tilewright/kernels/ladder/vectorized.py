"""Rung 6, vectorized: 128-bit loads and stores.

Sources: "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", kernel 6, and the configs that its
kernel 9 found; FastCuda V3.
"""

from tilewright.kernels import tiling
from tilewright.kernels.kernel import Kernel

KERNEL = Kernel(
    rung=6,
    name="vectorized",
    idea="128-bit loads and stores: A is transposed on its way into shared memory",
    parameters=tiling.tile_parameters(128, 128, 8, 8, 8),
    constraints=tiling.VECTOR_CONSTRAINTS,
    block=tiling.block,
    cost=tiling.STAGING,
    presets={
        "fastcuda_v3": {"BM": 64, "BN": 64, "BK": 16, "TM": 4, "TN": 4},
        "a6000": {"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 8},
        "a100": {"BM": 64, "BN": 64, "BK": 16, "TM": 4, "TN": 4},
    },
)
