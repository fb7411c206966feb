"""Real products joined to a complex one, whose epilogue it computes. No rung of its own."""

from tilewright.core.hardware import round_up
from tilewright.kernels.kernel import Kernel, Parameter, Tile
from tilewright.kernels.library.complex_factors import COMPLEX_ALPHA, PLANES
from tilewright.kernels.support import Support


def ld(columns: int) -> int:
    """Floats from one row of products to the next, where there are this many columns."""
    return round_up(max(columns, 1), 4)


KERNEL = Kernel(
    name="complex_join",
    idea="two rows of real products for each row of a complex result, joined",
    parameters=(
        Parameter("BM", 8, (8,), "rows of D that a block computes"),
        Parameter("BN", 256, (256,), "floats of a row that a block computes"),
        Parameter("THREADS", 256, (128, 256), "threads in a block"),
        Parameter("PAIRS", 0, (0, 1), "whether products are those with (re, im) pairs, to be added up here", least=0),
        Parameter("CONJUGATE_A", 0, (0, 1), "with PAIRS, whether A is conjugated", least=0),
        Parameter("CONJUGATE_B", 0, (0, 1), "with PAIRS, whether B is conjugated", least=0),
        COMPLEX_ALPHA,
        PLANES,
    ),
    constraints={},
    tile=lambda config: Tile(m=config.BM, n=config.BN, k=1),
    block=lambda config: (config.THREADS, 1, 1),
    support=Support(batches=True, epilogue=True, separate_c=True, vectorized=False),
    arguments=("sizes", "products", "output", "complex_alpha"),
    overlaps=True,
)
