"""Packing: what runs before a kernel that wants its operands in another layout. No rung of its own."""

from pathlib import Path

from tilewright.kernels.spec import Kernel, Parameter, Tile

KERNEL = Kernel(
    rung=0,
    name="pack",
    idea="a copy of a matrix, transposed or with aligned rows",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("TRANSPOSE", 1, (0, 1), "1: the copy is transposed", least=0),
        Parameter("SIDE", 64, (32, 64), "side of the squares that a block moves"),
        Parameter("THREADS", 256, (128, 256), "threads in a block"),
    ),
    tile=lambda config: Tile(m=config.SIDE, n=config.SIDE, k=1),
    block=lambda config: (config.THREADS, 1, 1),
    vectorized=True,
    overlaps=True,
)
