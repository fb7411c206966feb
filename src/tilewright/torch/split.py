"""One product of PyTorch's tensors on several GPUs: rows of the result are divided among them.

    GPU 0, where the tensors lie        GPU 1
    a[:m0] @ b                          copies blocks of a[m0:] and of b, each twice as long as the one before,
                                        multiplies each with all that came before it, and copies the result to out

         b0  b1   b2        Products of GPU 1, by number: a0 b0, a1 b0, (a0 a1) b1, a2 (b0 b1), (a0 a1 a2) b2. The first
    a0   0   2    4         begins when little has come, and later ones are large. They are in two streams: where one
    a1   1   2    4         leaves multiprocessors idle at its end, the next one begins.
    a2   3   3    4

Which rows a GPU has depends on the sizes and on the GPU's kind alone, so results are the same bits in every run.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from tilewright.analysis.cost import predict
from tilewright.calls import Call, Rung, gpu_engine
from tilewright.errors import ArrayError, TilewrightError
from tilewright.front import matmul
from tilewright.gpus import find_gpu
from tilewright.problem import ITEM_BYTES, Arithmetic, Problem
from tilewright.select.selector import select
from tilewright.shapes import size

LINK_BYTES_US = 3.5e5
"""Bytes a microsecond that are expected between two GPUs: what docs/scaling.md has for NVLink, less a tenth."""

_UNIT = 128
"""Rows of a share are a multiple of this."""

_FIRST = 1024
"""Rows or columns of the first block: little has to come before the first product."""

_MOST = 1024
"""Rows or columns of a block for each byte of an element, at most: the last result is copied when all is multiplied.
Products of float32 take longer, and split their factors into terms each time."""


class Shares(NamedTuple):
    """Who computes which rows of a result."""

    bounds: tuple[int, ...]
    """Where each GPU's rows begin, and where the last one's end; the first has the tensors."""


def multiply(call: Call, arrays: dict[str, Any], settings: dict[str, Any], gpus: Sequence[int]) -> Any:
    """The product of a call that was checked, on several GPUs; ordered in the current stream of that of its tensors.

    Args:
        call, arrays: what was checked, and the tensors of it.
        settings: keywords for `matmul` of parts of the product.
        gpus: their numbers.

    Raises:
        ArrayError: it is no product of two matrices, or the GPU of the tensors is not among them.
        LaunchError: the driver refuses to copy between two GPUs.
    """
    a, b, c, out, bias = (arrays[name] for name in ("a", "b", "c", "out", "bias"))
    if a.dim() != 2 or b.dim() != 2:
        raise ArrayError(
            f"devices divides a product of two matrices, got a of {size(a.shape)} and b of {size(b.shape)}"
        )
    home = a.device.index
    if home not in gpus:
        raise ArrayError(f"devices must have GPU {home}, where a lies, got {', '.join(map(str, gpus))}")
    result = a.new_empty(a.shape[0], b.shape[1], dtype=getattr(torch, call.arithmetic.result)) if out is None else out
    target = result if out is None or _is_dense(out) else torch.empty(out.shape, dtype=out.dtype, device=out.device)
    added = _dense(c, _by_columns(target)) if call.reads_c else None
    bias = None if bias is None else bias.contiguous()
    operands = _Operands(_dense(a, _by_columns(a)), _dense(b, _by_columns(b)), added, target, bias, call.side)
    if b.shape[1] > a.shape[0]:
        operands = operands.transposed
    shares = shares_of(call, operands, len(gpus))
    order = [home, *(one for one in gpus if one != home)]
    current = torch.cuda.current_stream(home)
    start = current.record_event()
    with torch.cuda.device(home):
        begin, end = shares.bounds[:2]
        operands.part(slice(begin, end)).multiply(settings)
    ends = [
        _elsewhere(operands.part(slice(begin, end)), settings, home, other, start)
        for other, (begin, end) in zip(order[1:], pairwise(shares.bounds[1:]), strict=True)
        if end > begin
    ]
    for event in ends:
        current.wait_event(event)
    return result if target is result else result.copy_(target)


class _Operands(NamedTuple):
    """Tensors of a product, or of a part of one."""

    a: Any
    b: Any
    c: Any
    out: Any
    bias: Any
    side: str | None

    @property
    def transposed(self) -> "_Operands":
        """Those of the transposed result."""
        bias, side = self.bias, None
        if self.side is not None:
            side = "column" if self.side == "row" else "row"
            bias = bias.reshape(-1, 1) if side == "column" else bias.reshape(-1)
        c = None if self.c is None else self.c.T
        return _Operands(self.b.T, self.a.T, c, self.out.T, bias, side)

    def part(self, rows: slice, cols: slice = slice(None)) -> "_Operands":
        """Those of rows and columns of the result."""
        bias = self.bias
        if self.side == "column":
            bias = bias[rows]
        elif self.side == "row":
            bias = bias.reshape(-1)[cols]
        c = None if self.c is None else self.c[rows, cols]
        return _Operands(self.a[rows], self.b[:, cols], c, self.out[rows, cols], bias, self.side)

    def multiply(self, settings: dict[str, Any]) -> None:
        """Start the product."""
        beta = settings["beta"] if self.c is not None else 0.0
        matmul(self.a, self.b, out=self.out, c=self.c, bias=self.bias, **(settings | {"beta": beta}))


def shares_of(call: Call, operands: _Operands, count: int) -> Shares:
    """Rows for each of several GPUs, so that all end at the same time, as the cost model has it."""
    (m, k), n = operands.a.shape, operands.b.shape[1]
    engine = call.engine
    assert engine is not None and engine.capability is not None
    gpu = engine.capability, engine.device_name
    return _shares(call.arithmetic, call.request.rung, gpu, (m, n, k), operands.c is not None, count)


@lru_cache(maxsize=256)
def _shares(
    arithmetic: Arithmetic,
    rung: Rung | None,
    gpu: tuple[tuple[int, int], str],
    sizes: tuple[int, int, int],
    reads_c: bool,
    count: int,
) -> Shares:
    m, n, k = sizes
    taken_us = partial(_expected_us, arithmetic, rung, gpu, k)

    def bounds_of(own: int) -> tuple[int, ...]:
        """Where rows begin, of a GPU with the tensors that has this many times _UNIT, and of others with the rest."""
        each = -(-max(m - own * _UNIT, 0) // (_UNIT * max(count - 1, 1))) * _UNIT
        return (0, *(min(own * _UNIT + other * each, m) for other in range(count - 1)), m)

    def ends_first(own: int) -> bool:
        bounds = bounds_of(own)
        height = bounds[2] - bounds[1]
        return taken_us(bounds[1], n) < _end_us(arithmetic, taken_us, (height, n, k), reads_c, count - 1)

    least, most = -(-m // (_UNIT * count)), -(-m // _UNIT)
    if count == 1 or not taken_us(m, n):
        return Shares(bounds_of(least))
    while least < most:
        own = (least + most) // 2
        least, most = (own + 1, most) if ends_first(own) else (least, own)
    return Shares(bounds_of(least))


def _end_us(
    arithmetic: Arithmetic,
    taken_us: Callable[[int, int], float],
    sizes: tuple[int, int, int],
    reads_c: bool,
    others: int,
) -> float:
    """When one of several other GPUs has copied its last result; all load over the link of the one with the tensors."""
    m, n, k = sizes
    item, result = ITEM_BYTES[arithmetic.factors], ITEM_BYTES[arithmetic.result]
    came = multiplied = returned = 0.0
    for piece in pieces(_blocks(m, item), _blocks(n, item)):
        rows, cols = (one.stop - one.start for one in (piece.rows, piece.cols))
        loaded = sum(one.stop - one.start for _, one in piece.loads) * k * item + reads_c * rows * cols * result
        came += others * loaded / LINK_BYTES_US
        multiplied = max(multiplied, came) + taken_us(rows, cols)
        returned = max(returned, multiplied) + others * rows * cols * result / LINK_BYTES_US
    return returned


@lru_cache(maxsize=4096)
def _expected_us(
    arithmetic: Arithmetic, rung: Rung | None, gpu: tuple[tuple[int, int], str], k: int, m: int, n: int
) -> float:
    """What a product takes a GPU of this capability and name; 0 where nobody can tell."""
    capability, name = gpu
    try:
        problem = Problem(m, n, k, arithmetic)
        if rung is None:
            kernel, config = select(problem, capability, name)
        else:
            kernel, overrides = rung
            config = kernel.config(dict(overrides), capability=capability)
        cost = predict(kernel, config, problem, find_gpu(name, capability))
    except (TilewrightError, AttributeError):
        return 0.0
    return cost.us if cost else 0.0


class Piece(NamedTuple):
    """A product of a share, and what is loaded for it: blocks of rows of a ("a"), of columns of b ("b")."""

    loads: tuple[tuple[str, slice], ...]
    rows: slice
    cols: slice


def pieces(rows: Sequence[slice], cols: Sequence[slice]) -> Iterator[Piece]:
    """Products that make a share, in an order in which each block meets all that came before it.

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


def _blocks(length: int, item: int) -> list[slice]:
    """Blocks of a share along a dimension, each as long as all before it, up to a size.

    Args:
        length: of the dimension.
        item: bytes of an element.
    """
    found: list[slice] = []
    begin, each = 0, _FIRST
    while begin < length:
        left = length - begin
        taken = left if left < each + each // 2 else each
        found.append(slice(begin, begin + taken))
        begin += taken
        each = min(max(begin, _FIRST), _MOST * item)
    return found


def _elsewhere(part: _Operands, settings: dict[str, Any], home: int, other: int, start: Any) -> Any:
    """Start a part of the product on another GPU; the event of its end."""
    copying, returning, *multiplying = _streams(other)
    with torch.cuda.device(other), torch.cuda.stream(multiplying[0]):
        there = _Operands(
            _like(part.a, other),
            _like(part.b, other),
            None if part.c is None else _like(part.out, other),
            _like(part.out, other),
            None if part.bias is None else part.bias.new_empty(part.bias.shape, device=other),
            part.side,
        )
    if there.c is not None:
        there = there._replace(c=there.out)  # a part of c becomes one of the result
    copying.wait_stream(multiplying[0])
    copying.wait_event(start)
    if part.bias is not None:
        _copy(there.bias.reshape(1, -1), part.bias.reshape(1, -1), other, home, copying)
    item = part.a.element_size()
    for number, piece in enumerate(pieces(_blocks(part.a.shape[0], item), _blocks(part.b.shape[1], item))):
        for side, block in piece.loads:
            if side == "a":
                _copy(there.a[block], part.a[block], other, home, copying)
            else:
                _copy(there.b[:, block], part.b[:, block], other, home, copying)
        tile, own = there.part(piece.rows, piece.cols), part.part(piece.rows, piece.cols)
        if own.c is not None:
            _copy(tile.out, own.c, other, home, copying)
        stream = multiplying[number % 2]
        stream.wait_event(copying.record_event())
        with torch.cuda.device(other), torch.cuda.stream(stream):
            tile.multiply(settings)
        returning.wait_event(stream.record_event())
        _copy(own.out, tile.out, home, other, returning)
    multiplying[0].wait_stream(returning)  # before its memory is used again
    return returning.record_event()


@lru_cache
def _streams(device: int) -> tuple[Any, ...]:
    """Streams of a GPU: for copies to it, for copies of results, and two for products."""
    return tuple(torch.cuda.Stream(device) for _ in range(4))


def _like(tensor: Any, device: int) -> Any:
    """Memory for a tensor on another GPU, without gaps, in the same order."""
    if _by_columns(tensor):
        return tensor.new_empty(tensor.shape[::-1], device=device).T
    return tensor.new_empty(tensor.shape, device=device)


def _by_columns(tensor: Any) -> bool:
    return bool(tensor.stride(0) == 1 and tensor.stride(1) != 1 and tensor.shape[1] > 1)


def _copy(target: Any, source: Any, to: int, of: int, stream: Any) -> None:
    """Start to copy a matrix between two GPUs, in a stream."""
    from tilewright.engines.peers import Lines, copy_lines  # noqa: PLC0415 - needs the CUDA bindings

    if _by_columns(target):
        target, source = target.T, source.T
    item = source.element_size()
    lines = [Lines(one.data_ptr(), one.stride(0) * item) for one in (target, source)]
    count, length = source.shape
    copy_lines(_engine(to), lines[0], _engine(of), lines[1], length * item, count, stream.cuda_stream)


def _is_dense(matrix: Any) -> bool:
    """Whether its rows, or its columns, are neighbours in memory."""
    return bool(_by_columns(matrix) or matrix.shape[1] < 2 or matrix.stride(1) == 1)


def _dense(matrix: Any, by_columns: bool) -> Any:
    """The same elements, in lines of neighbours: columns or rows."""
    if _is_dense(matrix) and _by_columns(matrix) == by_columns:
        return matrix
    return matrix.T.contiguous().T if by_columns else matrix.contiguous()


def _engine(device: int) -> Any:
    return gpu_engine(None, device)
