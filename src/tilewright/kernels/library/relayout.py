"""Relayout: copies of A and B that run before a kernel that wants them in another layout. No rung of its own."""

from tilewright.core.hardware import ceil_div
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel, Parameter, Tile
from tilewright.kernels.split import SCALED_K
from tilewright.kernels.support import Support


def squares(config: Config, lines: int, length: int, matrices: int) -> int:
    """Blocks that copy matrices of this many lines, each of `length` elements."""
    return ceil_div(lines, config.SIDE) * ceil_div(length, config.SIDE) * matrices


KERNEL = Kernel(
    name="relayout",
    idea="copies of matrices with aligned rows or columns, transposed or not, split into parts or not",
    parameters=(
        Parameter("SIDE", 32, (32, 64, 128), "side of the squares that a block moves; 128 of bytes alone"),
        Parameter("THREADS", 256, (128, 256), "threads in a block"),
        Parameter("SPLIT_PARTS", 1, (1, 2, 3), "matrices that a matrix is split into; 1: it is copied as it is"),
        Parameter("SCALED", 0, (0, 1), "whether elements are scaled before", least=0),
    ),
    constraints={
        "with SCALED=1, SIDE must be 64, the k of a scale": lambda c: not c.SCALED or c.SIDE == SCALED_K,
    },
    tile=lambda config: Tile(m=config.SIDE, n=config.SIDE, k=config.SIDE),
    block=lambda config: (config.THREADS, 1, 1),
    support=Support(vectorized=False),
    arguments=("copy_a", "copy_b"),
    overlaps=True,
)
