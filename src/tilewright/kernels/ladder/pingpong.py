"""Rung 25, pingpong: consumers with tiles of their own take turns: one stores while the other multiplies.

Source: "CUTLASS: Efficient GEMM in CUDA", NVIDIA, for the name and the turns.
"""

from dataclasses import replace

from tilewright.kernels import warpgroups
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Constraints, Kernel, Parameter
from tilewright.kernels.ladder import clusters, rasterized

CONSUMERS = 2
_SUMS = 192
"""Sums that a thread's 232 registers have room for."""

COST = replace(rasterized.COST, alternates=lambda config: True)


def shared_bytes(config: Config) -> int:
    """Bytes of a block: its stages, each with two barriers, and a barrier for each consumer."""
    stages = config.STAGES * (warpgroups.tiles_bytes(config) + 2 * warpgroups.BARRIER_BYTES)
    return stages + CONSUMERS * warpgroups.BARRIER_BYTES


FEW_SUMS: Constraints = {
    "BM*BN must be at most 24576: a thread has 192 sums": lambda c: c.BM * c.BN <= _SUMS * warpgroups.THREADS
}

CONSTRAINTS: Constraints = {
    **warpgroups.WHOLE_INSTRUCTIONS,
    "BM must be at most 256, the rows of a tensor box": lambda c: c.BM <= 256,
    **FEW_SUMS,
    **warpgroups.TWO_STAGES,
    **clusters.SIZES,
}
"""Constraints but that stages fit into shared memory."""

KERNEL: Kernel = replace(
    rasterized.KERNEL,
    rung=25,
    name="pingpong",
    idea="consumers take turns: each has tiles of its own, and stores while the other multiplies",
    parameters=(
        Parameter("BM", 128, (64, 128, 192), "rows of C that a consumer computes"),
        Parameter("BN", 128, (64, 128, 192, 256), "its columns"),
        Parameter("STAGES", 6, (3, 4, 5, 6, 7), "tiles of A and of B in shared memory or in flight"),
        *rasterized.KERNEL.parameters[-2:],
    ),
    constraints={
        **CONSTRAINTS,
        **warpgroups.shared_memory_fits(shared_bytes),
    },
    shared_bytes=lambda config, layout: shared_bytes(config),
    cost=COST,
)
