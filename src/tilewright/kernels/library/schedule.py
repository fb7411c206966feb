"""Shared by kernels whose blocks share tiles (stream-K, `schedule.cuh`): the parameter, blocks, workspace.

Source: "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU", Osama et
al., 2023.
"""

from tilewright.core.hardware import ceil_div
from tilewright.core.problem import Problem
from tilewright.kernels import tiling
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Division, Parameter, Schedule


def parameter(default: int, values: tuple[int, ...]) -> Parameter:
    """The number of blocks of a multiprocessor that share the tiles left over from the last full wave."""
    meaning = "blocks of a multiprocessor that share the tiles of the last wave; 0: each tile has a block of its own"
    return Parameter("WORKERS", default, values, meaning, least=0)


def divide(problem: Problem, config: Config, multiprocessors: int) -> Division:
    """Full waves of tiles get a block each; the steps of the tiles left over are cut into equal ranges."""
    tiles = problem.batch * ceil_div(problem.m, config.BM) * ceil_div(problem.n, config.BN)
    steps, most = max(ceil_div(problem.k, config.BK), 1), config.WORKERS * multiprocessors
    left = tiles % most if most else 0
    if not left:
        return Division(tiles, 0, 0, 0)
    workers = sharing(left, steps, most)
    return Division(tiles - left, workers, *divmod(left * steps, workers))


def sharing(left: int, steps: int, most: int) -> int:
    """Number of workers, of `most`, that share tiles of that many steps each: the same number for each tile, so that
    none has parts of two, where that makes the longest range no longer."""
    workers = min(most, left * steps)
    of_tile = workers // left
    longest = ceil_div(left * steps, workers)
    return left * of_tile if ceil_div(steps, of_tile) == longest else workers


def schedule(problem: Problem, config: Config, multiprocessors: int) -> Schedule:
    """Blocks in the grid: one for each tile of a full wave, and the workers, even if some of these get no step. Each
    worker has memory for partial sums of two tiles."""
    division = divide(problem, config, multiprocessors)
    workers = config.WORKERS * multiprocessors if division.workers else 0
    return Schedule(division.whole + workers, 2 * workers * config.BM * config.BN * tiling.FLOAT_BYTES, division)
