"""Inputs on which products of float32 lose exactness: pairs of an m x k and a k x n matrix, by name."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]
Drawn = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]
Pair = Callable[[np.random.Generator, int, int, int], tuple[Matrix, Matrix]]


def _normal(random: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    return random.standard_normal(shape)


def _pair(of_a: Drawn, of_b: Drawn) -> Pair:
    def pair(random: np.random.Generator, m: int, n: int, k: int) -> tuple[Matrix, Matrix]:
        return of_a(random, (m, k)).astype(np.float32), of_b(random, (k, n)).astype(np.float32)

    return pair


def _both(draw: Drawn) -> Pair:
    return _pair(draw, draw)


def _graded(along: int, powers: int) -> Drawn:
    """Rows (or columns) whose size falls from 1 to 2^-powers, or rises where that is negative."""

    def draw(random: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
        scale = np.exp2(-powers * np.linspace(0, 1, shape[along]))
        return _normal(random, shape) * (scale[:, None] if along == 0 else scale)

    return draw


def _outlier(power: int) -> Drawn:
    """One element of 2^power in each row and column, as far as there are as many."""

    def draw(random: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
        values = _normal(random, shape)
        places = np.arange(min(shape))
        values[random.permutation(shape[0])[: len(places)], random.permutation(shape[1])[: len(places)]] = 2.0**power
        return values

    return draw


def _outliers_against_zeros(random: np.random.Generator, m: int, n: int, k: int) -> tuple[Matrix, Matrix]:
    """One element of 2^100 in each factor, and zeros in all that it is multiplied by; of two k none is left over."""
    a, b = _both(_normal)(random, m, n, k)
    if k > 2:
        of_a, of_b = random.permutation(k)[:2]
        a[random.integers(m), of_a] = b[of_b, random.integers(n)] = 2.0**100
        b[of_a] = a[:, of_b] = 0
    return a, b


def _scaled(factor: float) -> Drawn:
    """Normal elements times a factor."""
    return lambda random, shape: _normal(random, shape) * factor


def _cancelling(random: np.random.Generator, m: int, n: int, k: int) -> tuple[Matrix, Matrix]:
    """Sums whose second half takes away what the first has made, but for the last bits."""
    half = k // 2
    a, b = _both(_normal)(random, m, n, k)
    a[:, half : 2 * half] = -a[:, :half]
    b[half : 2 * half] = b[:half] * np.float32(1 + 2.0**-20)
    return a, b


def _hilbert(random: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    return 1 / (1 + np.add.outer(np.arange(shape[0]), np.arange(shape[1])).astype(np.float64))


def _vandermonde(random: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    return np.asarray(np.vander(np.linspace(-1, 1, shape[0]), shape[1]))


ORDINARY = {
    "normal": _both(_normal),
    "uniform": _both(lambda random, shape: random.uniform(-1, 1, shape)),
    "one sign": _both(lambda random, shape: random.uniform(0, 1, shape)),
    "log-normal": _both(lambda random, shape: random.lognormal(0, 1, shape)),
    "log-normal, wide": _both(lambda random, shape: random.lognormal(0, 4, shape)),
    "rows graded": _both(_graded(0, 40)),
    "columns graded": _both(_graded(1, 40)),
    "columns rising": _both(_graded(1, -40)),
    "k graded": _pair(_graded(1, 40), _graded(0, 40)),
    "k graded, one against the other": _pair(_graded(1, 40), _graded(0, -40)),
    "outliers of 2^20": _both(_outlier(20)),
    "outliers of 2^50": _both(_outlier(50)),
    "outliers of 2^100 against zeros": _outliers_against_zeros,
    "cancelling": _cancelling,
    "Hilbert": _both(_hilbert),
    "Vandermonde": _both(_vandermonde),
    "triangular": _both(lambda random, shape: np.tril(_normal(random, shape))),
    "sparse": _both(lambda random, shape: _normal(random, shape) * (random.random(shape) < 0.05)),
}
"""Inputs whose products float32 holds to some 2^-24 of |A| @ |B|."""


def _integers(random: np.random.Generator, m: int, n: int, k: int) -> tuple[Matrix, Matrix]:
    """Sums stay below 2^24."""
    largest = int((2**24 / max(k, 1)) ** 0.5)
    a, b = (random.integers(-largest, largest, shape, endpoint=True) for shape in ((m, k), (k, n)))
    return a.astype(np.float32), b.astype(np.float32)


EXACT = {
    "identity": _pair(_normal, lambda random, shape: np.eye(shape[0])),
    "permutation": _pair(_normal, lambda random, shape: np.eye(shape[0])[random.permutation(shape[0])]),
    "powers of two": _pair(_normal, lambda random, shape: np.diag(np.exp2(random.integers(-30, 30, shape[0])))),
    "integers": _integers,
}
"""Inputs whose products are exact in float32, whatever the order of additions. Some make k x k of B, whatever n is."""

EXTREME = {
    "subnormals": _pair(_scaled(2.0**-130), _scaled(2.0**20)),
    "near overflow": _both(_scaled(2.0**58)),
    "near underflow": _pair(_scaled(2.0**-60), _scaled(2.0**-45)),
}
"""Inputs near the ends of float32's range, which 16-bit parts do not represent; their products are in range."""
