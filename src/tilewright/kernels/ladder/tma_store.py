"""Rung 26, tma_store: the copy engine stores what a consumer has computed, by way of shared memory.

Source: NVIDIA's PTX ISA manual, "cp.async.bulk.tensor", for stores.
"""

from dataclasses import replace

from tilewright.kernels import warpgroups
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import TMA_STORE_RUNG_ARGUMENTS, Kernel, Parameter
from tilewright.kernels.ladder import pingpong


def _shared_bytes(config: Config) -> int:
    """Bytes of a block: those of rung 25, and for each consumer 64 columns of results."""
    results = warpgroups.ITEM_BYTES * config.BM * warpgroups.LINE
    return pingpong.shared_bytes(config) + pingpong.CONSUMERS * results


_BM, _BN, _, _CLUSTER_M, _GROUP_M = pingpong.KERNEL.parameters

KERNEL: Kernel = replace(
    pingpong.KERNEL,
    rung=26,
    name="tma_store",
    idea="results stored by TMA: they go through shared memory, and the copy engine stores them",
    parameters=(
        _BM,
        _BN,
        Parameter("STAGES", 6, (3, 4, 5, 6), "tiles of A and of B in shared memory or in flight"),
        _CLUSTER_M,
        _GROUP_M,
    ),
    constraints={
        **pingpong.CONSTRAINTS,
        **warpgroups.shared_memory_fits(_shared_bytes, "STAGES tiles of A and of B, results and barriers"),
    },
    shared_bytes=lambda config, layout: _shared_bytes(config),
    stored_box=lambda config, item_bytes: warpgroups.STORED_BOX,
    arguments=TMA_STORE_RUNG_ARGUMENTS,
    cost=replace(pingpong.COST, run=lambda config: warpgroups.LINE),
)
