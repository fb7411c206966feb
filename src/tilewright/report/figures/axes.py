"""Logarithmic axes of a plot."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class LogScale:
    """Both axes' ends, the plot's corner and extent in pixels, and where a value lies."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float
    left: float
    top: float
    width: float
    height: float

    def x(self, value: float) -> float:
        """Pixels from the left."""
        return self.left + self.width * math.log(value / self.low_x) / math.log(self.high_x / self.low_x)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        return self.top + self.height * (1 - math.log(value / self.low_y) / math.log(self.high_y / self.low_y))


def decades(low: float, high: float) -> list[float]:
    """The powers of ten from low to high."""
    return [10.0**power for power in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]


def decade_below(value: float) -> float:
    """The largest power of ten that is not above a value."""
    return 10.0 ** math.floor(math.log10(value))


def decade_above(value: float) -> float:
    """The least power of ten that is not below a value."""
    return 10.0 ** math.ceil(math.log10(value))
