"""How products are divided among GPUs, and when they end, by what products and copies are expected to take.

One product on several GPUs, rows of the result of each; the factors lie with GPU 0, which all others load from:

         b0  b1   b2        Another GPU multiplies, by number: a0 b0, a1 b0, (a0 a1) b1, a2 (b0 b1), (a0 a1 a2) b2. The
    a0   0   2    4         first product begins when little has come, and later ones are large. The result of one is
    a1   1   2    4         copied while the next is multiplied, and the last block is small.
    a2   3   3    4

Nothing here knows an array or an engine.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, product
from typing import NamedTuple

from tilewright.core.hardware import ceil_div

Taken = Callable[[int, int], float]
"""Function of a product's rows and columns: the microseconds that a GPU is expected to take; 0 if unknown."""

STEP_US = 9.0
"""Microseconds that a product takes longer if it waits for a copy and a copy waits for it: at 8192 in bfloat16 on two
H100s, the four products of matmul_reduce_scatter in one stream took 36 us more than one product."""

LANE_STEP_US = 2.0
"""Like STEP_US, where products take turns in two streams: at 4096x4096x14336 the four took 8 us more."""

UNIT = 128
"""Shares and parts are multiples of this many rows or columns."""

_LEAST = 256
"""Rows or columns of a part."""

_FLOAT32 = 4
"""Bytes of an element."""

_OPERATIONS_US, _OPERATIONS_US_OF_FLOAT32, _LINK_BYTES_US = 756e6, 99e6, 383e3
"""Operations of 16-bit products, operations of float32 products and bytes of a link in one microsecond, by which parts
are counted on every GPU. On two H100s a product of 2048x14336x2048 took 159 us in bfloat16, and a copy of its result
153 us; products of float32 make 99 TFLOP/s."""

_LEAST_STEPS = 4
"""A fourth of a sum's product takes this many times STEP_US, or more, where it moves by itself."""


class Workload(NamedTuple):
    """A product of matrices, and bytes of an element of the factors and of the result."""

    m: int
    n: int
    k: int
    item: int
    result: int
    reads_c: bool = False


class Cuts(NamedTuple):
    """Which blocks another GPU loads."""

    first: int = 1024
    """Rows of a, and columns of b, of the first block."""
    growth: int = 2
    """How many times longer all that has come is with each block than before."""
    last: int = 1024
    """Rows or columns of the last one, along the longer dimension."""

    def blocks(self, m: int, n: int) -> tuple[list[slice], list[slice]]:
        """Blocks of m rows of a, and of n columns of b."""
        return self._along(m, self.last if m > n else 0), self._along(n, self.last if n >= m else 0)

    def _along(self, length: int, last: int) -> list[slice]:
        body = length - last if length >= self.first + 2 * last else length
        found: list[slice] = []
        begin, each = 0, self.first
        while begin < body:
            left = body - begin
            taken = left if left < each + each // 2 else each
            found.append(slice(begin, begin + taken))
            begin += taken
            each = (self.growth - 1) * begin
        return [*found, slice(body, length)] if body < length else found


_CUTS = tuple(Cuts(*one) for one in product((1024, 2048), (2, 3, 8), (512, 1024, 2048)))
"""Candidates, of which the cuts that end first are chosen. Products of float32 split their operands into parts each
time, and take longer than the data for the next one takes to arrive: for them few large blocks are better."""


class RowSplit(NamedTuple):
    """Who computes which rows of a result, and how."""

    bounds: tuple[int, ...]
    """Where each GPU's rows begin, and where the last one's end; the first has the factors."""
    cuts: Cuts
    us: float
    """When all have ended; 0 where nobody can tell."""


def divide(taken_us: Taken, work: Workload, count: int, link_bytes_us: float) -> RowSplit:
    """Rows for each of several GPUs, so that all end as early as can be expected.

    Args:
        taken_us: of a product of k of the work.
        work: the whole product.
        count: GPUs.
        link_bytes_us: bytes a microsecond, one way, that leave or reach the GPU with the factors.
    """
    m, n = work.m, work.n
    least, most = ceil_div(m, UNIT * count), ceil_div(m, UNIT)

    def bounds_of(own: int) -> tuple[int, ...]:
        """Where rows begin, of a GPU with the factors that has this many times UNIT, and of others with the rest."""
        each = ceil_div(max(m - own * UNIT, 0), UNIT * max(count - 1, 1)) * UNIT
        return (0, *(min(own * UNIT + other * each, m) for other in range(count - 1)), m)

    if count == 1 or not taken_us(m, n):
        return RowSplit(bounds_of(least), Cuts(), taken_us(m, n))

    def ends(own: int, cuts: Cuts) -> tuple[float, float]:
        bounds = bounds_of(own)
        part = work._replace(m=bounds[2] - bounds[1])
        return taken_us(bounds[1], n), share_us(taken_us, part, cuts, count - 1, link_bytes_us)

    found = []
    for cuts in _CUTS:
        low, high = least, most
        while low < high:
            own = (low + high) // 2
            first, others = ends(own, cuts)
            low, high = (own + 1, high) if first < others else (low, own)
        found += [(max(ends(own, cuts)), own, cuts) for own in (low, low - 1) if own >= least]
    us, own, cuts = min(found)
    return RowSplit(bounds_of(own), cuts, us)


def share_us(taken_us: Taken, share: Workload, cuts: Cuts, others: int, link_bytes_us: float) -> float:
    """When a GPU without the factors has stored its share of the result where they lie; as many load over one link."""
    return max((one.stored_us for one in timeline(taken_us, share, cuts, others, link_bytes_us)), default=0.0)


class Piece(NamedTuple):
    """A product of a share, and what is loaded for it: blocks of rows of a ("a"), of columns of b ("b")."""

    loads: tuple[tuple[str, slice], ...]
    rows: slice
    cols: slice


class PieceTimes(NamedTuple):
    """When a piece is expected to be done, in microseconds from the first load on."""

    piece: Piece
    arrived_us: float
    """All that is loaded for it is there."""
    multiplied_us: float
    stored_us: float
    """Its part of the result lies with the factors."""


def timeline(taken_us: Taken, share: Workload, cuts: Cuts, others: int, link_bytes_us: float) -> Iterator[PieceTimes]:
    """The pieces of a share, in order: loads, products and stores each begin when the one before has ended."""
    each_us = others / link_bytes_us
    arrived = multiplied = stored = 0.0
    for piece in pieces(*cuts.blocks(share.m, share.n)):
        rows, cols = (one.stop - one.start for one in (piece.rows, piece.cols))
        loaded = sum(one.stop - one.start for _, one in piece.loads) * share.k * share.item
        arrived += (loaded + share.reads_c * rows * cols * share.result) * each_us
        multiplied = max(multiplied, arrived) + taken_us(rows, cols) + STEP_US
        stored = max(stored, multiplied) + rows * cols * share.result * each_us
        yield PieceTimes(piece, arrived, multiplied, stored)


def pieces(rows: Sequence[slice], cols: Sequence[slice]) -> Iterator[Piece]:
    """Products that make a share, in an order in which each block meets all that arrived before it.

    Args:
        rows, cols: blocks of a and of b, in order.
    """
    if rows and cols:
        yield Piece((("a", rows[0]), ("b", cols[0])), rows[0], cols[0])
    for step in range(1, max(len(rows), len(cols)) if rows and cols else 1):
        if step < len(rows):
            yield Piece((("a", rows[step]),), rows[step], slice(0, cols[min(step, len(cols)) - 1].stop))
        if step < len(cols):
            yield Piece((("b", cols[step]),), slice(0, rows[min(step, len(rows) - 1)].stop), cols[step])


def parts_of(rows: int, cols: int, k: int, item: int) -> list[tuple[slice, slice]]:
    """Rows and columns of the parts of a sum that move by themselves: equal ones along the longer dimension.

    Two, or four where the link takes more than half as long as the product, and that is long. So what all parts read
    is little: products of float32 split it into parts each time. Cuts are at multiples of UNIT. They follow from the
    sizes alone: all ranks have to agree, whatever their GPUs.

    Args:
        rows, cols: of the sum.
        k: of the product that is added to it.
        item: bytes of an element.
    """
    longer = max(rows, cols)
    product_us = 2 * rows * cols * k / (_OPERATIONS_US_OF_FLOAT32 if item == _FLOAT32 else _OPERATIONS_US)
    link_us = rows * cols * item / _LINK_BYTES_US
    count = min(4 if 2 * link_us > product_us > 4 * _LEAST_STEPS * STEP_US else 2, longer // _LEAST)
    each = ceil_div(longer, count * UNIT) * UNIT if count > 1 else longer
    spans = [slice(begin, min(begin + each, longer)) for begin in range(0, longer, max(each, 1))] or [slice(0, 0)]
    whole = slice(0, rows), slice(0, cols)
    return [(whole[0], span) if cols >= rows else (span, whole[1]) for span in spans]


def all_gather_us(taken_us: Taken, rows: int, cols: int, shard_bytes: int, count: int, link_bytes_us: float) -> float:
    """When a rank of several has multiplied all shards; the first is its own.

    Args:
        taken_us: of a shard, rows x cols.
        rows, cols: of a shard's product.
        shard_bytes: what each of the others sends.
        count: ranks.
        link_bytes_us: bytes a microsecond, one way.
    """
    ended = 0.0
    for step in range(count):
        ended = max(ended, step * shard_bytes / link_bytes_us) + taken_us(rows, cols) + LANE_STEP_US
    return ended


def reduce_scatter_us(
    taken_us: Taken, rows: int, cols: int, k: int, item: int, count: int, link_bytes_us: float
) -> float:
    """When a rank of several has added its product to the sum of its rows, which came from rank to rank.

    Args:
        taken_us: of a part of a rank's rows.
        rows, cols: of the result of a rank.
        k: of a rank's product.
        item: bytes of an element of the result.
        count: ranks.
        link_bytes_us: bytes a microsecond, one way.
    """
    shapes = [(one.stop - one.start, other.stop - other.start) for one, other in parts_of(rows, cols, k, item)]
    ended, free, arrived = 0.0, 0.0, [0.0] * len(shapes)  # free: when the link is
    for _ in range(count):
        ends = []
        for shape, there in zip(shapes, arrived, strict=True):
            ended = max(ended, there) + taken_us(*shape) + LANE_STEP_US
            ends.append((ended, shape[0] * shape[1] * item / link_bytes_us))
        _, *arrived = accumulate(ends, lambda moved, one: max(moved, one[0]) + one[1], initial=free)
        free = arrived[-1]
    return ended
