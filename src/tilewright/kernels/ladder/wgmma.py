"""Rung 19, wgmma: a warpgroup multiplies from shared memory by one instruction, asynchronously.

Source: the PTX ISA manual, "Asynchronous Warpgroup Level Matrix Instructions".
"""

from tilewright.core.gpus import STATIC_SHARED_LIMIT
from tilewright.kernels import tiling, warpgroups
from tilewright.kernels.cost_family import Warpgroups
from tilewright.kernels.kernel import Kernel

KERNEL = Kernel(
    rung=19,
    name="wgmma",
    idea="a warpgroup multiplies: tiles straight from shared memory, by one instruction",
    parameters=(
        *warpgroups.tile_parameters(bm=128, bn=128),
        tiling.min_blocks_parameter(2, (1, 2, 3, 4)),
    ),
    constraints={
        **warpgroups.WHOLE_INSTRUCTIONS,
        "BM*BN must be at most 16384: a thread has 128 sums": lambda c: c.BM * c.BN <= 128 * 128,
        "the tiles of A and B must take at most 49152 bytes, a block's static shared memory": lambda c: (
            warpgroups.tiles_bytes(c) <= STATIC_SHARED_LIMIT
        ),
        "MIN_BLOCKS*BM*BN must be at most 32768: sums take half of a multiprocessor's registers": lambda c: (
            c.MIN_BLOCKS * c.BM * c.BN <= 2 * 128 * 128
        ),
    },
    tile=warpgroups.tile,
    block=lambda config: (warpgroups.THREADS, 1, 1),
    cost=Warpgroups(copies="registers", stages=lambda config: 1, min_blocks=lambda config: config.MIN_BLOCKS),
    support=warpgroups.BFLOAT16,
)
