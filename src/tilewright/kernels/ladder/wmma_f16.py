"""Rung 14, wmma_f16: half or bfloat16 in, float32 sums and out.

Source: the FastCuda GEMM guide, version 6.
"""

from tilewright.kernels import fragments, tiling
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Support

KERNEL = Kernel(
    rung=14,
    name="wmma_f16",
    idea="tensor cores, in 16 bits: twice the elements a byte, and twice the work an instruction",
    parameters=fragments.parameters(bm=128, bn=128, bk=32, wm=64, wn=32, min_blocks=2),
    constraints=fragments.constraints(depth=16, item=2, pad_a=8, pad_b=8),
    block=tiling.block_of_warps,
    cost=fragments.STAGING,
    support=Support(factors=("float16", "bfloat16")),
    presets={"fastcuda_v6": {"BM": 64, "BN": 64, "BK": 16, "WM": 16, "WN": 64}},
)
