"""What kernels that share tiles (stream-K, `schedule.cuh`) have in common: the parameter, blocks, workspace.

Source: "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU", Osama et
al., 2023.
"""

from tilewright.kernels import tiling
from tilewright.kernels.spec import Config, Parameter
from tilewright.problem import Problem


def parameter(default: int, values: tuple[int, ...]) -> Parameter:
    """How many blocks of a multiprocessor share the tiles left over from the last full wave."""
    meaning = "blocks of a multiprocessor that share the tiles of the last wave; 0: each tile has a block of its own"
    return Parameter("WORKERS", default, values, meaning, least=0)


def blocks(problem: Problem, config: Config, multiprocessors: int) -> int:
    """Blocks in the grid: one for each tile of a full wave, and the workers, where tiles are left for them."""
    tiles, workers = _tiles(problem, config), config.WORKERS * multiprocessors
    left = tiles % workers if workers else 0
    return tiles - left + (workers if left else 0)


def workspace_bytes(problem: Problem, config: Config, multiprocessors: int) -> int:
    """Partial sums of two tiles for each worker, where there is work for them."""
    tiles, workers = _tiles(problem, config), config.WORKERS * multiprocessors
    left = tiles % workers if workers else 0
    return 2 * workers * config.BM * config.BN * tiling.FLOAT_BYTES if left else 0


def _tiles(problem: Problem, config: Config) -> int:
    """Tiles of D, of all matrices of a batch."""
    return problem.batch * -(-problem.m // config.BM) * -(-problem.n // config.BN)
