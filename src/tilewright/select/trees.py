"""Trees that correct predictions: what the linear form of `select.model` misses, fitted to the same survey.

All nodes at one depth of a tree ask the same question, so that the answers number a leaf (oblivious trees; A. Gulin
et al., "Winning the Transfer Learning Track of Yahoo's Learning to Rank Challenge with YetiRank", 2011).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

DEPTH = 6
"""Questions of a tree."""

_DIGITS = np.arange(DEPTH, dtype=np.uint8)[:, None, None]


class Correction(NamedTuple):
    """Trees, side by side."""

    features: Any
    """The number of the feature that a question asks for: DEPTH x trees."""
    thresholds: Any
    """Numbers that features are compared with, DEPTH x trees: an answer is 1 where its feature is larger, else 0."""
    leaves: Any
    """Logarithms of factors, trees x 2^DEPTH: the answer to the first question is the lowest binary digit of a leaf's
    number."""

    def factors(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """The numbers that predictions are multiplied by, given the features of each, one a column."""
        answers = features.take(self.features, axis=0) > self.thresholds[:, :, None]
        leaves = np.add.reduce(answers.view(np.uint8) << _DIGITS, axis=0, dtype=np.uint8)
        found: NDArray[np.float64] = np.exp(self.leaves[np.arange(len(self.leaves))[:, None], leaves].sum(axis=0))
        return found
