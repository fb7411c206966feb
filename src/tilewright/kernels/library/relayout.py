"""Packing: what runs before a kernel that wants its operands in another layout. No rung of its own."""

from pathlib import Path

from tilewright.kernels.spec import Config, Kernel, Parameter, Tile
from tilewright.problem import Problem


def _squares(problem: Problem, config: Config, multiprocessors: int) -> int:
    """Those of A and of B, as far as they are copied."""
    along_m, along_n, along_k = (-(-size // config.SIDE) for size in (problem.m, problem.n, problem.k))
    return along_k * (along_m * bool(config.OF_A) + along_n * config.OF_B)


KERNEL = Kernel(
    rung=0,
    name="relayout",
    idea="copies of A and B with aligned rows, A perhaps transposed",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("OF_A", 1, (0, 1, 2), "1: A is copied, 2: its transpose", least=0),
        Parameter("OF_B", 1, (0, 1), "1: B is copied", least=0),
        Parameter("SIDE", 32, (32, 64), "side of the squares that a block moves"),
        Parameter("THREADS", 256, (128, 256), "threads in a block"),
    ),
    tile=lambda config: Tile(m=config.SIDE, n=config.SIDE, k=config.SIDE),
    block=lambda config: (config.THREADS, 1, 1),
    blocks=_squares,
    vectorized=True,
    overlaps=True,
)
