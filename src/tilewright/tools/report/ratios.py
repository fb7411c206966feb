"""How tables print speeds and ratios: of one run only, and so that what is printed divides.

A ratio is made from the two speeds as they are printed next to it. Speeds of different runs are never divided: clocks
and temperatures differ from one run to the next by more than many a rung gains.
"""

import math

from tilewright.core.errors import RecordsError
from tilewright.tools.bench.records import Record

_DIGITS = 4
"""Significant digits of a printed speed, at least."""

_AGREEMENT = 1e-3
"""How far, relatively, a record's ratio may be from its two speeds' before it counts as one of another run."""


def speed(gflops: float) -> str:
    """GFLOP/s, as in '14.36' or '54,945'."""
    decimals = _DIGITS - 1 - math.floor(math.log10(gflops)) if gflops > 0 else 0
    return f"{gflops:,.{max(decimals, 0)}f}"


def quotient(gflops: float, other: float) -> float:
    """The first of two speeds over the second, both as `speed` prints them."""
    return _printed(gflops) / _printed(other)


def ratio(record: Record) -> float | None:
    """A record's speed over its baseline's, both as printed; None where it has no baseline or took no time.

    Raises:
        RecordsError: the record's ratio is not that of its speed and its baseline's: they are from different runs.
    """
    if record.ratio is None or record.baseline is None:
        return None
    if not math.isclose(record.ratio * record.baseline.gflops, record.gflops, rel_tol=_AGREEMENT):
        speeds = f"{record.gflops:,.1f} GFLOP/s over the baseline's {record.baseline.gflops:,.1f}"
        raise RecordsError(
            f"the ratio {record.ratio:.4f} of {record.kernel} at {record.shape} is not that of its {speeds}: "
            "ratios must come from one run"
        )
    return quotient(record.gflops, record.baseline.gflops)


def share(record: Record, decimals: int = 1) -> str:
    """A record's percentage of its baseline's speed, as in '106.9%'; empty where there is none.

    Raises:
        RecordsError: see `ratio`.
    """
    value = ratio(record)
    return "" if value is None else f"{100 * value:.{decimals}f}%"


def baseline_speed(record: Record) -> str:
    """The speed of a record's baseline, and what it computed in where that is not float32, as in '402,263 (tf32)'."""
    if record.baseline is None:
        return ""
    kind = "" if record.baseline_arithmetic == "float32" else f" ({record.baseline_arithmetic})"
    return f"{speed(record.baseline.gflops)}{kind}"


def _printed(gflops: float) -> float:
    return float(speed(gflops).replace(",", ""))
