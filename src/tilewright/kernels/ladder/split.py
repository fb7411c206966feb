"""Rung 27, split: float32 factors as three bfloat16 parts each, whose products tensor cores add up.

Source: "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations", Henry, Tang and
Heinecke, 2019.
"""

from dataclasses import replace

from tilewright.kernels import warpgroups
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import ALL_OF_K, Constraints, Kernel, Parameter, Sums
from tilewright.kernels.ladder import wgmma_tma
from tilewright.kernels.split import Split

SPLIT = Split("bfloat16", 3)


def shared_bytes(config: Config, barriers: int = 1) -> int:
    """Bytes of a block: stages of all parts' tiles, each with this many barriers."""
    return config.STAGES * (SPLIT.parts * warpgroups.tiles_bytes(config) + barriers * warpgroups.BARRIER_BYTES)


STAGES_FIT: Constraints = {
    **warpgroups.TWO_STAGES,
    **warpgroups.shared_memory_fits(shared_bytes, "STAGES tiles of A and of B of three parts, and their barriers,"),
}

KERNEL: Kernel = replace(
    wgmma_tma.KERNEL,
    rung=27,
    name="split",
    idea="float32 as 3 x bfloat16: six products of parts in one sum of the tensor cores",
    parameters=(
        *warpgroups.tile_parameters(bm=64, bn=128),
        Parameter("STAGES", 3, (2, 3, 4), "tiles of A and of B in shared memory or in flight, of each part"),
    ),
    constraints={
        **warpgroups.WHOLE_INSTRUCTIONS,
        **STAGES_FIT,
    },
    support=warpgroups.SPLIT_FLOAT32,
    shared_bytes=lambda config, layout: shared_bytes(config),
    split=SPLIT,
    sums=lambda config: Sums(promote=ALL_OF_K),
)
