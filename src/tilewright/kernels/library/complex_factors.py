"""Factors of a complex product, written as those of a real one that follows. No rung of its own."""

from tilewright.kernels.kernel import Kernel, Parameter, Tile
from tilewright.kernels.support import Support

COMPLEX_ALPHA = Parameter("COMPLEX_ALPHA", 0, (0, 1), "whether a complex alpha is multiplied by", least=0)
PLANES = Parameter("PLANES", 0, (0, 1), "whether products are those of the parts, and of sums of them", least=0)

KERNEL = Kernel(
    name="complex_factors",
    idea="a factor twice as large, and another one transposed, so that a product of float32 is one of complex64",
    parameters=(
        Parameter("SIDE", 32, (32,), "side of the squares that a block moves"),
        Parameter("THREADS", 256, (128, 256), "threads in a block"),
        Parameter("CONJUGATE", 0, (0, 1), "whether the factor that becomes larger is conjugated", least=0),
        Parameter("CONJUGATE_OTHER", 0, (0, 1), "whether the one that it is multiplied with is", least=0),
        COMPLEX_ALPHA,
        PLANES,
    ),
    constraints={},
    tile=lambda config: Tile(m=config.SIDE, n=config.SIDE, k=config.SIDE),
    block=lambda config: (config.THREADS, 1, 1),
    support=Support(vectorized=False),
    arguments=("copy_a", "copy_b", "complex_alpha"),
    overlaps=True,
)
