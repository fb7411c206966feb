"""Models of configs fitted to what a survey measured: `select.model`'s linear form, no coefficient below 0, and trees
for what it misses.

Squares of relative errors are made small, those of outliers counting less. How many blocks of a config a multiprocessor
runs at a time, as far as its throughput shows, is what fits best.
"""

from collections.abc import Sequence

import numpy as np

from tilewright.core.gpus import Gpu
from tilewright.kernels.kernel import Choice
from tilewright.select.model import Fitted, Floats, Grids, ProblemSizes, blocks_along_k, terms_of
from tilewright.select.tables.table import SurveyModels
from tilewright.tools.tune.boosting import boosted
from tilewright.tools.tune.survey import Surveyed

FEWEST = 60
"""Problems that a config must have been measured on, or it is not fitted."""

_TOGETHER = (1, 2, 3, 4, 6, 8)
_ROUNDS, _SWEEPS = 4, 300
_OUTLIER = 0.12
"""Logarithm of measured over predicted time from which on errors count less."""
_DIGITS = 5


def fit(surveyed: Sequence[Surveyed], gpu: Gpu) -> SurveyModels:
    """The models of all configs that a survey measured often enough."""
    if not surveyed:
        return SurveyModels()
    sizes = [ProblemSizes.of(one.problem) for one in surveyed]
    numbers, factors = np.hstack([one.numbers(gpu) for one in sizes]), np.array([one.factors for one in sizes]).T
    choices = dict.fromkeys(choice for one in surveyed for choice in one.us)
    found, columns = list[Fitted](), list[Floats]()
    for choice in choices:
        us = np.array([one.us.get(choice, np.nan) for one in surveyed])
        known = ~np.isnan(us)
        if known.sum() >= FEWEST:
            here = numbers[:, known]
            model = _model(choice, here, factors[:, known], us[known], gpu)
            grids = Grids([model[:3]] * known.sum(), gpu)
            counts = grids.counts(here)
            predicted = np.dot(model.coefficients, terms_of(counts, factors[:, known]))
            features = grids.features(counts)
            columns.append(np.vstack((us[known], predicted, np.flatnonzero(known), features)))
            found.append(model)
    if not found:
        return SurveyModels()
    us, predicted, problems, *rows = np.hstack(columns)
    return SurveyModels(found, boosted(np.array(rows).T, us, predicted, problems.astype(np.int64)))


def _model(choice: Choice, numbers: Floats, factors: Floats, us: Floats, gpu: Gpu) -> Fitted:
    together = 1 if blocks_along_k(*choice) > 1 else max(_TOGETHER)
    counts = [count for count in _TOGETHER if count <= together]
    grids = [Grids([(*choice, count)] * len(us), gpu) for count in counts]
    terms = np.array([terms_of(grid.counts(numbers), factors) for grid in grids])
    scales = np.maximum((terms / us).max(axis=2), 1e-12)
    relative = terms / scales[:, :, None]
    coefficients = np.zeros(scales.shape)
    weights = np.broadcast_to(1 / us, (len(counts), len(us)))
    for _ in range(_ROUNDS):
        weighted = relative * weights[:, None]
        squares = weighted @ weighted.transpose(0, 2, 1)
        coefficients = _least_squares(squares, np.einsum("qij,qj->qi", weighted, us * weights), coefficients)
        expected = np.maximum(np.einsum("qij,qi->qj", relative, coefficients), us / 5)
        errors = np.abs(np.log(us / expected))
        weights = 1 / np.sqrt(expected * us * np.maximum(1, errors / _OUTLIER))
    best = int(np.minimum(errors, 0.5).mean(axis=1).argmin())
    rounded = tuple(float(f"{one:.{_DIGITS}g}") for one in coefficients[best] / scales[best])
    return Fitted(*choice, counts[best], rounded)


def _least_squares(squares: Floats, products: Floats, start: Floats) -> Floats:
    """The x that are not negative and make x @ squares @ x / 2 - products @ x least, one coordinate after the other."""
    x = start.copy()
    diagonal = np.maximum(np.einsum("qii->qi", squares), 1e-12)
    for _ in range(_SWEEPS):
        for i in range(x.shape[1]):
            slope = np.einsum("qj,qj->q", squares[:, i], x) - products[:, i]
            x[:, i] = np.maximum(x[:, i] - slope / diagonal[:, i], 0)
    return x
