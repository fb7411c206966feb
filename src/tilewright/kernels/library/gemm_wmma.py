"""gemm_wmma: products of 16-bit factors on tensor cores, with operands in either order."""

from dataclasses import replace

from tilewright.kernels import fragments, tiling
from tilewright.kernels.kernel import Kernel, Sums
from tilewright.kernels.support import EVERYTHING

_FEWER_SUMS = {"WM": 32, "WN": 32, "MIN_BLOCKS": 1}
"""Half the sums a thread, and as many warps: where the default has registers spill in some orders."""

KERNEL = Kernel(
    name="gemm_wmma",
    idea="16-bit factors on tensor cores, in every order of A and B",
    parameters=fragments.parameters(bm=128, bn=128, bk=32, wm=64, wn=32, min_blocks=2),
    constraints=fragments.constraints(depth=16, item=2, pad_a=8, pad_b=8, every_order=True),
    block=tiling.block_of_warps,
    sums=lambda config: Sums(f"wmma 16, {config.BK} at a time"),
    cost=fragments.STAGING,
    support=replace(EVERYTHING, factors=("float16", "bfloat16"), least_capability=(7, 5)),
    presets={
        "small": {"BM": 64, "BN": 64, "BK": 32, "WM": 32, "WN": 32, "MIN_BLOCKS": 4},
        "sm_75": _FEWER_SUMS,
        "sm_120": _FEWER_SUMS,
    },
    arguments=("sizes", "A", "B", "output"),
    portfolio=({"BM": 64, "BN": 64, "BK": 32, "WM": 32, "WN": 32, "MIN_BLOCKS": 4}, {}),
)

KERNELS = (KERNEL,)
