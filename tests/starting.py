"""Outputs that show what was not written, and starting plans on matrices, for tests that launch one again and again."""

import numpy as np

from tilewright.core.problem import Scalars
from tilewright.runtime.plan import Pointers


def start(engine, plan, a, b, d, stream=None, scalars=Scalars()):
    """Start a plan on matrices; D is updated in place where beta is not 0."""
    engine.start(plan, Pointers(a.pointer, b.pointer, d.pointer), scalars, stream)


def poisoned(rows, cols):
    """An array of NaN: what an output holds before a run, so that an element left unwritten shows."""
    return np.full((rows, cols), np.nan, np.float32)
