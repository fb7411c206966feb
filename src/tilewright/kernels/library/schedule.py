"""What kernels that share tiles (stream-K, `schedule.cuh`) have in common: the parameter, blocks, workspace.

Source: "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU", Osama et
al., 2023.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tilewright.kernels import tiling
from tilewright.kernels.spec import Config, Parameter
from tilewright.problem import Problem


def parameter(default: int, values: tuple[int, ...]) -> Parameter:
    """How many blocks of a multiprocessor share the tiles left over from the last full wave."""
    meaning = "blocks of a multiprocessor that share the tiles of the last wave; 0: each tile has a block of its own"
    return Parameter("WORKERS", default, values, meaning, least=0)


class Division(NamedTuple):
    """How a launch's tiles are divided among its blocks."""

    whole: int
    """Tiles with a block of their own."""
    blocks: int
    """Those, and the blocks that are there for the tiles left over."""
    workers: int
    """Of the latter, those that get steps along k to do."""
    share: int
    """Steps of a worker, ..."""
    longer: int
    """... and one more of each of the first workers, as many as this."""


def divide(problem: Problem, config: Config, multiprocessors: int) -> Division:
    """Full waves of tiles get a block each; the steps of the tiles left over are cut into equal ranges."""
    tile_m, tile_n, tile_k = config.BM, config.BN, config.BK
    tiles = problem.batch * -(-problem.m // tile_m) * -(-problem.n // tile_n)
    most = config.WORKERS * multiprocessors
    left = tiles % most if most else 0
    if not left:
        return Division(tiles, tiles, 0, 0, 0)
    steps = left * max(-(-problem.k // tile_k), 1)
    workers = min(most, steps)
    return Division(tiles - left, tiles - left + most, workers, *divmod(steps, workers))


def numbers(problem: Problem, config: Config, multiprocessors: int) -> Mapping[str, int]:
    """What the kernel is told of the division: all but the number of blocks."""
    found = divide(problem, config, multiprocessors)._asdict()
    del found["blocks"]
    return found


def blocks(problem: Problem, config: Config, multiprocessors: int) -> int:
    """Blocks in the grid."""
    return divide(problem, config, multiprocessors).blocks


def workspace_bytes(problem: Problem, config: Config, multiprocessors: int) -> int:
    """Partial sums of two tiles for each worker."""
    found = divide(problem, config, multiprocessors)
    return 2 * (found.blocks - found.whole) * config.BM * config.BN * tiling.FLOAT_BYTES
