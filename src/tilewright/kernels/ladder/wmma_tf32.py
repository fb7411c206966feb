"""Rung 13, wmma_tf32: tensor cores through fragments, float32 in and out.

Source: the FastCuda GEMM guide, version 5.
"""

from tilewright.kernels import fragments, tiling
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Support

KERNEL = Kernel(
    rung=13,
    name="wmma_tf32",
    idea="tensor cores, in TF32: through fragments, factors rounded to TF32, sums in float32",
    parameters=fragments.parameters(bm=128, bn=128, bk=16, wm=64, wn=32, min_blocks=2),
    constraints=fragments.constraints(depth=8, item=4, pad_a=4, pad_b=8),
    block=tiling.block_of_warps,
    cost=fragments.STAGING,
    support=Support(precision="tf32", least_capability=(8, 0)),
    presets={"fastcuda_v5": {"BM": 64, "BN": 64, "BK": 8, "WM": 16, "WN": 64}},
)
