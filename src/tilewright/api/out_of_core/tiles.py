"""A product in tiles, of which a GPU holds only some: how large they are, in which order they are multiplied, and which
blocks of the factors are moved when. Nothing here knows an array or an engine.

    B       blocks 0 1 2 ...                    A block is `rows` (of A) or `cols` (of B) by `depth`.
    A 0   [ C 00  C 01  C 02 ]    depth = k     A row of blocks of A stays while B passes by, or the other way round;
      1   [ C 10  ...        ]                  if all of B stays, everything is moved once.
                                  depth < k     Sums of a tile stay while blocks of both pass by.

Of the ways that fit, the one that moves the fewest bytes is taken. Bytes that nothing hides count twice: those before
the first product, and those after the last. What tiles cost the GPU counts too, at what a byte takes there; and so do
lines of tiles that are parts of lines of the result, each of which is a copy of its own to the link.
"""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from tilewright.core.errors import ProblemError
from tilewright.core.hardware import ceil_div, round_up

RESULTS = 3
"""Tiles of the result that the GPU holds: one is multiplied, and others are moved."""

SMALL_BYTES = 2**26
"""A product that moves no more is one tile, if it fits."""

_GPU_BYTE = 1 / 70
"""Cost of a byte of the GPU's own memory, where one over the link costs 1."""

_LINE_BYTES = 7500
"""Cost of a line that a tile copies apart from the next, in bytes over the link: the time that an H100 took longer for
65536x65536x1024 in tiles of 5504x5504 than copies of whole matrices alone."""

_CUTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 4096, 2**14, 2**16, 2**18)
"""Numbers of tiles along a dimension that are considered."""

_UNIT, _SMALL_UNIT = 128, 8
"""Tiles are multiples of the first, and where they are smaller of the second."""

_GOOD = 2048
"""Tiles shorter than this are only taken where others do not fit: their products leave parts of a GPU idle."""

Side = Literal["A", "B"]


class Sizes(NamedTuple):
    """Sizes of a product, and bytes of an element."""

    m: int
    n: int
    k: int
    a_bytes: int
    b_bytes: int
    d_bytes: int
    """Bytes of an element of the result."""
    reads_c: bool = False
    scratch: int = 0
    """Bytes that a product needs besides for each element of its factors, as for parts that these are split into."""


class Load(NamedTuple):
    """A block of a factor that is moved to a slot of the GPU's memory."""

    side: Side
    line: int
    """Number of the block's row of A, or of its column of B."""
    part: int
    """Which part of k."""
    slot: int
    after: int
    """The last step that reads what the slot held before; -1 where it held nothing."""


class TileStep(NamedTuple):
    """One product, which adds to a tile of the result."""

    row: int
    col: int
    part: int
    a_slot: int
    b_slot: int
    loads: tuple[Load, ...]
    """Blocks that are moved for it, since they are not there yet."""


class Tiling(NamedTuple):
    """How a product is cut, and what is held."""

    sizes: Sizes
    rows: int
    cols: int
    depth: int
    a_slots: int
    b_slots: int
    results: int
    steps: tuple[TileStep, ...]

    @property
    def parts(self) -> int:
        """Steps of a tile along k."""
        return max(_count(self.sizes.k, self.depth), 1)

    @property
    def held_bytes(self) -> int:
        """The most that the GPU holds."""
        return _held(self.sizes, (self.rows, self.cols, self.depth), (self.a_slots, self.b_slots, self.results))

    @property
    def moved_bytes(self) -> int:
        """Over the link, in both directions."""
        s = self.sizes
        moved = s.m * s.n * s.d_bytes * (2 if s.reads_c else 1)
        for step in self.steps:
            for load in step.loads:
                depth = min(self.depth, s.k - load.part * self.depth)
                if load.side == "A":
                    moved += min(self.rows, s.m - load.line * self.rows) * depth * s.a_bytes
                else:
                    moved += min(self.cols, s.n - load.line * self.cols) * depth * s.b_bytes
        return moved


class _Candidate(NamedTuple):
    """A way to cut a product, and what it takes."""

    score: float
    tile: tuple[int, int, int]
    """Rows, columns and depth."""
    slots: tuple[int, int, int]
    """For blocks of A and of B, and tiles of the result."""
    window: int
    """Blocks of the factor that stays, between which the other passes by; 0 where sums stay."""
    stays: Side


@lru_cache(maxsize=256)
def tiling(sizes: Sizes, limit: int, only_rows: bool = False) -> Tiling:
    """The tiles and the order that move the fewest bytes.

    Args:
        sizes: of the product; m and n are not 0.
        limit: bytes that the GPU may hold.
        only_rows: whether n and k must stay whole, so that how a row is computed follows from them.

    Raises:
        ProblemError: not even the smallest tiles fit.
    """
    s = sizes
    whole = s.m, s.n, s.k
    moved = s.m * s.k * s.a_bytes + s.k * s.n * s.b_bytes + s.m * s.n * s.d_bytes * (1 + s.reads_c)
    if moved <= SMALL_BYTES and _held(s, whole, (1, 1, 1)) <= limit:
        return Tiling(s, *whole, 1, 1, 1, (TileStep(0, 0, 0, 0, 0, (Load("A", 0, 0, 0, -1), Load("B", 0, 0, 0, -1))),))
    ways = (way for least in (_GOOD, 1) for way in [min(_ways(s, limit, least, only_rows), default=None)] if way)
    best = next(ways, None)
    if best is None:
        least = _held(s, (_least(s.m), *((s.n, s.k) if only_rows else (_least(s.n), _least(s.k)))), (1, 1, 1))
        raise ProblemError(f"memory_limit must be at least {least} bytes for a tile of this product, got {limit}")
    (rows, cols, depth), (a_slots, b_slots, _) = best.tile, best.slots
    counts = _count(s.m, rows), _count(s.n, cols), max(_count(s.k, depth), 1)
    order = _order(*counts, best.window, best.stays, a_slots, b_slots)
    return Tiling(s, *best.tile, *best.slots, tuple(_steps(order, a_slots, b_slots)))


def _least(length: int) -> int:
    """The shortest tile along a dimension."""
    return _lengths(length, 1)[-1]


def _count(length: int, of: int) -> int:
    return ceil_div(length, max(of, 1))


def _lengths(length: int, least: int) -> list[int]:
    """Lengths of tiles along a dimension, the longest first; at least `least`, where the dimension is."""
    found = []
    for cut in _CUTS:
        each = _count(length, cut)
        unit = _UNIT if each > _UNIT else _SMALL_UNIT
        each = min(round_up(each, unit), length)
        if each >= min(least, length) and each not in found:
            found.append(each)
    return found or [length]


def _held(s: Sizes, tile: tuple[int, int, int], slots: tuple[int, int, int]) -> int:
    """Bytes of blocks, tiles and scratch."""
    (rows, cols, depth), (a_slots, b_slots, results) = tile, slots
    d_bytes = max(s.d_bytes, 4) if depth < s.k else s.d_bytes
    blocks = a_slots * rows * depth * s.a_bytes + b_slots * cols * depth * s.b_bytes
    return blocks + results * rows * cols * d_bytes + s.scratch * depth * (rows + cols)


def _ways(s: Sizes, limit: int, least: int, only_rows: bool) -> Iterator[_Candidate]:
    """Ways to divide the product that fit."""
    for rows in _lengths(s.m, least):
        for cols in _lengths(s.n, least)[: 1 if only_rows else None]:
            yield from _ways_of_tile(s, limit, rows, cols)
            for depth in _lengths(s.k, least)[1:] if not only_rows else ():
                down, across = _count(s.m, rows), _count(s.n, cols)
                held = 2, 2, min(RESULTS, down * across)
                if _held(s, (rows, cols, depth), held) <= limit:
                    moved = s.m * s.k * s.a_bytes * across + s.k * s.n * s.b_bytes * down
                    yield _way(s, moved, (rows, cols, depth), held, 0, "A")


def _ways_of_tile(s: Sizes, limit: int, rows: int, cols: int) -> Iterator[_Candidate]:
    """Ways with tiles whose k is whole that fit."""
    tile, a, b = (rows, cols, s.k), rows * s.k * s.a_bytes, cols * s.k * s.b_bytes
    all_a, all_b = s.m * s.k * s.a_bytes, s.k * s.n * s.b_bytes
    down, across = _count(s.m, rows), _count(s.n, cols)
    results = min(RESULTS, down * across)
    left = limit - _held(s, tile, (0, 0, results))
    for few_b in {across, min(2, across)}:
        slots = min(down, (left - few_b * b) // max(a, 1))
        if left >= few_b * b and slots >= min(2, down):
            window = slots if slots == down else slots - 1
            passes = 1 if few_b == across else _count(down, window)
            yield _way(s, all_a + passes * all_b, tile, (slots, few_b, results), window, "A")
    for few_a in {down, min(2, down)}:
        slots = min(across, (left - few_a * a) // max(b, 1))
        if left >= few_a * a and slots >= min(2, across):
            window = slots if slots == across else slots - 1
            passes = 1 if few_a == down else _count(across, window)
            yield _way(s, passes * all_a + all_b, tile, (few_a, slots, results), window, "B")


def _way(
    s: Sizes, moved: int, tile: tuple[int, int, int], slots: tuple[int, int, int], window: int, stays: Side
) -> _Candidate:
    """A candidate, with its score."""
    rows, cols, depth = tile
    parts, down, across = max(_count(s.k, depth), 1), _count(s.m, rows), _count(s.n, cols)
    first = rows * depth * s.a_bytes + depth * cols * s.b_bytes + (rows * cols * s.d_bytes if s.reads_c else 0)
    last = rows * cols * s.d_bytes
    own = 3 * s.scratch * (s.m * s.k * across + s.k * s.n * down) + 8 * s.m * s.n * (parts - 1)
    lines = s.m * across * (1 + s.reads_c) if across > 1 else 0
    score = moved + first + last + own * _GPU_BYTE + lines * _LINE_BYTES
    return _Candidate(score, tile, slots, window, stays)


def _order(
    down: int, across: int, parts: int, window: int, stays: Side, a_slots: int, b_slots: int
) -> list[tuple[int, int, int]]:
    """Rows, columns and parts of k of the steps."""
    if window == 0:
        found = []
        for row in range(down):
            for col in _to_and_fro(across, row):
                turn = row * across + (col if row % 2 == 0 else across - 1 - col)
                found += [(row, col, part) for part in _to_and_fro(parts, turn)]
        return found
    if stays == "B":
        return [(row, col, part) for col, row, part in _order(across, down, parts, window, "A", b_slots, a_slots)]
    found = []
    for number, begin in enumerate(range(0, down, window)):
        end = min(begin + window, down)
        if number == 0 and b_slots >= across:
            found += [(row, col, 0) for row, col in wavefront(end, across)]
        else:
            found += [(row, col, 0) for col in _to_and_fro(across, number) for row in range(begin, end)]
    return found


def wavefront(down: int, across: int) -> list[tuple[int, int]]:
    """All tiles, in an order in which each new row or column of blocks meets all that arrived before it."""
    found = []
    for step in range(max(down, across)):
        if step < down:
            found += [(step, col) for col in range(min(step, across))]
        if step < across:
            found += [(row, step) for row in range(min(step + 1, down))]
    return found


def _to_and_fro(count: int, turn: int) -> Sequence[int]:
    return range(count) if turn % 2 == 0 else range(count - 1, -1, -1)


def _steps(order: Sequence[tuple[int, int, int]], a_slots: int, b_slots: int) -> Iterator[TileStep]:
    """Steps of an order, each with what is moved for it."""
    of_a = _Slots("A", [(row, part) for row, _, part in order], a_slots)
    of_b = _Slots("B", [(col, part) for _, col, part in order], b_slots)
    for number, (row, col, part) in enumerate(order):
        (a_slot, load_a), (b_slot, load_b) = of_a.of(number), of_b.of(number)
        yield TileStep(row, col, part, a_slot, b_slot, load_a + load_b)


class _Slots:
    """The blocks of one factor that are held. What is read again last of all makes room, but not what the step before
    reads: else nothing could be moved while that runs."""

    def __init__(self, side: Side, wanted: Sequence[tuple[int, int]], count: int) -> None:
        self._side: Side = side
        self._wanted, self._count = wanted, count
        self._next = _next_uses(wanted)
        self._held: dict[tuple[int, int], tuple[int, int]] = {}  # slot, and the last step that read it

    def of(self, number: int) -> tuple[int, tuple[Load, ...]]:
        """The slot of what a step reads, and what is moved for it."""
        block = self._wanted[number]
        if block in self._held:
            slot, _ = self._held[block]
            self._held[block] = slot, number
            return slot, ()
        slot, after = len(self._held), -1
        if slot == self._count:
            last = {held: step for held, (_, step) in self._held.items()}
            gone = max(last, key=lambda held: (last[held] < number - 1, self._next[last[held]]))
            slot, after = self._held.pop(gone)
        self._held[block] = slot, number
        return slot, (Load(self._side, *block, slot, after),)


def _next_uses(wanted: Sequence[tuple[int, int]]) -> list[float]:
    """For each step, the next one that reads the same block."""
    found, seen = [math.inf] * len(wanted), dict[tuple[int, int], int]()
    for number in range(len(wanted) - 1, -1, -1):
        found[number] = seen.get(wanted[number], math.inf)
        seen[wanted[number]] = number
    return found
