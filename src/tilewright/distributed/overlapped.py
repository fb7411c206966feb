"""Products while shards move between the GPUs of one host.

all_gather_matmul, rank r of 4: its own shard goes to all others, and shards are multiplied as they come.

    copies      r to r+1    r to r+2    r to r+3
    products    shard r     shard r-1   shard r-2   shard r-3

matmul_reduce_scatter: the sum of rows of rank j begins at rank j+1, and goes from rank to rank; each adds its product
to what came, and rank j is the last. Rows are cut in two, so that one half moves while the other is multiplied. The
products of the halves are in streams of their own, so where one leaves multiprocessors idle at its end, and while its
sums are stored, the next one begins: at 4096x4096x14336 each is one wave of blocks.

    stream 1    rows of r-1 |     rows of r-2 + what came |    rows of r-3 + what came |    own rows + what came |
    stream 2                | rows of r-1 |     rows of r-2 + what came |    rows of r-3 + what came |    own rows + ...
    copies                     to r+1        to r+1          to r+1        to r+1        ...

Each step's order is fixed, so results are the same bits in every run of a number of GPUs.
"""

import itertools
from typing import Any

import torch

from tilewright.distributed.exchange import Exchange, slot_bytes
from tilewright.front import matmul

_CUTS = 2
"""Parts of a shard of sums that move by themselves."""

_LEAST_ROWS = 256
"""Of a part."""


def all_gather_matmul(
    exchange: Exchange, shard: Any, Bs: list[Any], dim: int, product: dict[str, Any], wanted: bool
) -> tuple[Any, list[Any]]:
    """As `products.all_gather_matmul`; A, where it is wanted, is copied while products run. dim is not the last one."""
    size, rank, side = exchange.size, exchange.rank, exchange.side
    front = shard.movedim(dim, 0)
    lines = front.reshape(-1, shard.shape[-1]).contiguous()
    rows = lines.shape[0]
    results = [lines.new_empty(size * rows, B.shape[1]) for B in Bs]
    whole = lines.new_empty(size * rows, lines.shape[1]) if wanted else None
    slot = slot_bytes(lines, rows)
    call = exchange.begin(size * slot, 1)

    def multiply(factor: Any, source: int) -> None:
        for B, result in zip(Bs, results, strict=True):
            matmul(factor, B, out=result[source * rows : (source + 1) * rows], **product)

    def keep(factor: Any, source: int) -> None:
        if whole is not None:
            side.wait_event(call.stream.record_event())
            with exchange.on(side):
                whole[source * rows : (source + 1) * rows].copy_(factor)

    side.wait_stream(call.stream)
    with exchange.on(side):
        for step in range(1, size):
            to = (rank + step) % size
            call.buffer(to, rank * slot, lines).copy_(lines)
            call.signal(to, 1)
    keep(lines, rank)
    multiply(lines, rank)
    for step in range(1, size):
        source = (rank - step) % size
        came = call.buffer(rank, source * slot, lines)
        call.wait(call.stream, source, 1)
        keep(came, source)
        multiply(came, source)
    call.stream.wait_stream(side)
    exchange.ended(call, set(range(size)) - {rank})
    shape = size * front.shape[0], *front.shape[1:-1]
    return (
        None if whole is None else whole.view(*shape, -1).movedim(0, dim),
        [result.view(*shape, result.shape[1]).movedim(0, dim) for result in results],
    )


def matmul_reduce_scatter(exchange: Exchange, A: Any, B: Any, op: str, dim: int, product: dict[str, Any]) -> Any:
    """As `products.matmul_reduce_scatter`; dim is not the last one."""
    size, rank, side = exchange.size, exchange.rank, exchange.side
    front = A.movedim(dim, 0)
    lines = front.reshape(-1, A.shape[-1])
    rows = lines.shape[0] // size
    result = lines.new_empty(rows, B.shape[1])
    sums = [torch.empty_like(result) for _ in range(min(size - 1, 2))]
    slot, cuts = slot_bytes(result, rows), cuts_of(rows)
    alpha = 1 / size if op == "avg" else 1.0
    call = exchange.begin((size - 1) * slot, (size - 1) * len(cuts))
    after, before, last = (rank + 1) % size, (rank - 1) % size, size - 1
    streams = call.stream, exchange.second
    moved: dict[tuple[int, int], Any] = {}
    for stream in (side, exchange.second):
        stream.wait_stream(call.stream)  # memory may be what earlier work of that stream still reads
    for step, number in itertools.product(range(size), range(1, len(cuts) + 1)):
        begin, end = cuts[number - 1]
        stream = streams[(step * len(cuts) + number - 1) % 2]
        first = (rank - 1 - step) % size * rows
        target = (result if step == last else sums[step % 2])[begin:end]
        if 2 <= step < last:
            stream.wait_event(moved[step - 2, number])  # its sums lie in the same memory
        added: dict[str, Any] = {}
        if step:
            call.wait(stream, before, (step - 1) * len(cuts) + number)
            added = {"c": call.buffer(rank, (step - 1) * slot, result)[begin:end], "beta": 1.0}
        with exchange.on(stream):
            matmul(lines[first + begin : first + end], B, out=target, alpha=alpha, **added, **product)
        if step < last:
            side.wait_event(stream.record_event())
            with exchange.on(side):
                call.buffer(after, step * slot, result)[begin:end].copy_(target)
                call.signal(after, step * len(cuts) + number)
            moved[step, number] = side.record_event()
    for stream in (side, exchange.second):
        call.stream.wait_stream(stream)
    exchange.ended(call, {before})
    return result.view(front.shape[0] // size, *front.shape[1:-1], B.shape[1]).movedim(0, dim)


def cuts_of(rows: int) -> list[tuple[int, int]]:
    """Where parts of a shard of sums begin and end: a few of about the same size, multiples of 128 but the last."""
    count = max(1, min(_CUTS, rows // _LEAST_ROWS))
    height = -(-rows // (128 * count)) * 128 if count > 1 else rows
    return [(begin, min(begin + height, rows)) for begin in range(0, rows, max(height, 1))] or [(0, 0)]
