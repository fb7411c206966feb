"""A product of matrices on the host, tile by tile through an engine's memory (tiles.py says which and when).

host -> GPU     blocks of A and B, as soon as the step that reads a slot last has ended
GPU             the products of a tile, each on what has arrived
GPU -> host     the tile before it
"""

import contextlib
import sys
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.api import activations
from tilewright.api.arrays.operand import HOST, Operand, engine_operand
from tilewright.api.call import Call
from tilewright.api.gpu import planned_call_of, pointers_of
from tilewright.api.out_of_core.tiles import Load, Sizes, TileStep, Tiling, tiling
from tilewright.core.dtypes import FLOAT8, ITEM_BYTES, LARGEST_FLOAT8
from tilewright.core.hardware import ceil_div
from tilewright.core.problem import Scalars
from tilewright.runtime.base import Engine, Matrix

SHOWN_S = 2.0
"""A product that takes longer says in a terminal how far it is."""

_AHEAD = 8
"""Blocks that are being moved while a product runs, at most."""

Wait = Callable[[], None]


class Matrices(NamedTuple):
    """Arrays of a product of two matrices on the host, and what is asked."""

    call: Call
    """Whose request, library and bias side hold."""
    a: NDArray[Any]
    b: NDArray[Any]
    c: NDArray[Any] | None
    """Where it is added."""
    bias: NDArray[Any] | None
    out: NDArray[Any]

    @property
    def scratch(self) -> int:
        """Bytes that products need for each element of a factor: parts of float32, or a copy in another order."""
        engine = self.call.engine
        return 0 if engine is None or engine.capability is None else 6 if self.a.dtype == np.float32 else 2

    @property
    def sizes(self) -> Sizes:
        (m, k), n = self.a.shape, self.b.shape[1]
        item, result = ITEM_BYTES[str(self.a.dtype)], ITEM_BYTES[str(self.out.dtype)]
        return Sizes(m, n, k, item, item, result, self.c is not None, self.scratch)

    def rows(self, part: slice) -> "Matrices":
        """Matrices of some rows of the result."""
        bias = self.bias[part] if self.call.side == "column" and self.bias is not None else self.bias
        c = None if self.c is None else self.c[part]
        return self._replace(a=self.a[part], c=c, bias=bias, out=self.out[part])


class Progress:
    """Rows of a result that are done; of several matrices, one after the other."""

    def __init__(self, matrices: int = 1) -> None:
        self._matrices, self._matrix = matrices, 0
        self._left: dict[tuple[int, int], int] = {}
        self._done = self._all = 0
        self._began = self._shown = time.monotonic()
        self.stopped = False
        """Whether nothing more is to be started."""

    def begin(self, cut: Tiling, first_row: int) -> None:
        """A product in these tiles begins; its rows are those of the result from one on."""
        across = ceil_div(cut.sizes.n, cut.cols)
        for begin in range(0, cut.sizes.m, cut.rows):
            end = min(begin + cut.rows, cut.sizes.m)
            self._left[first_row + begin, first_row + end] = across
            self._all += across

    def tile(self, begin: int, end: int) -> None:
        """A tile of these rows has been written."""
        self._left[begin, end] -= 1
        self._done += 1
        now = time.monotonic()
        if now - self._began > SHOWN_S and now - self._shown > 0.2 and _in_terminal():
            self._shown = now
            left = (now - self._began) * (self._all - self._done) / self._done
            sys.stderr.write(f"\rtilewright.matmul: {self._done} of {self._all} tiles, about {left:.0f} s left  ")
            sys.stderr.flush()

    def end(self) -> None:
        """All has been done of one of the matrices."""
        self._matrix += 1
        if self._matrix < self._matrices:
            self._left.clear()
        if self._shown > self._began:
            sys.stderr.write("\r" + " " * 60 + "\r")

    def words(self) -> str:
        """Sentence on the rows of `out` that are done."""
        which = f"of matrix {self._matrix} (counted from 0) of {self._matrices} " if self._matrices > 1 else ""
        spans: list[list[int]] = []
        for begin, end in sorted(span for span, left in self._left.items() if not left):
            if spans and spans[-1][1] == begin:
                spans[-1][1] = end
            else:
                spans.append([begin, end])
        done = ", ".join(f"{begin} to {end - 1}" for begin, end in spans) or "none"
        return f"out: rows {which}that are done: {done}. Others may hold what they held before, or parts of the result."


def _in_terminal() -> bool:
    with contextlib.suppress(ValueError, AttributeError):
        return sys.stderr.isatty()
    return False


@np.errstate(all="ignore")  # by thread, and several may divide a product
def multiply(matrices: Matrices, engine: Engine, limit: int, progress: Progress, first_row: int = 0) -> None:
    """Multiply through an engine's memory, and write the result.

    Args:
        matrices, engine: what, and where.
        limit: bytes that may be allocated there.
        progress: told which tiles are written.
        first_row: of the whole result, that these are.

    Raises:
        ProblemError: not even small tiles fit into the limit.
        LaunchError, MemoryError: of the engine.
    """
    cut = tiling(matrices.sizes, limit, matrices.call.request.batch_invariant)
    progress.begin(cut, first_row)
    work = _StreamedProduct(matrices, engine, cut, progress, first_row)
    try:
        work.run()
    finally:
        work.settle()


class _ResultTile(NamedTuple):
    """A tile of the result on its way to the host."""

    stored: Wait
    into: NDArray[Any] | None
    """Where sums were copied that are not the result yet, or the result where it has gaps."""
    rows: slice
    cols: slice


class _StreamedProduct:
    """A product that runs."""

    def __init__(self, matrices: Matrices, engine: Engine, cut: Tiling, progress: Progress, first_row: int) -> None:
        self._matrices, self._engine, self._cut = matrices, engine, cut
        self._progress, self._first_row = progress, first_row
        call = matrices.call
        rung = call.request.rung
        self._columns = rung is None or "T" in "".join(rung[0].support.layouts)
        factors, result = str(matrices.a.dtype), str(matrices.out.dtype)
        self._finishes = cut.parts > 1 and result != "float32"
        """Whether the host finishes the result: sums of several parts are float32."""
        self._sums = "float32" if self._finishes else result
        self._blocks = {
            "A": [engine.empty(1, cut.rows * cut.depth, factors) for _ in range(cut.a_slots)],
            "B": [engine.empty(1, cut.depth * cut.cols, factors) for _ in range(cut.b_slots)],
        }
        self._there: dict[tuple[str, int], Operand] = {}
        self._results = [engine.empty(1, cut.rows * cut.cols, self._sums) for _ in range(cut.results)]
        self._bias = None
        if matrices.bias is not None and not self._finishes:
            self._bias = engine.upload(np.ascontiguousarray(matrices.bias.reshape(1, -1)))
        self._marks: list[Any] = []
        self._loading: dict[tuple[str, int], Wait] = {}
        self._loads: deque[Load] = deque(load for step in cut.steps for load in step.loads)
        self._storing: deque[_ResultTile] = deque()

    def run(self) -> None:
        """Do all of it."""
        tile, seen, parts = -1, 0, self._cut.parts
        for number, step in enumerate(self._cut.steps):
            if self._progress.stopped:
                return
            self._load(number)
            begins, seen = seen == 0, seen + 1
            if begins:
                tile += 1
                self._await_stores(len(self._results) - 1)
            memory = self._results[tile % len(self._results)]
            for side, slot in (("A", step.a_slot), ("B", step.b_slot)):
                if (waits := self._loading.pop((side, slot), None)) is not None:
                    waits()
            self._launch(step, memory, begins, ends=seen == parts)
            self._marks.append(self._engine.mark())
            if seen == parts:
                self._store(step, memory)
                seen = 0
        self._await_stores(0)

    def settle(self) -> None:
        """Wait until nothing reads or writes the arrays and the memory any more."""
        waits: list[Callable[[], object]] = [partial(self._written, tile) for tile in self._storing]
        waits += self._loading.values()
        if self._storing or self._loads:  # something went wrong
            waits.append(self._engine.synchronize)
        for wait in waits:
            with contextlib.suppress(Exception):
                wait()

    def _load(self, number: int) -> None:
        """Start to move what this step reads, and what the next ones do for which there is room."""
        needed = {(load.side, load.slot, load.line, load.part) for load in self._cut.steps[number].loads}
        while self._loads:
            load = self._loads[0]
            if load.after >= number or (not needed and len(self._loading) >= _AHEAD):
                return
            self._loads.popleft()
            needed.discard((load.side, load.slot, load.line, load.part))
            after = self._marks[load.after] if load.after >= 0 else None
            block = self._block(load)
            self._loading[load.side, load.slot] = self._move(load, block, after)

    def _block(self, load: Load) -> NDArray[Any]:
        cut, matrices = self._cut, self._matrices
        part = slice(load.part * cut.depth, (load.part + 1) * cut.depth)
        if load.side == "A":
            return matrices.a[load.line * cut.rows : (load.line + 1) * cut.rows, part]
        return matrices.b[part, load.line * cut.cols : (load.line + 1) * cut.cols]

    def _move(self, load: Load, block: NDArray[Any], after: Any) -> Wait:
        memory = self._blocks[load.side][load.slot]
        by_columns = self._columns and _by_columns(block)
        self._there[load.side, load.slot] = operand_of(load.side.lower(), memory, block.shape, by_columns)
        return self._engine.load(memory.pointer, _lines(block.T if by_columns else block), after)

    def _await_stores(self, most: int) -> None:
        """Wait until at most this number of tiles are on their way."""
        while len(self._storing) > most:
            self._written(self._storing[0])
            self._storing.popleft()

    def _launch(self, step: TileStep, memory: Matrix, begins: bool, ends: bool) -> None:
        """Start the product of a step, which adds to what the memory holds unless a tile begins."""
        matrices, engine, call = self._matrices, self._engine, self._matrices.call
        a, b = self._there["A", step.a_slot], self._there["B", step.b_slot]
        rows, cols = self._tile(step)
        shape = a.shape[0], b.shape[1]
        out = operand_of("out", memory, shape)
        alpha, beta, _ = call.scalars
        added = 0.0 if begins else 1.0
        if begins and matrices.c is not None and not self._finishes:
            engine.load(memory.pointer, _lines(matrices.c[rows, cols]))()
            added = beta
        epilogue = ends and not self._finishes
        request = call.request if epilogue else call.request._replace(activation=None)
        if self._finishes:
            request = request._replace(out_dtype="float32")
            alpha = 1.0
        bias, scalars = self._part_of_bias(rows, cols) if epilogue else None, Scalars(alpha, added)
        there = call._replace(request=request, engine=engine, a=a, b=b, out=out, bias=bias, scalars=scalars)
        there = there._replace(c=out if added else None, prepared=None)
        planned = planned_call_of(there)
        engine.start(planned.plan, pointers_of(there, planned, a, b, out, out, bias), scalars)

    def _part_of_bias(self, rows: slice, cols: slice) -> Operand | None:
        if self._bias is None:
            return None
        column = self._matrices.call.side == "column"
        begin, end, _ = (rows if column else cols).indices(self._bias.cols)
        pointer = self._bias.pointer + begin * ITEM_BYTES[self._bias.dtype]
        memory = Matrix(pointer, 1, end - begin, end - begin, self._bias.dtype, self._bias)
        return engine_operand("bias", memory, (end - begin, 1) if column else (end - begin,), HOST)

    def _tile(self, step: TileStep) -> tuple[slice, slice]:
        cut, (m, n) = self._cut, self._matrices.out.shape
        begin, left = step.row * cut.rows, step.col * cut.cols
        return slice(begin, min(begin + cut.rows, m)), slice(left, min(left + cut.cols, n))

    def _store(self, step: TileStep, memory: Matrix) -> None:
        rows, cols = self._tile(step)
        target = self._matrices.out[rows, cols]
        direct = not self._finishes and _has_lines(target)
        into = None if direct else np.empty(target.shape, self._sums)
        stored = self._engine.store(target if into is None else into, memory.pointer, self._marks[-1])
        self._storing.append(_ResultTile(stored, into, rows, cols))

    def _written(self, tile: _ResultTile) -> None:
        """Wait for a tile, and finish it."""
        tile.stored()
        matrices, call = self._matrices, self._matrices.call
        if tile.into is not None:
            target = matrices.out[tile.rows, tile.cols]
            if self._finishes:
                c = None if matrices.c is None else matrices.c[tile.rows, tile.cols]
                bias = matrices.bias
                if bias is not None:
                    column = call.side == "column"
                    bias = bias.reshape(-1)[tile.rows if column else tile.cols]
                    bias = bias.reshape(-1, 1) if column else bias
                finish(call, tile.into, c, bias, target)
            else:
                np.copyto(target, tile.into)
        self._progress.tile(self._first_row + tile.rows.start, self._first_row + tile.rows.stop)


def finish(
    call: Call, sums: NDArray[Any], c: NDArray[Any] | None, bias: NDArray[Any] | None, out: NDArray[Any]
) -> None:
    """activation(alpha * sums + beta * c + bias), rounded to the type of `out`.

    Args:
        call: whose activation and scalars hold.
        sums: float32, complex64 or int32, of out's shape, or what broadcasts to it.
        c, bias: None where there is none; the bias broadcasts to the result.
        out: where the result goes.
    """
    alpha, beta, factor_b = call.scalars
    number = np.int32 if out.dtype == np.int32 else np.float32
    result: NDArray[Any] = sums.astype(number, copy=False) if sums.dtype == np.int32 else sums
    if alpha != 1:
        result = np.multiply(result, number(alpha))
    if factor_b != 1:
        result = np.multiply(result, np.complex64(factor_b))
    if beta and c is not None:
        result = result + number(beta) * c.astype(result.dtype, copy=False)
    if bias is not None:
        result = result + bias.astype(result.dtype)
    result = activations.apply(call.request.activation, result)
    if out.dtype.name in FLOAT8:
        result = np.clip(result, -LARGEST_FLOAT8, LARGEST_FLOAT8)
    np.copyto(out, result, casting="same_kind")


def _by_columns(array: NDArray[Any]) -> bool:
    """Whether columns are neighbours in memory, and rows are not."""
    item = array.itemsize
    return array.shape[1] > 1 and array.strides[1] != item and (array.strides[0] == item or array.shape[0] == 1)


def _has_lines(array: NDArray[Any]) -> bool:
    """Whether elements of a row are neighbours, and rows do not overlap."""
    item, (rows, cols) = array.itemsize, array.shape
    return (cols < 2 or array.strides[1] == item) and (rows < 2 or array.strides[0] >= item)


def _lines(array: NDArray[Any]) -> NDArray[Any]:
    """Array with its elements in lines: neighbours along rows."""
    return array if _has_lines(array) else np.ascontiguousarray(array)


def operand_of(argument: str, memory: Matrix, shape: tuple[int, ...], by_columns: bool = False) -> Operand:
    """Operand that a host array of this shape has become in memory of an engine, without gaps; by_columns: whether the
    elements of columns are neighbours."""
    if not by_columns:
        return engine_operand(argument, memory, shape, HOST)
    *batch, rows, cols = shape
    found = engine_operand(argument, memory, (*batch, cols, rows), HOST)
    return found._replace(shape=shape, strides=(*found.strides[:-2], found.strides[-1], found.strides[-2]))
