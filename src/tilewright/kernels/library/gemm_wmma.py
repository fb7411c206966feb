"""gemm_wmma: products of 16-bit factors on tensor cores, with operands in either order."""

from pathlib import Path

from tilewright.core.dtypes import RESULTS
from tilewright.core.problem import LAYOUTS
from tilewright.kernels import fragments, tiling
from tilewright.kernels.spec import Kernel
from tilewright.kernels.takes import Takes

_FEWER_SUMS = {"WM": 32, "WN": 32, "MIN_BLOCKS": 1}
"""Half the sums a thread, and as many warps: where the default has registers spill in some orders."""

KERNEL = Kernel(
    rung=0,
    name="gemm_wmma",
    idea="16-bit factors on tensor cores, in every order of A and B",
    source=Path(__file__).with_suffix(".cu"),
    parameters=fragments.parameters(bm=128, bn=128, bk=32, wm=64, wn=32, min_blocks=2),
    constraints=fragments.constraints(depth=16, item=2, pad_a=8, pad_b=8, every_order=True),
    tile=tiling.tile,
    block=fragments.block,
    sum_order=lambda config: f"wmma 16, {config.BK} at a time",
    cost=fragments.STAGING,
    vectorized=True,
    takes=Takes(
        factors=("float16", "bfloat16"),
        results=RESULTS,
        layouts=LAYOUTS,
        batches=True,
        epilogue=True,
        separate_c=True,
    ),
    presets={"small": {"BM": 64, "BN": 64, "BK": 32, "WM": 32, "WN": 32, "MIN_BLOCKS": 4}},
    tuned={(7, 5): _FEWER_SUMS, (12, 0): _FEWER_SUMS},
    arguments=("sizes", "A", "B", "output"),
)
