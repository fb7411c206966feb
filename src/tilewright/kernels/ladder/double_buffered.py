"""Rung 11, double_buffered: two buffers in shared memory, the next tile loaded while this one is computed on.

Sources: the FastCuda GEMM guide, version 4; SGEMM_CUDA, kernel 11, has the idea but fails its own check.
"""

from tilewright.core.gpus import STATIC_SHARED_LIMIT
from tilewright.kernels import tiling
from tilewright.kernels.families import Staging
from tilewright.kernels.ladder import warp_tiling
from tilewright.kernels.spec import Constraint, Kernel

KERNEL = Kernel(
    rung=11,
    name="double_buffered",
    idea="the next tile is loaded into registers, and then a second buffer, while this one is computed on",
    brief="next tile loaded ahead",
    parameters=warp_tiling.PARAMETERS,
    constraints=(
        *warp_tiling.CONSTRAINTS,
        Constraint(
            lambda c: 2 * tiling.shared_tiles_bytes(c) <= STATIC_SHARED_LIMIT,
            "two tiles of A and of B must take at most 49152 bytes, a block's static shared memory",
        ),
    ),
    block=tiling.block_of_warps,
    cost=Staging(fragment=warp_tiling.fragment),
    presets={"fastcuda_v4": {"BM": 128, "BN": 128, "BK": 8, "WM": 32, "WN": 64, "WNITER": 1, "TM": 8, "TN": 8}},
)
