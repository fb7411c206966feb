"""Rung 20, wgmma_tma: tiles come by TMA, several steps ahead of the products.

Source: the CUDA C++ Programming Guide, "Asynchronous Data Copies using the Tensor Memory Accelerator (TMA)".
"""

from tilewright.kernels import warpgroups
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import TMA_RUNG_ARGUMENTS, Kernel, Parameter


def _shared_bytes(config: Config) -> int:
    return config.STAGES * (warpgroups.tiles_bytes(config) + warpgroups.BARRIER_BYTES)


KERNEL = Kernel(
    rung=20,
    name="wgmma_tma",
    idea="wgmma on tiles by TMA: swizzled as tensor cores read them, several steps ahead of the products",
    parameters=(
        *warpgroups.tile_parameters(bm=128, bn=128),
        Parameter("STAGES", 3, (2, 3, 4, 5, 6), "tiles of A and of B in shared memory or in flight"),
    ),
    constraints={
        **warpgroups.WHOLE_INSTRUCTIONS,
        "BM*BN must be at most 16384: a thread has 128 sums": lambda c: c.BM * c.BN <= 128 * 128,
        **warpgroups.TWO_STAGES,
        **warpgroups.shared_memory_fits(_shared_bytes),
    },
    tile=warpgroups.tile,
    block=lambda config: (warpgroups.THREADS, 1, 1),
    cost=warpgroups.PIPELINED,
    support=warpgroups.BFLOAT16,
    arguments=TMA_RUNG_ARGUMENTS,
    shared_bytes=lambda config, layout: _shared_bytes(config),
    tensor_maps=warpgroups.boxes,
    relayouts=lambda config: (None, None),
)
