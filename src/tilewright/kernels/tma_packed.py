"""Rung 15, tma_packed: both operands k-major, brought by the Tensor Memory Accelerator.

Sources: the GotoBLAS papers for packing an operand ("Anatomy of High-Performance Matrix Multiplication", Goto and van
de Geijn, 2008); CUTLASS for visiting a thread's tile in serpentine; "Stream-K: Work-centric Parallel Decomposition
for Dense Matrix-Matrix Multiplication on the GPU", Osama et al., 2023.
"""

from pathlib import Path

from tilewright.kernels import tiling
from tilewright.kernels.spec import Config, Constraint, Kernel, Parameter, TensorBox
from tilewright.problem import Problem

_LANES_M, _LANES_N = 4, 8
_SHARED_LIMIT = 227 * 1024
_REGISTERS = 65536


def _threads(config: Config) -> int:
    return 32 * (config.BM // (_LANES_M * config.TM)) * (config.BN // (_LANES_N * config.TN))


def _left(tiles: int, config: Config) -> int:
    """Tiles that are left when as many as run at a time are done again and again: those that blocks share."""
    return tiles % config.WAVE if config.WAVE else 0


def _blocks(tiles: int, config: Config) -> int:
    left = _left(tiles, config)
    return tiles - left + (config.WAVE if left else 0)


def _workspace_bytes(problem: Problem, config: Config) -> int:
    """Two parts of a tile for each block that shares tiles."""
    tiles = -(-problem.m // config.BM) * -(-problem.n // config.BN)
    return 2 * config.WAVE * config.BM * config.BN * tiling.FLOAT_BYTES if _left(tiles, config) else 0


def _shared_bytes(config: Config) -> int:
    return config.STAGES * tiling.shared_tiles_bytes(config)


KERNEL = Kernel(
    rung=15,
    name="tma_packed",
    idea="A packed k-major, tiles brought by TMA: an inner loop of shared loads and multiply-adds alone",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("BM", 128, (64, 128, 256), "rows of C that a block computes"),
        Parameter("BN", 128, (64, 128, 256), "columns of C that a block computes"),
        Parameter("BK", 32, (16, 32), "how far along k a block's tiles of A and B reach"),
        Parameter("TM", 8, (8, 16), "rows of C that a thread computes"),
        Parameter("TN", 8, (8, 16), "columns of C that a thread computes"),
        Parameter("STAGES", 3, (2, 3, 4, 6), "tiles of A and B that are in shared memory or on their way", least=2),
        Parameter(
            "WAVE", 264, (0, 132, 264), "blocks that share the tiles of the last wave; 0: each has its own", least=0
        ),
        Parameter("BLOCKS", 2, (1, 2, 3, 4), "blocks that a multiprocessor shall hold, which bounds the registers"),
    ),
    constraints=(
        Constraint(
            lambda c: c.BM % (_LANES_M * c.TM) == 0, "BM must be a multiple of 4*TM: 4 lanes of a warp stand along m"
        ),
        Constraint(
            lambda c: c.BN % (_LANES_N * c.TN) == 0, "BN must be a multiple of 8*TN: 8 lanes of a warp stand along n"
        ),
        Constraint(lambda c: _threads(c) <= 1024, "32*(BM/(4*TM))*(BN/(8*TN)) must be at most 1024, a block's threads"),
        Constraint(lambda c: c.TM % 4 == 0, "TM must be a multiple of 4: fragments are read as float4s"),
        Constraint(lambda c: c.TN % 4 == 0, "TN must be a multiple of 4: fragments are moved as float4s"),
        Constraint(
            lambda c: c.BK % 2 == 0, "BK must be a multiple of 2: fragments take turns in two sets of registers"
        ),
        Constraint(
            lambda c: max(c.BM, c.BN, c.BK) <= 256, "BM, BN and BK must be at most 256, the extents of a tensor box"
        ),
        Constraint(
            lambda c: c.BLOCKS * (_shared_bytes(c) + 1024 + 8 * c.STAGES) <= _SHARED_LIMIT + 1024,
            "BLOCKS tiles of STAGES*BK*(BM+BN) floats must fit 227 KiB, a multiprocessor's shared memory",
        ),
        Constraint(
            lambda c: c.BLOCKS * _threads(c) * (c.TM * c.TN + 2 * (c.TM + c.TN)) <= _REGISTERS,
            "BLOCKS*threads*(TM*TN+2*(TM+TN)) must be at most 65536, a multiprocessor's registers",
        ),
    ),
    tile=tiling.tile,
    block=lambda config: (_threads(config), 1, 1),
    vectorized=True,
    least_capability=(9, 0),
    shared_bytes=_shared_bytes,
    tensor_maps=lambda config: (TensorBox(config.BK, config.BM), TensorBox(config.BK, config.BN)),
    packs=True,
    blocks=_blocks,
    workspace_bytes=_workspace_bytes,
)
