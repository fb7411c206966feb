"""Comparisons with frameworks, and the JSON file that holds them."""

from typing import Any

from tilewright.bench.records import Facts, PerCall, RunFile
from tilewright.errors import LaunchError

# Kinds of comparison: PyTorch's, ...
COMPILED_CALL = "host time of a compiled matmul"
LAYER = "linear layer, forward and backward, by enable()"
LAYER_BY_MATMUL = "linear layer, forward and backward, by matmul"
EAGER = "training step"
COMPILED = "training step, compiled"
BF16 = "training step in bfloat16"
BF16_COMPILED = "training step in bfloat16, compiled"
SHORT = "training step of one short sequence"
SHORT_COMPILED = "training step of one short sequence, compiled"
NOTHING_GAINS = "enable() where nothing gains"
# ... JAX's, ...
CALL = "call of a jitted product"
PROGRAM = "product in a jitted program of several"
# ... and CuPy's.
WALL = "product, calls back to back"
HOST = "host time of a product"


class Comparison(Facts):
    """Times of one piece of work, by tilewright and by the framework alone, which took turns."""

    framework: str
    """Name and version."""
    kind: str
    """What was timed: one of the constants above."""
    what: str
    """The work: sizes, or a model's name."""
    us: PerCall
    """Microseconds."""
    loss_difference: float | None = None
    """Of a training: the largest difference of two losses at a step, over the loss."""
    peak_mib: PerCall | None = None
    """Of a training: the most that PyTorch's allocator gave out, in MiB; each side in a process of its own."""
    held_mib: PerCall | None = None
    """Of a training: memory that the GPU lacked afterwards, whoever held it, in MiB; of the same processes."""
    control_us: tuple[float, float] | None = None
    """Of what was timed in blocks: microseconds of the fastest and of the slowest by the framework alone. A time of
    ours between them shows no difference."""

    @property
    def ratio(self) -> float:
        """The framework's time over ours."""
        return self.us.baseline / self.us.ours


class Comparisons(RunFile):
    """What was compared in one run."""

    comparisons: list[Comparison]


def check_difference(what: str, difference: float, allowed: float) -> None:
    """Raise LaunchError where two results differ by more than is allowed, relative in the Frobenius norm."""
    if not difference <= allowed:
        raise LaunchError(f"{what}: tilewright's result differs from the framework's by {difference:.1e}")


def check_same(what: str, ours: Any, expected: Any, allowed: float) -> None:
    """The same of two arrays of float64, of any library."""
    check_difference(what, float(((ours - expected) ** 2).sum() / (expected**2).sum()) ** 0.5, allowed)
