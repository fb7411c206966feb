"""Rung 3, shared_tiled: tiles of A and B staged in shared memory.

Sources: "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", kernel 3; "WorkLog: Optimizing GEMM"
(RTX 3060) and FastCuda V2, which pad the tiles by a column.
"""

from tilewright.core.gpus import STATIC_SHARED_LIMIT
from tilewright.kernels.cost_family import Fragment, Staging
from tilewright.kernels.kernel import Kernel, Parameter, Tile
from tilewright.kernels.support import Support

KERNEL = Kernel(
    rung=3,
    name="shared_tiled",
    idea="tiles in shared memory: square ones of A and B, loaded by all threads of a block",
    parameters=(
        Parameter("TILE", 32, (8, 16, 32), "side of the tiles of A, B and C"),
        Parameter("PAD", 0, (0, 1), "unused columns added to the rows of a tile in shared memory", least=0),
    ),
    constraints={
        "TILE*TILE must be at most 1024, a block's threads": lambda c: c.TILE <= 32,
        "8*TILE*(TILE+PAD) must be at most 49152 bytes, a block's static shared memory": lambda c: (
            8 * c.TILE * (c.TILE + c.PAD) <= STATIC_SHARED_LIMIT
        ),
    },
    tile=lambda config: Tile(m=config.TILE, n=config.TILE, k=config.TILE),
    block=lambda config: (config.TILE * config.TILE, 1, 1),
    cost=Staging(fragment=lambda config: Fragment(1, 1, lanes_n=config.TILE)),
    support=Support(vectorized=False),
    presets={"rtx3060": {"PAD": 1}, "fastcuda_v2": {"PAD": 1}},
)
