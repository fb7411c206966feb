"""Products while shards move between the GPUs of one host: what a call needs before its steps are started.

A call of a known kind makes its results, and has the exchange start the kind's steps. For the first of a kind these are
worked out (sequences.py), and the exchange prepares them.

What goes wrong on the host does so before anything is started: products are planned, and memory is allocated, first. If
the driver refuses a step in the middle, this GPU accepts no more such calls, and the other ranks' timeouts name this
rank. The host starts at most 16 calls ahead, so that it is not caught in a full queue of the driver. Tests simulate the
streams of all ranks as a partial order: no memory is used by two steps that nothing orders, unless both read it.
"""

from collections.abc import Callable, Hashable
from typing import Any

import torch

from tilewright.frameworks.torch.distributed.exchange import Exchange, ReadyCall
from tilewright.frameworks.torch.distributed.sequences import MatrixView, RankCall, all_gather, reduce_scatter
from tilewright.kernels.support import VECTOR_BYTES
from tilewright.runtime.sequence import Location


def all_gather_matmul(
    exchange: Exchange, shard: Any, Bs: list[Any], dim: int, precision: str | None, wanted: bool
) -> tuple[Any, list[Any]]:
    """As `products.all_gather_matmul`; A, where it is wanted, is copied while products run. dim is not the last one."""
    front = shard if dim == 0 else shard.movedim(dim, 0)
    lines = _lines(front).contiguous()
    Bs = [_described(B) for B in Bs]
    kind = wanted, precision, *_kinds(lines, *Bs)
    rows, (shards, *middle, k) = exchange.size * lines.shape[0], front.shape
    arrays = {"A": lines, **_numbered("B", Bs)}
    arrays |= _numbered("result", [lines.new_empty((rows, B.shape[1])) for B in Bs])
    if wanted:
        arrays["whole"] = lines.new_empty((rows, k))

    def call(rank: int, size: int, item: int) -> RankCall:
        matrices = [_matrix(f"B{number}", B) for number, B in enumerate(Bs)]
        return all_gather(rank, size, _matrix("A", lines), matrices, item, wanted)

    _start(exchange, kind, call, arrays, precision)
    found = list(arrays.values())[1 + len(Bs) :]
    if middle:
        found = [one.view(exchange.size * shards, *middle, -1).movedim(0, dim) for one in found]
    return found.pop() if wanted else None, found


def matmul_reduce_scatter(exchange: Exchange, A: Any, B: Any, op: str, dim: int, precision: str | None) -> Any:
    """As `products.matmul_reduce_scatter`; dim is not the last one."""
    front = A if dim == 0 else A.movedim(dim, 0)
    lines, B = _described(_lines(front)), _described(B)
    kind = op, precision, *_kinds(lines, B)
    result = lines.new_empty((lines.shape[0] // exchange.size, B.shape[1]))

    def call(rank: int, size: int, item: int) -> RankCall:
        return reduce_scatter(rank, size, _matrix("A", lines), _matrix("B0", B), item, op == "avg")

    _start(exchange, kind, call, {"A": lines, "B0": B, "result0": result}, precision)
    if A.dim() == 2:
        return result
    return result.view(front.shape[0] // exchange.size, *front.shape[1:-1], B.shape[1]).movedim(0, dim)


def _start(
    exchange: Exchange,
    kind: Hashable,
    call: Callable[[int, int, int], RankCall],
    arrays: dict[str, Any],
    precision: str | None,
) -> None:
    """Start a call, which is worked out where it is the first of its kind.

    Args:
        exchange: of the group.
        kind: all that steps depend on.
        call: gives the steps of a rank, of several, of elements of this many bytes.
        arrays: by the bases that the steps name.
        precision: as `matmul` takes it.
    """

    def known(without_parts: bool) -> ReadyCall:
        found = exchange.works.get((kind, without_parts))
        if found is None:
            steps = call(exchange.rank, exchange.size, arrays["A"].element_size())
            found = exchange.prepare((kind, without_parts), steps, arrays, precision, without_parts)
        return found

    work = known(False)
    try:
        scratch = _scratch(arrays["A"], work)
    except torch.OutOfMemoryError:
        if not work.splits:
            raise
        work = known(True)
        scratch = _scratch(arrays["A"], work)
    exchange.start(work, (*arrays.values(), scratch))


def _scratch(like: Any, work: ReadyCall) -> Any:
    """Memory of a call alone; of a call that needs none, any."""
    return like.new_empty(work.scratch_bytes, dtype=torch.uint8) if work.scratch_bytes else like


def _lines(front: Any) -> Any:
    """All matrices of a tensor, one below the other."""
    return front if front.dim() == 2 else front.reshape(-1, front.shape[-1])


def _described(matrix: Any) -> Any:
    """A matrix whose rows or columns have neighbours as elements, and do not overlap: itself, or a copy."""
    (rows, cols), (by_row, by_col) = matrix.shape, matrix.stride()
    return matrix if (by_col == 1 and by_row >= cols) or (by_row == 1 and by_col >= rows) else matrix.contiguous()


def _kinds(*matrices: Any) -> tuple[Hashable, ...]:
    """Type of the matrices, and shape, strides and alignment of each, in a row: all that their plans depend on."""
    of_each = [part for one in matrices for part in (one.shape, one.stride(), one.data_ptr() % VECTOR_BYTES)]
    return (matrices[0].dtype, *of_each)


def _matrix(base: str, of: Any) -> MatrixView:
    rows, cols = of.shape
    return MatrixView(Location(base), rows, cols, of.stride())


def _numbered(name: str, several: list[Any]) -> dict[str, Any]:
    return {f"{name}{number}": one for number, one in enumerate(several)}
