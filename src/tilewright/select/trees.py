"""Trees that correct predictions: what the linear form of `select.model` misses, fitted to the same survey.

All nodes at one depth of a tree ask the same question, so that the answers number a leaf (oblivious trees; A. Gulin
et al., "Winning the Transfer Learning Track of Yahoo's Learning to Rank Challenge with YetiRank", 2011).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

DEPTH = 6
"""Questions of a tree."""

_SLOTS = 8
"""Answers of a tree, as bits of a byte; those that no question stands for are 0."""


class Correction:
    """Trees, side by side."""

    def __init__(self, features: Any, thresholds: Any, leaves: Any) -> None:
        """Make trees.

        Args:
            features: the number of the feature that a question asks for: DEPTH x trees.
            thresholds: numbers that features are compared with, DEPTH x trees: an answer is 1 where its feature is
                larger, else 0.
            leaves: logarithms of factors, trees x 2^DEPTH: the answer to the first question is the lowest binary digit
                of a leaf's number.
        """
        self.features, self.thresholds, self.leaves = features, thresholds, leaves
        unasked = (0, _SLOTS - DEPTH), (0, 0)
        self._asked = np.pad(features, unasked).T.ravel()
        self._compared = np.pad(thresholds, unasked, constant_values=np.inf).T.ravel()
        self._first = np.arange(len(leaves)) * 2**DEPTH
        self._factors = np.exp(np.ravel(leaves))

    def factors(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """The numbers that predictions are multiplied by, given the features of each, one a column."""
        answers = features.T.take(self._asked, axis=1) > self._compared
        leaves = np.packbits(answers, axis=1, bitorder="little") + self._first
        found: NDArray[np.float64] = np.multiply.reduce(self._factors.take(leaves), axis=1)
        return found
