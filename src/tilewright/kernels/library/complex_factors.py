"""Factors of a complex product, written as those of a real one that follows. No rung of its own."""

from tilewright.kernels.kernel import Kernel, Parameter, Tile
from tilewright.kernels.support import Support

KERNEL = Kernel(
    name="complex_factors",
    idea="A as rows of (re, im) pairs, and B twice as large, so that a product of float32 is one of complex64",
    parameters=(
        Parameter("SIDE", 32, (32,), "side of the squares that a block moves"),
        Parameter("THREADS", 256, (128, 256), "threads in a block"),
        Parameter("CONJUGATE_A", 0, (0, 1), "whether A is conjugated", least=0),
        Parameter("CONJUGATE_B", 0, (0, 1), "whether B is conjugated", least=0),
        Parameter("COMPLEX_ALPHA", 0, (0, 1), "whether B is multiplied by a complex alpha", least=0),
    ),
    constraints={},
    tile=lambda config: Tile(m=config.SIDE, n=config.SIDE, k=config.SIDE),
    block=lambda config: (config.THREADS, 1, 1),
    support=Support(vectorized=False),
    arguments=("copy_a", "copy_b", "complex_alpha"),
    overlaps=True,
)
