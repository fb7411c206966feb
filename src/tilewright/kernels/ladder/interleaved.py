"""Rung 29, interleaved: two consumers, one of which adds sums up while the other multiplies.

Source: "CUTLASS: Efficient GEMM in CUDA", NVIDIA, for the roles; rung 28's for the sums.
"""

from dataclasses import replace

from tilewright.kernels import warpgroups
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel, Parameter
from tilewright.kernels.ladder import persistent, promoted, split


def _shared_bytes(config: Config) -> int:
    """Bytes of a block: its stages, each with two barriers."""
    return split.shared_bytes(config, barriers=2)


KERNEL: Kernel = replace(
    promoted.KERNEL,
    rung=29,
    name="interleaved",
    idea="sums hidden by products: one consumer's products fill the time in which the other adds sums up",
    parameters=(
        Parameter("BM", 128, (128,), "rows of C that a block computes, half of them each consumer"),
        Parameter("BN", 128, (64, 128), "columns of C that a block computes"),
        Parameter("STAGES", 2, (2, 3), "tiles of A and of B in shared memory or in flight, of each part"),
        promoted.PROMOTE,
    ),
    constraints={
        "BM must be 128: each of two consumers multiplies 64 rows, "
        "and STAGES tiles of more take too much memory": lambda c: c.BM == 128,
        **warpgroups.WHOLE_COLUMNS,
        **warpgroups.TWO_STAGES,
        **warpgroups.shared_memory_fits(
            _shared_bytes, "STAGES tiles of A and of B of three parts, and their barriers,"
        ),
        **promoted.IN_STEPS,
    },
    block=persistent.KERNEL.block,
    schedule=persistent.KERNEL.schedule,
    cost=persistent.KERNEL.cost,
    shared_bytes=lambda config, layout: _shared_bytes(config),
)
