"""Starting plans on matrices, for tests that launch one again and again."""

from tilewright.engines.plan import Pointers
from tilewright.problem import Scalars


def start(engine, plan, a, b, d, stream=None, scalars=Scalars()):
    """Start a plan on matrices; D is updated in place where beta is not 0."""
    engine.start(plan, Pointers(a.pointer, b.pointer, d.pointer), scalars, stream)
