"""Products while shards move between the GPUs of one host.

all_gather_matmul, rank r of 4: its own shard goes to all others, and shards are multiplied as they come.

    copies      r to r+1    r to r+2    r to r+3
    products    shard r     shard r-1   shard r-2   shard r-3

matmul_reduce_scatter: the sum of rows of rank j begins at rank j+1, and goes from rank to rank; each adds its product
to what came, and rank j is the last. These rows are cut in two parts, along the longer dimension of the sum, so that
one moves while the other is multiplied; a part lies without gaps while it moves.

    products    rows of r-1      rows of r-2 + what came    rows of r-3 + what came    own rows + what came
    copies               to r+1                     to r+1                     to r+1

Each step's order is fixed, so results are the same bits in every run of a number of GPUs.
"""

from itertools import accumulate
from typing import Any

from tilewright.analysis.dividing import parts_of
from tilewright.distributed.exchange import Exchange, slot_bytes
from tilewright.front import matmul


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
    slot = slot_bytes(lines)
    call = exchange.begin(size * slot, 1)

    def multiply(factor: Any, source: int) -> None:
        for B, result in zip(Bs, results, strict=True):
            matmul(factor, B, out=result[source * rows : (source + 1) * rows], **product)

    def keep(factor: Any, source: int) -> None:
        if whole is not None:
            side.wait_event(call.stream.record_event())
            with exchange.copying():
                whole[source * rows : (source + 1) * rows].copy_(factor)

    side.wait_stream(call.stream)
    for step in range(1, size):
        call.send((rank + step) % size, rank * slot, lines, 1)
    keep(lines, rank)
    multiply(lines, rank)
    for step in range(1, size):
        source = (rank - step) % size
        came = call.buffer(rank, source * slot, lines)
        call.wait(source, 1)
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
    parts = parts_of(rows, B.shape[1])
    sums = [[result.new_empty(result[part].shape) for part in parts] for _ in range(min(size - 1, 2))]
    begins = list(accumulate((slot_bytes(one) for one in sums[0]), initial=0))
    slot = begins.pop()
    alpha = 1 / size if op == "avg" else 1.0
    call = exchange.begin((size - 1) * slot, (size - 1) * len(parts))
    after, before, last = (rank + 1) % size, (rank - 1) % size, size - 1
    moved: list[Any] = []
    side.wait_stream(call.stream)  # sums may lie where earlier work of that stream still reads
    for step in range(size):
        first = (rank - 1 - step) % size * rows
        if 2 <= step < last:
            call.stream.wait_event(moved[step - 2])  # its sums lie in the same memory
        for number, (part, begin) in enumerate(zip(parts, begins, strict=True)):
            own = sums[step % len(sums)][number]
            added: dict[str, Any] = {}
            if step:
                call.wait(before, (step - 1) * len(parts) + number + 1)
                added = {"c": call.buffer(rank, (step - 1) * slot + begin, own), "beta": 1.0}
            target = result[part] if step == last else own
            factor = lines[first : first + rows][part[0]]
            matmul(factor, B[:, part[1]], out=target, alpha=alpha, **added, **product)
            if step < last:
                side.wait_event(call.stream.record_event())
                call.send(after, step * slot + begin, own, step * len(parts) + number + 1)
        moved.append(side.record_event())
    call.stream.wait_stream(side)
    exchange.ended(call, {before})
    return result.view(front.shape[0] // size, *front.shape[1:-1], B.shape[1]).movedim(0, dim)
