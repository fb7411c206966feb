"""What the rungs that share the last wave of tiles (stream-K) have in common: blocks, workspace, the parameter.

Source: "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU", Osama et
al., 2023.
"""

from tilewright.kernels import tiling
from tilewright.kernels.spec import Config, Parameter
from tilewright.problem import Problem


def parameter(default: int, values: tuple[int, ...]) -> Parameter:
    """How many blocks share.

    With 1 no tile is left to be shared, as with 0, but the code keeps its loop over a block's tiles: for large thread
    tiles NVRTC 13.0 then finds registers without bank conflicts and without spilling, where with 0 it did not.
    """
    what = "blocks that share the tiles of the last wave; 0: each has its own; 1: so too, but in other machine code"
    return Parameter("WAVE", default, values, what, least=0)


def blocks(problem: Problem, config: Config, multiprocessors: int) -> int:
    """Blocks in the grid: one a tile, and WAVE for those that are shared."""
    tiles = _tiles(problem, config)
    left = _left(tiles, config)
    return tiles - left + (config.WAVE if left else 0)


def workspace_bytes(problem: Problem, config: Config, multiprocessors: int) -> int:
    """Two parts of a tile for each block that shares tiles."""
    shared = _left(_tiles(problem, config), config)
    return 2 * config.WAVE * config.BM * config.BN * tiling.FLOAT_BYTES if shared else 0


def _tiles(problem: Problem, config: Config) -> int:
    return -(-problem.m // config.BM) * -(-problem.n // config.BN)


def _left(tiles: int, config: Config) -> int:
    """Tiles that are left when as many as run at a time are done again and again: those that blocks share."""
    return tiles % config.WAVE if config.WAVE else 0
