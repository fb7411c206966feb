"""One product of PyTorch's tensors on several GPUs: rows of the result are divided among them.

    GPU 0, where the tensors lie        GPU 1
    a[:m0] @ b                          copies blocks of a[m0:] and of b, in the order of `tiles.wavefront`,
                                        multiplies each tile that is complete, and copies it to out

Which rows a GPU has depends on the sizes and on the GPU's kind alone, so results are the same bits in every run.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from tilewright.analysis.cost import predict
from tilewright.calls import Call, gpu_engine
from tilewright.errors import ArrayError, TilewrightError
from tilewright.front import matmul
from tilewright.gpus import find_gpu
from tilewright.problem import ITEM_BYTES, Problem
from tilewright.select.selector import select
from tilewright.shapes import size
from tilewright.tiles import wavefront

LINK_BYTES_US = 3e5
"""Bytes a microsecond that are expected between two GPUs."""

_UNIT = 128
"""Rows of a share are a multiple of this."""

_BLOCK = 2048
"""Rows or columns of a tile, about."""

_MOST_BLOCKS = 8


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
    """Rows for each of several GPUs, so that all end at the same time, as the cost model has it.

    The others begin when their first blocks have come, and end when their last tile has been copied.
    """
    (m, k), n = operands.a.shape, operands.b.shape[1]
    item, result = ITEM_BYTES[call.arithmetic.factors], ITEM_BYTES[call.arithmetic.result]
    moved = 2 * min(_BLOCK, n) * k * item + min(_BLOCK, n) * _BLOCK * result
    late = min(moved / LINK_BYTES_US / max(_expected_us(call, m, n, k), 1.0), 1.0)
    own = (1 + (count - 1) * late) / count
    bounds = [0]
    for number in range(count):
        share = own if number == 0 else (1 - own) / max(count - 1, 1)
        bounds.append(min(-(-round(bounds[-1] + share * m) // _UNIT) * _UNIT, m))
    return Shares((*bounds[:-1], m))


def _expected_us(call: Call, m: int, n: int, k: int) -> float:
    """What the whole product takes one GPU; 0 where nobody can tell."""
    engine = call.engine
    assert engine is not None and engine.capability is not None
    try:
        problem = Problem(m, n, k, call.arithmetic)
        if call.request.rung is None:
            kernel, config = select(problem, engine.capability, engine.device_name)
        else:
            kernel, overrides = call.request.rung
            config = kernel.config(dict(overrides), capability=engine.capability)
        cost = predict(kernel, config, problem, find_gpu(engine.device_name, engine.capability))
    except (TilewrightError, AttributeError):
        return 0.0
    return cost.us if cost else 0.0


def _elsewhere(part: _Operands, settings: dict[str, Any], home: int, other: int, start: Any) -> Any:
    """Start a part of the product on another GPU; the event of its end."""
    copying, multiplying, returning = _streams(other)
    with torch.cuda.device(other), torch.cuda.stream(multiplying):
        there = _Operands(
            _like(part.a, other),
            _like(part.b, other),
            None if part.c is None else _like(part.out, other),
            _like(part.out, other),
            None if part.bias is None else part.bias.new_empty(part.bias.shape, device=other),
            part.side,
        )
    if there.c is not None:
        there = there._replace(c=there.out)  # a tile of c becomes one of the result
    copying.wait_stream(multiplying)
    copying.wait_event(start)
    if part.bias is not None:
        _copy(there.bias.reshape(1, -1), part.bias.reshape(1, -1), other, home, copying)
    rows, cols = _cuts(part.a.shape[0]), _cuts(part.b.shape[1])
    came: set[tuple[str, int]] = set()
    for row, col in wavefront(len(rows), len(cols)):
        if ("a", row) not in came:
            _copy(there.a[rows[row]], part.a[rows[row]], other, home, copying)
        if ("b", col) not in came:
            _copy(there.b[:, cols[col]], part.b[:, cols[col]], other, home, copying)
        came |= {("a", row), ("b", col)}
        tile, own = there.part(rows[row], cols[col]), part.part(rows[row], cols[col])
        if own.c is not None:
            _copy(tile.out, own.c, other, home, copying)
        multiplying.wait_event(copying.record_event())
        with torch.cuda.device(other), torch.cuda.stream(multiplying):
            tile.multiply(settings)
        returning.wait_event(multiplying.record_event())
        _copy(own.out, tile.out, home, other, returning)
    multiplying.wait_stream(returning)  # before its memory is used again
    return returning.record_event()


@lru_cache
def _streams(device: int) -> tuple[Any, Any, Any]:
    """Streams of a GPU: for copies to it, for products, and for copies of results."""
    return torch.cuda.Stream(device), torch.cuda.Stream(device), torch.cuda.Stream(device)


def _cuts(length: int) -> list[slice]:
    """Blocks of a share along a dimension."""
    count = max(1, min(_MOST_BLOCKS, length // _BLOCK))
    each = -(-length // (_UNIT * count)) * _UNIT
    return [slice(begin, min(begin + each, length)) for begin in range(0, length, max(each, 1))]


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
