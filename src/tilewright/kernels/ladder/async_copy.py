"""Rung 12, async_copy: cp.async copies tiles straight into shared memory, several in flight at a time.

Source: CUDA C++ Programming Guide, "Asynchronous Data Copies"; the swizzle is that of the same guide's tensor maps.
"""

from tilewright.core.gpus import COMPUTE_CAPABILITIES
from tilewright.kernels import tiling
from tilewright.kernels.config import Config, listed_configs
from tilewright.kernels.cost_family import Copying
from tilewright.kernels.kernel import Kernel, Parameter
from tilewright.kernels.ladder import warptiled
from tilewright.kernels.support import Support

_MOST_SHARED = max(limits.shared_per_block for limits in COMPUTE_CAPABILITIES.values())


def _shared_bytes(config: Config) -> int:
    return config.STAGES * tiling.shared_tiles_bytes(config)


KERNEL = Kernel(
    rung=12,
    name="async_copy",
    idea="asynchronous copies: straight into shared memory, several tiles in flight at a time",
    parameters=(
        *warptiled.PARAMETERS,
        Parameter("STAGES", 3, (2, 3, 4, 5), "tiles of A and of B that shared memory holds", least=2),
    ),
    constraints={
        **warptiled.CONSTRAINTS,
        "BK must be 4, 8, 16 or 32: the pieces of a row of A are exchanged by exclusive or, "
        "within 128 bytes": lambda c: c.BK in (4, 8, 16, 32),
        "WM must be a multiple of 8: the exchange is the same in every warp's rows": lambda c: c.WM % 8 == 0,
        f"STAGES tiles of A and of B must take at most {_MOST_SHARED} bytes, "
        "a block's shared memory on any GPU": lambda c: _shared_bytes(c) <= _MOST_SHARED,
    },
    block=tiling.block_of_warps,
    cost=Copying(copies="cp.async", fragment=warptiled.fragment, stages=lambda config: config.STAGES),
    overlaps=True,
    shared_bytes=lambda config, layout: _shared_bytes(config),
    support=Support(least_capability=(8, 0)),
    portfolio=listed_configs("BM BN BK WM WN WNITER TM TN STAGES", ((32, 32, 32, 32, 16, 1, 4, 4, 3),)),
)
