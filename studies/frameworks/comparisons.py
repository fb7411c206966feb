"""Results that are compared with frameworks."""

from collections.abc import Iterable, Mapping
from typing import Any

from studies.record import Measurement
from tilewright.core.errors import LaunchError

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
NOTHING_IS_FASTER = "enable() where nothing is faster"
# ... JAX's, ...
CALL = "call of a jitted product"
PROGRAM = "product in a jitted program of several"
# ... and CuPy's.
WALL = "product, calls back to back"
HOST = "host time of a product"

OURS, ALONE = "tilewright", "alone"
"""The ways of every comparison: with tilewright, and by the framework alone. They took turns."""


def compared(
    framework: str,
    kind: str,
    of: str,
    us: Iterable[float],
    ours: Mapping[str, float] | None = None,
    alone: Mapping[str, float] | None = None,
) -> list[Measurement]:
    """Times of one piece of work, with tilewright and by the framework alone.

    Args:
        framework: name and version.
        kind: what was timed.
        of: the work: sizes, or a model's name.
        us: microseconds, with tilewright and alone.
        ours, alone: what else was measured of each. Of a training: peak_mib, the most that PyTorch's allocator gave
            out; held_mib, memory that the GPU lacked afterwards, whoever held it, each in a process of its own; and of
            ours loss_difference, the largest difference of two losses at a step, over the loss. Of what is timed in
            blocks: fastest_us and slowest_us of those alone; a time of ours between them shows no difference.
    """
    what: dict[str, str | int] = {"kind": kind, "of": of, "framework": framework}
    sides = zip((OURS, ALONE), us, (ours, alone), strict=True)
    return [Measurement(what=what, way=way, us=time, facts=dict(facts or {})) for way, time, facts in sides]


def check_difference(what: str, difference: float, allowed: float) -> None:
    """Raise LaunchError where two results differ by more than is allowed, relative in the Frobenius norm."""
    if not difference <= allowed:
        raise LaunchError(f"{what}: tilewright's result differs from the framework's by {difference:.1e}")


def check_same(what: str, ours: Any, expected: Any, allowed: float) -> None:
    """Check that two arrays of float64, of any library, are close enough."""
    check_difference(what, float(((ours - expected) ** 2).sum() / (expected**2).sum()) ** 0.5, allowed)
