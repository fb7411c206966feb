"""Split: factors as sums of matrices of a narrower type, and the memory of what is found out as they are split."""

from typing import NamedTuple

from tilewright.core.hardware import ceil_div

SCALED_K = 64
"""k of one scale, and its rows or columns: see `Split`."""


def scale_run(sides: int) -> int:
    """Scales from one `SCALED_K` to the next, of this many rows or columns, as `part_scales.cuh` has them."""
    return (ceil_div(sides, SCALED_K) + 256 // SCALED_K + 3) // 4 * 4


def scale_count(sides: int, k: int) -> int:
    """Scales of a factor of this many rows or columns."""
    return ceil_div(k, SCALED_K) * scale_run(sides)


RANGE_WORDS = 4
"""Words of what is seen of one factor's elements: `Range` in part_range.cuh."""

NON_FINITE = 4096
"""Room on the list of a factor's elements that are infinite or NaN: `NonFinite::MOST`."""

NON_FINITE_WORDS = 3
"""Words of each element on that list."""

SPLIT_COUNTERS = 2 * RANGE_WORDS + 3
"""Counters of a launch that splits its factors: what it sees of both, and how far its blocks are."""


class Split(NamedTuple):
    """The parts that a kernel wants each of its factors split into: the sum of matrices of narrower elements."""

    dtype: str
    """Their element type."""
    parts: int
    """Number of matrices."""
    scaled: bool = False
    """Whether elements are scaled before, so that the type's range holds them: by a power of two for each square of
    `SCALED_K` rows of A, or columns of B, and as many k. The second part is scaled once more, by 2^11."""
