"""Steps of a rank's streams in a call, as data: products, copies, signals and waits, in order.

all_gather, rank r of 4: its own shard goes to all others, and shards are multiplied as they arrive.

    copies      r to r+1    r to r+2    r to r+3
    products    shard r     shard r-1   shard r-2   shard r-3

reduce_scatter: the sum of rows of rank j begins at rank j+1, and goes from rank to rank; each adds its product to what
came, and rank j is the last. These rows are cut in parts, along the longer dimension of the sum: each goes its own way,
so that one moves while the other is multiplied. A part lies without gaps where it moves.

    products of a part    rows of r-1    rows of r-2 + what came    rows of r-3 + what came    own rows + what came
    that are moved               to r+1                     to r+1                     to r+1

Products take turns in two streams, called lanes: the last blocks of one leave processors on which the next one begins.
Copies are in streams of their own, those of a sum's parts in one for each lane: so it does not matter which of two
products a GPU begins with. Each sum's order is fixed, so results are the same bits in every run of a number of GPUs.

Nothing here knows an array, a GPU or an engine.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from tilewright.core.hardware import ceil_div, round_up
from tilewright.frameworks.dividing import parts_of
from tilewright.runtime.sequence import Await, DeviceCopy, Location, RecordEvent, Signal, Wait

MAIN, SIDE, LANE, OTHER_SIDE = range(4)
"""Streams: the call's own, that of copies, the other one of products, and that of copies of what this one makes."""

LANES, SIDES = (MAIN, LANE), (SIDE, OTHER_SIDE)
"""Streams of products, and streams of copies of what these make."""

_LINE = 256
"""Bytes that each slot in memory is a multiple of."""

COUNTER_BYTES = 4
"""Bytes of the counter by which a lane of a rank signals to another rank."""


def counter(rank: int, by: int, lane: int) -> Location:
    """Offset in a rank's memory at which a lane of another rank counts."""
    return Location(f"counters{rank}", COUNTER_BYTES * (len(LANES) * by + lane))


class MatrixView(NamedTuple):
    """Elements in memory."""

    location: Location
    rows: int
    cols: int
    strides: tuple[int, int]
    """In elements: from row to row, and from column to column."""


class Multiply(NamedTuple):
    """out = alpha * a @ b, + c where there is one."""

    stream: int
    a: MatrixView
    b: MatrixView
    out: MatrixView
    c: MatrixView | None = None
    alpha: float = 1.0


class Check(NamedTuple):
    """Makes the GPU fail if this call, or one before, is to fail: after all waits of the call."""

    stream: int


Step = Multiply | Check | DeviceCopy | Signal | Wait | RecordEvent | Await


class RankCall(NamedTuple):
    """A call of one rank.

    Bases of places: "A", "B0", "B1", ... the factors; "result0", ... the results; "whole" the gathered A; "scratch"
    memory of the call alone; "memory0", ... what others write to of each rank's memory, in this call; "counters0", ...
    the counters of each rank, one by each lane of each rank: they grow from call to call.
    """

    steps: tuple[Step, ...]
    events: int
    """How many it records."""
    signals: int
    """The number that each lane that writes to another rank signals last."""
    memory_bytes: int
    """Bytes of each rank's memory that others write."""
    scratch_bytes: int
    sources: frozenset[tuple[int, int]]
    """Ranks, and lanes of theirs, whose signals it waits for."""


def tight(base: str, offset: int, rows: int, cols: int) -> MatrixView:
    """A row-major matrix without gaps."""
    return MatrixView(Location(base, offset), rows, cols, (cols, 1))


def rounded(size: int) -> int:
    """Bytes of a slot for this many."""
    return round_up(size, _LINE)


class _StepWriter:
    """Steps in the order in which they are started."""

    def __init__(self, rank: int, *others: int) -> None:
        """others: streams that begin when what came before the call has been done."""
        self.steps: list[Step] = []
        self.events = 0
        self._rank = rank
        for other in others:
            self.order(MAIN, other)

    def order(self, first: int, then: int) -> None:
        """One stream goes on when another has done all that it was given so far."""
        if first != then:
            self.steps += [RecordEvent(first, self.events), Await(then, self.events)]
            self.events += 1

    def send(self, stream: int, rank: int, at: int, source: Location, size: int, number: int, lane: int = 0) -> None:
        """Copy to another rank's memory, and tell it so."""
        if size:
            self.steps.append(DeviceCopy(stream, Location(f"memory{rank}", at), source, size))
        self.steps.append(Signal(stream, counter(rank, self._rank, lane), number))

    def wait(self, stream: int, rank: int, number: int, lane: int = 0) -> None:
        """For the signal of another rank."""
        self.steps.append(Wait(stream, counter(self._rank, rank, lane), number))

    def ended(self) -> tuple[Step, ...]:
        """All steps; the side stream is behind all waits."""
        self.steps.append(Check(SIDE))
        self.order(LANE, MAIN)
        self.order(SIDE, MAIN)
        return tuple(self.steps)


def all_gather(rank: int, size: int, shard: MatrixView, Bs: Sequence[MatrixView], item: int, wanted: bool) -> RankCall:
    """Products of all ranks' shards and each B, one shard behind the other.

    Args:
        rank, size: which rank, of how many.
        shard: its own, without gaps.
        Bs: of the bases B0, B1, ...
        item: bytes of an element.
        wanted: whether the gathered A is: it is copied while products run.
    """
    rows, shard_bytes = shard.rows, shard.rows * shard.cols * item
    slot, own, to_do = rounded(shard_bytes), f"memory{rank}", _StepWriter(rank, SIDE, LANE)

    def keep(source: int, location: Location) -> None:
        if wanted and shard_bytes:
            to_do.steps.append(DeviceCopy(SIDE, Location("whole", source * shard_bytes), location, shard_bytes))

    def multiply(stream: int, source: int, factor: MatrixView) -> None:
        for number, B in enumerate(Bs):
            out = tight(f"result{number}", source * rows * B.cols * item, rows, B.cols)
            to_do.steps.append(Multiply(stream, factor, B, out))

    for step in range(1, size):
        to_do.send(SIDE, (rank + step) % size, rank * slot, shard.location, shard_bytes, 1)
    keep(rank, shard.location)
    multiply(MAIN, rank, shard)
    for step in range(1, size):
        source, stream = (rank - step) % size, LANES[step % len(LANES)]
        arrived = shard._replace(location=Location(own, source * slot))
        to_do.wait(stream, source, 1)
        if wanted or step + len(LANES) >= size:  # the last wait of a lane
            to_do.order(stream, SIDE)
        keep(source, arrived.location)
        multiply(stream, source, arrived)
    others = frozenset((other, 0) for other in range(size) if other != rank)
    return RankCall(to_do.ended(), to_do.events, 1, size * slot, 0, others)


def reduce_scatter(rank: int, size: int, A: MatrixView, B: MatrixView, item: int, mean: bool) -> RankCall:
    """A rank's rows of the sum, or the mean, of all ranks' products.

    Args:
        rank, size: which rank, of how many, which divides the rows of A.
        A: of the base A.
        B: of the base B0.
        item: bytes of an element.
        mean: whether all is divided by the number of ranks.
    """
    rows, alpha, last = A.rows // size, 1 / size if mean else 1.0, size - 1
    after, before, to_do = (rank + 1) % size, (rank - 1) % size, _StepWriter(rank, LANE)
    parts = parts_of(rows, B.cols, A.cols, item)
    shapes = [(part.stop - part.start, cols.stop - cols.start) for part, cols in parts]
    begins = list(accumulate((rounded(m * n * item) for m, n in shapes), initial=0))
    slot, turns = begins.pop(), ceil_div(len(parts), len(LANES))

    def block(of: MatrixView, rows: slice, cols: slice) -> MatrixView:
        by_row, by_col = of.strides
        offset = (rows.start * by_row + cols.start * by_col) * item
        location = Location(of.location.base, of.location.offset + offset)
        return MatrixView(location, rows.stop - rows.start, cols.stop - cols.start, of.strides)

    result = tight("result0", 0, rows, B.cols)
    for step in range(size):
        first = (rank - 1 - step) % size * rows
        for number, ((part, cols), (m, n), begin) in enumerate(zip(parts, shapes, begins, strict=True)):
            (turn, lane), c = divmod(number, len(LANES)), None
            stream, side = LANES[lane], SIDES[lane]
            if step:
                to_do.wait(stream, before, (step - 1) * turns + turn + 1, lane)
                c = tight(f"memory{rank}", (step - 1) * slot + begin, m, n)
            if step == last and number + len(LANES) >= len(parts):  # the last wait of a lane
                to_do.order(stream, SIDE)
            of_a = block(A, slice(first + part.start, first + part.stop), slice(0, A.cols))
            of_b = block(B, slice(0, B.rows), cols)
            moved = tight("scratch", step * slot + begin, m, n)
            out = block(result, part, cols) if step == last else moved
            to_do.steps.append(Multiply(stream, of_a, of_b, out, c, alpha))
            if step < last:
                to_do.order(stream, side)
                to_do.send(
                    side, after, step * slot + begin, moved.location, m * n * item, step * turns + turn + 1, lane
                )
    sums, lanes = last * slot, range(min(len(parts), len(LANES)))
    sources = frozenset((before, lane) for lane in lanes)
    to_do.order(OTHER_SIDE, MAIN)
    return RankCall(to_do.ended(), to_do.events, last * turns, sums, sums, sources)
