"""A kernel with planted faults, for tests of the autotuner. In a module, so that worker processes find it."""

from pathlib import Path

from tilewright.kernels.kernel import Kernel, Parameter, Tile
from tilewright.kernels.support import Support

RIGHT, REFUSED, WRONG, HANGS, CRASHES = range(5)


class Planted(Kernel):
    """Another process is told it by its name, as the package's own are."""

    def __reduce__(self):
        return lookup, (self.name,)


KERNEL = Planted(
    rung=1,
    name="planted",
    idea="faults to be found",
    source=Path(__file__).with_name("planted.cu"),
    support=Support(vectorized=False),
    parameters=(
        Parameter("BLOCK", 8, (8, 16), "side of a block's square"),
        Parameter("FAULT", RIGHT, (RIGHT, REFUSED, WRONG, HANGS, CRASHES), "what is wrong", least=0),
        Parameter("SLOW", 1, (1, 60), "how many times it computes"),
    ),
    constraints={
        "a faulty block is 8 x 8": lambda c: c.FAULT == RIGHT or c.BLOCK == 8,
        "a faulty block is not slow on top": lambda c: c.FAULT == RIGHT or c.SLOW == 1,
    },
    tile=lambda config: Tile(config.BLOCK, config.BLOCK, 1),
    block=lambda config: (config.BLOCK * config.BLOCK, 1, 1),
)


def lookup(name: str) -> Kernel:
    """The kernel, by its name."""
    assert name == KERNEL.name
    return KERNEL
