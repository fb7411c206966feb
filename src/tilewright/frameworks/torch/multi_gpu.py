"""One product of PyTorch's tensors on several GPUs: rows of the result are divided among them.

    GPU 0, where the tensors lie        GPU 1
    a[:m0] @ b                          copies blocks of a[m0:] and of b, multiplies each with all that arrived before
    it,
                                        and copies the result to out, while the next ones come and are multiplied

`frameworks.dividing` says which rows a GPU has, and which blocks it loads: by the sizes and the kind of GPU alone, so
results are the same bits in every run.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from tilewright.api.call import Call, gpu_engine
from tilewright.api.formulate import size
from tilewright.api.front import matmul
from tilewright.api.request import Rung
from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.errors import ArrayError, TilewrightError
from tilewright.core.gpus import find_gpu
from tilewright.core.problem import Arithmetic, Problem
from tilewright.frameworks.dividing import Cuts, RowSplit, Workload, divide, pieces
from tilewright.select.selector import expected_us, select

LINK_BYTES_US = 3.5e5
"""Bytes a microsecond that are expected between two GPUs: nine tenths of what NVLink was measured to move."""


def multiply(call: Call, arrays: dict[str, Any], gpus: Sequence[int]) -> Any:
    """The product of a call that was checked, on several GPUs; ordered in the current stream of that of its tensors.

    Args:
        call, arrays: what was checked, and the tensors of it.
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
    added = None if call.c is None else _dense(c, _by_columns(target))
    bias = None if bias is None else bias.contiguous()
    operands = _SplitOperands(_dense(a, _by_columns(a)), _dense(b, _by_columns(b)), added, target, bias, call.side)
    if b.shape[1] > a.shape[0]:
        operands = operands.transposed
    asked = call.request
    settings = {**call.scalars.named, "activation": asked.activation, "precision": asked.precision}
    if asked.kernel is not None:
        settings |= {"kernel": asked.kernel, "config": dict(asked.config)}
    division = division_of(call, operands, len(gpus))
    order = [home, *(one for one in gpus if one != home)]
    current = torch.cuda.current_stream(home)
    start = current.record_event()
    with torch.cuda.device(home):
        begin, end = division.bounds[:2]
        operands.part(slice(begin, end)).multiply(settings)
    ends = [
        _elsewhere(operands.part(slice(begin, end)), division.cuts, settings, home, other, start)
        for other, (begin, end) in zip(order[1:], pairwise(division.bounds[1:]), strict=True)
        if end > begin
    ]
    for event in ends:
        current.wait_event(event)
    return result if target is result else result.copy_(target)


class _SplitOperands(NamedTuple):
    """Tensors of a product, or of a part of one."""

    a: Any
    b: Any
    c: Any
    out: Any
    bias: Any
    side: str | None

    @property
    def transposed(self) -> "_SplitOperands":
        """Operands of the transposed result."""
        bias, side = self.bias, None
        if self.side is not None:
            side = "column" if self.side == "row" else "row"
            bias = bias.reshape(-1, 1) if side == "column" else bias.reshape(-1)
        c = None if self.c is None else self.c.T
        return _SplitOperands(self.b.T, self.a.T, c, self.out.T, bias, side)

    def part(self, rows: slice, cols: slice = slice(None)) -> "_SplitOperands":
        """Operands of these rows and columns of the result."""
        bias = self.bias
        if self.side == "column":
            bias = bias[rows]
        elif self.side == "row":
            bias = bias.reshape(-1)[cols]
        c = None if self.c is None else self.c[rows, cols]
        return _SplitOperands(self.a[rows], self.b[:, cols], c, self.out[rows, cols], bias, self.side)

    def multiply(self, settings: dict[str, Any]) -> None:
        """Start the product."""
        beta = settings["beta"] if self.c is not None else 0.0
        matmul(self.a, self.b, out=self.out, c=self.c, bias=self.bias, **(settings | {"beta": beta}))


def division_of(call: Call, operands: _SplitOperands, count: int) -> RowSplit:
    """Rows for each of several GPUs, as the cost model has it."""
    (m, k), n = operands.a.shape, operands.b.shape[1]
    engine = call.engine
    assert engine is not None and engine.capability is not None
    gpu = engine.capability, engine.device_name
    of = call.arithmetic
    work = Workload(m, n, k, ITEM_BYTES[of.factors], ITEM_BYTES[of.result], operands.c is not None)
    return _division(of, call.request.rung, gpu, work, count)


_Gpu = tuple[tuple[int, int], str]
"""Capability and name."""


@lru_cache(maxsize=256)
def _division(arithmetic: Arithmetic, rung: Rung | None, gpu: _Gpu, work: Workload, count: int) -> RowSplit:
    return divide(partial(_expected_us, arithmetic, rung, gpu, work.k), work, count, LINK_BYTES_US)


@lru_cache(maxsize=4096)
def _expected_us(arithmetic: Arithmetic, rung: Rung | None, gpu: _Gpu, k: int, m: int, n: int) -> float:
    """Microseconds that a product takes a GPU of this capability and name; 0 where they are unknown."""
    capability, name = gpu
    try:
        problem = Problem(m, n, k, arithmetic)
        if rung is None:
            kernel, config = select(problem, capability, name)
        else:
            kernel, overrides = rung
            config = kernel.config(dict(overrides), capability=capability)
        return expected_us(kernel, config, problem, find_gpu(name, capability), name)
    except (TilewrightError, AttributeError):
        return 0.0


def _elsewhere(part: _SplitOperands, cuts: Cuts, settings: dict[str, Any], home: int, other: int, start: Any) -> Any:
    """Start a part of the product on another GPU; the event of its end."""
    loading, multiplying, returning = _streams(other)
    with torch.cuda.device(other), torch.cuda.stream(multiplying):
        a, b, out = (_like(one, other) for one in (part.a, part.b, part.out))
        bias = None if part.bias is None else part.bias.new_empty(part.bias.shape, device=other)
        c = None if part.c is None else out  # a part of c becomes one of the result
        there = _SplitOperands(a, b, c, out, bias, part.side)
    loading.wait_stream(multiplying)
    loading.wait_event(start)
    if part.bias is not None:
        _copy(there.bias.reshape(1, -1), part.bias.reshape(1, -1), other, home, loading)
    for piece in pieces(*cuts.blocks(part.a.shape[0], part.b.shape[1])):
        for side, block in piece.loads:
            if side == "a":
                _copy(there.a[block], part.a[block], other, home, loading)
            else:
                _copy(there.b[:, block], part.b[:, block], other, home, loading)
        tile, own = there.part(piece.rows, piece.cols), part.part(piece.rows, piece.cols)
        if own.c is not None:
            _copy(tile.out, own.c, other, home, loading)
        multiplying.wait_event(loading.record_event())
        with torch.cuda.device(other), torch.cuda.stream(multiplying):
            tile.multiply(settings)
        returning.wait_event(multiplying.record_event())
        _copy(own.out, tile.out, home, other, returning)
    multiplying.wait_stream(returning)  # before its memory is used again
    return returning.record_event()


@lru_cache
def _streams(device: int) -> tuple[Any, Any, Any]:
    """Streams of a GPU: for copies to it, for products, and for copies of results."""
    loading, multiplying, returning = (torch.cuda.Stream(device) for _ in range(3))
    return loading, multiplying, returning


def _like(tensor: Any, device: int) -> Any:
    """Memory for a tensor on another GPU, without gaps, in the same order."""
    if _by_columns(tensor):
        return tensor.new_empty(tensor.shape[::-1], device=device).T
    return tensor.new_empty(tensor.shape, device=device)


def _by_columns(tensor: Any) -> bool:
    return bool(tensor.stride(0) == 1 and tensor.stride(1) != 1 and tensor.shape[1] > 1)


def _copy(target: Any, source: Any, to: int, of: int, stream: Any) -> None:
    """Start to copy a matrix between two GPUs, in a stream."""
    from tilewright.runtime.peers import copy_lines  # noqa: PLC0415 - needs the CUDA bindings

    if _by_columns(target):
        target, source = target.T, source.T
    item = source.element_size()
    into, lines = ((one.data_ptr(), one.stride(0) * item) for one in (target, source))
    count, length = source.shape
    gpus: list[Any] = [gpu_engine(None, device) for device in (to, of)]
    copy_lines(gpus[0], into, gpus[1], lines, length * item, count, stream.cuda_stream)


def _is_dense(matrix: Any) -> bool:
    """Whether its rows, or its columns, are neighbours in memory."""
    return bool(_by_columns(matrix) or matrix.shape[1] < 2 or matrix.stride(1) == 1)


def _dense(matrix: Any, by_columns: bool) -> Any:
    """A matrix of the given elements, in lines of neighbours: columns or rows."""
    if _is_dense(matrix) and _by_columns(matrix) == by_columns:
        return matrix
    return matrix.T.contiguous().T if by_columns else matrix.contiguous()
