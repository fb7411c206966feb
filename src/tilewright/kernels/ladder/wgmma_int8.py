"""Rung 31, wgmma_int8: integers of 8 bits, whose products tensor cores add up in int32, exactly.

Source: the PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Operation using wgmma.mma_async": of 8
bits both matrices in shared memory lie along k.
"""

from dataclasses import replace

from tilewright.core.dtypes import SUMS_OF_INT8
from tilewright.kernels import warpgroups
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel, Parameter, Tile
from tilewright.kernels.ladder import clusters, pingpong
from tilewright.kernels.support import Support
from tilewright.kernels.tensor_box import BOX_SIDE, TensorBox

_BK = warpgroups.LINE_BYTES
_PATTERN = 8
"""Lines after which the swizzle's pattern begins anew."""


def _boxes(config: Config, layout: str, sides: tuple[int, int]) -> tuple[TensorBox, TensorBox]:
    """Boxes of one load: a tile of A, or a block's share of one of B."""
    rows, columns = config.BM, config.BN // config.CLUSTER_M
    return TensorBox(rows, _BK, warpgroups.LINE_BYTES), TensorBox(columns, _BK, warpgroups.LINE_BYTES)


_BM, _, _, *_CLUSTERS = pingpong.KERNEL.parameters

KERNEL: Kernel = replace(
    pingpong.KERNEL,
    rung=31,
    name="wgmma_int8",
    idea="wgmma in int8: exact sums in int32, of factors that both lie along k",
    parameters=(
        _BM,
        Parameter("BN", 192, (64, 128, 192, 256), "its columns"),
        Parameter("STAGES", 5, (3, 4, 5, 6, 7), "tiles of A and of B in shared memory or in flight"),
        *_CLUSTERS,
    ),
    constraints={
        "BM must be a multiple of 64: an instruction multiplies 64 rows of A": lambda c: c.BM % warpgroups.ROWS == 0,
        f"BM and BN must be at most {BOX_SIDE}, the lines of a tensor box and the columns of one instruction": (
            lambda c: max(c.BM, c.BN) <= BOX_SIDE
        ),
        "BN must be a multiple of 16, the columns of one instruction": lambda c: c.BN % 16 == 0,
        "BN must be a multiple of 8*CLUSTER_M: each block loads whole groups of 8 columns of B": lambda c: (
            c.BN % (_PATTERN * c.CLUSTER_M) == 0
        ),
        **pingpong.FEW_SUMS,
        **warpgroups.TWO_STAGES,
        **clusters.SIZES,
        **warpgroups.shared_memory_fits(pingpong.shared_bytes),
    },
    tile=lambda config: Tile(m=config.BM, n=config.BN, k=_BK),
    support=Support(
        factors=("int8",),
        results=(SUMS_OF_INT8,),
        layouts=("NT", "NN", "TN", "TT"),
        least_capability=(9, 0),
        architectures=("sm_90a",),
    ),
    tensor_maps=_boxes,
    relayouts=lambda config: ("row", "column"),
)
