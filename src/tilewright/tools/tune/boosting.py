"""Trees of `select.trees`, each fitted to what those before it left (gradient boosting of squared errors).

What is fitted is by how much configs differ from one another on a problem, not what all of them miss. The fastest
count most. J. Friedman, "Greedy Function Approximation: A Gradient Boosting Machine", 2001.
"""

import numpy as np
from numpy.typing import NDArray

from tilewright.select.model import Floats
from tilewright.select.trees import DEPTH, Correction

Integers = NDArray[np.int64]

TREES = 60
"""Trees that are fitted."""

_RATE = 0.3
"""Share of what a tree says that counts."""

_BINS = 48
"""Thresholds of a feature at most: quantiles of its values."""

_RIDGE = 5.0
"""Weight, in measurements, that pulls leaves to 0."""

_FAR = 0.7
"""Logarithm of measured over predicted time at most."""

_DIGITS, _STEP = 5, 1e-4
"""Digits of thresholds, and unit of leaves."""


def boosted(features: Floats, us: Floats, predicted: Floats, problems: Integers) -> Correction:
    """Fit trees.

    Args:
        features: a row for each measurement.
        us, predicted: microseconds measured, and those that the linear form says.
        problems: numbers of the problems that were measured.
    """
    best = np.full(problems.max() + 1, np.inf)
    np.minimum.at(best, problems, us)
    weights = (best[problems] / us) ** 2
    left = np.clip(np.log(us / predicted), -_FAR, _FAR)
    mean = np.bincount(problems, weights * left) / np.maximum(np.bincount(problems, weights), 1e-9)
    left -= mean[problems]
    thresholds = [_thresholds(values) for values in features.T]
    binned = np.array([np.searchsorted(one, of) for one, of in zip(thresholds, features.T, strict=True)]).T
    trees = []
    for _ in range(TREES):
        splits, leaf = _tree(binned, left * weights, weights)
        sums, counts = (np.bincount(leaf, of, 2**DEPTH) for of in (left * weights, weights))
        leaves = np.round(_RATE * sums / (counts + _RIDGE) / _STEP) * _STEP
        left -= leaves[leaf]
        trees.append(
            (
                [f for f, _ in splits],
                [thresholds[f][min(number, len(thresholds[f]) - 1)] for f, number in splits],
                leaves,
            )
        )
    asked, compared, leaves_of = map(np.array, zip(*trees, strict=True))
    return Correction(asked.T, compared.T, leaves_of)


def _thresholds(values: Floats) -> Floats:
    """Values between those of a feature; always one, which nothing exceeds, as the last."""
    known = np.unique(values)
    between = (known[1:] + known[:-1]) / 2
    if len(between) > _BINS:
        between = np.quantile(values, np.linspace(0, 1, _BINS + 1)[1:-1])
    return np.unique([float(f"{one:.{_DIGITS}g}") for one in (*between, known[-1])])


def _tree(binned: Integers, errors: Floats, weights: Floats) -> tuple[list[tuple[int, int]], Integers]:
    """The questions, by feature and number of threshold, that leave the least of the squares; and each row's leaf."""
    features, bins = binned.shape[1], binned.max() + 1
    columns = binned + np.arange(features) * bins
    leaf, splits = np.zeros(len(binned), np.int64), list[tuple[int, int]]()
    for depth in range(DEPTH):
        cells = (leaf[:, None] * (features * bins) + columns).ravel()
        below = [
            np.bincount(cells, np.repeat(of, features), 2**depth * features * bins)
            .reshape(-1, features, bins)
            .cumsum(axis=2)
            for of in (errors, weights)
        ]
        above = [one[:, :, -1:] - one for one in below]
        gains = np.sum([sums**2 / (counts + _RIDGE) for sums, counts in (below, above)], axis=(0, 1))
        feature, number = divmod(int(gains[:, :-1].argmax()), bins - 1)
        splits.append((feature, number))
        leaf += (binned[:, feature] > number) << depth
    return splits, leaf
