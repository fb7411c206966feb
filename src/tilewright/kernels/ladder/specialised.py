"""Rung 21, specialised: a producer loads tiles, two consumers multiply them.

Source: "CudaDMA: Optimizing GPU Memory Bandwidth via Warp Specialization", Bauer and others, 2011, for the roles.
"""

from dataclasses import replace

from tilewright.kernels import warpgroups
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel, Parameter
from tilewright.kernels.ladder import wgmma_tma


def shared_bytes(config: Config) -> int:
    """Bytes of a block: its stages, each with two barriers."""
    return config.STAGES * (warpgroups.tiles_bytes(config) + 2 * warpgroups.BARRIER_BYTES)


KERNEL: Kernel = replace(
    wgmma_tma.KERNEL,
    rung=21,
    name="specialised",
    idea="producer and consumers: one only loads, the others only multiply, with most of the registers",
    parameters=(
        Parameter("BM", 128, (128, 256), "rows of C that a block computes, half of them each consumer"),
        Parameter("BN", 256, (64, 128, 192, 256), "columns of C that a block computes"),
        Parameter("STAGES", 4, (2, 3, 4, 5, 6), "tiles of A and of B in shared memory or in flight"),
    ),
    constraints={
        "BM must be 128 or 256: each of two consumers multiplies 64 rows at a time, "
        "and a box has at most 256": lambda c: c.BM in (128, 256),
        **warpgroups.WHOLE_COLUMNS,
        "BM*BN must be at most 32768: a thread has 128 sums": lambda c: c.BM * c.BN <= 128 * 256,
        **warpgroups.TWO_STAGES,
        **warpgroups.shared_memory_fits(shared_bytes),
    },
    block=lambda config: (3 * warpgroups.THREADS, 1, 1),
    shared_bytes=lambda config, layout: shared_bytes(config),
)
