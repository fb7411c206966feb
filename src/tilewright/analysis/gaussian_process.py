"""Gaussian process regression: what is expected of a quantity at a place, from measurements of it at others.

Source: "Gaussian Processes for Machine Learning", Rasmussen and Williams, 2006, chapter 2; the covariance of two places
falls exponentially with their distance.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """What was measured of a quantity whose mean is 0."""

    places: NDArray[np.float64]
    """Measurements x coordinates."""
    length: float
    """Over this distance the covariance falls to 1/e."""
    deviation: float
    """Standard deviation of the quantity, far from all that was measured."""
    solved: NDArray[np.float64]
    """The measurements' covariance matrix divides the values: their weights in any expectation."""

    @classmethod
    def fitted(
        cls, places: NDArray[np.float64], values: NDArray[np.float64], length: float, deviation: float, noise: float
    ) -> "GaussianProcess":
        """What `values` at `places` tell, each of which errs by `noise`, a standard deviation."""
        covariance = _covariance(places[:, None], places, length, deviation) + noise**2 * np.eye(len(values))
        return cls(places, length, deviation, np.asarray(np.linalg.solve(covariance, values), np.float64))

    def covariance(self, place: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of the quantity at a place with each measurement."""
        return _covariance(self.places, place, self.length, self.deviation)

    def expected(self, covariance: NDArray[np.float64]) -> float:
        """The quantity's expectation where it has this covariance with the measurements."""
        return float(covariance @ self.solved)


def _covariance(
    one: NDArray[np.float64], other: NDArray[np.float64], length: float, deviation: float
) -> NDArray[np.float64]:
    """Of the quantity at places with itself at others."""
    return np.asarray(deviation**2 * np.exp(-np.linalg.norm(one - other, axis=-1) / length))
