"""Products of several processes: sharded tensors, and products while shards move."""

import itertools
import multiprocessing
import queue
import threading
from functools import partial
from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed.tensor")

import ranks  # noqa: E402

import tilewright  # noqa: E402
from tilewright import ArrayError, DtypeError, ProblemError  # noqa: E402
from tilewright.distributed import all_gather_matmul, matmul_reduce_scatter  # noqa: E402
from tilewright.frameworks.torch.distributed import overlapped  # noqa: E402
from tilewright.frameworks.torch.distributed.sequences import COUNTER_BYTES, LANES, Multiply  # noqa: E402
from tilewright.runtime.sequence import DeviceCopy, Signal, Wait  # noqa: E402

TIMEOUT_S = 120


def outcomes(folder):
    """Results of each check in each of two processes: '' where it is right."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    path = folder / "store"
    processes = [context.Process(target=ranks.main, args=(rank, str(path), results)) for rank in (0, 1)]
    for process in processes:
        process.start()
    found = {}
    try:
        while len(found) < 2 * len(ranks.CHECKS) and not any(found.values()):
            rank, name, words = results.get(timeout=TIMEOUT_S)
            found[rank, name] = words
    except queue.Empty:
        pass
    finally:
        for process in processes:
            process.join(5)
            process.kill()
    return found


@pytest.mark.further
def test_on_two_processes(tmp_path):
    found = outcomes(tmp_path)
    expected = {(rank, name): "" for rank in (0, 1) for name in ranks.CHECKS}
    assert {one: found.get(one, "did not run") for one in expected} == expected


class Work(NamedTuple):
    """A call, which is run as data."""

    steps: tuple
    signals: int
    scratch_bytes: int
    splits: bool
    names: tuple[str, ...]


class Exchange:
    """One of several threads that take the part of ranks: steps of all its streams in the order of the host."""

    device = torch.device("cpu")

    def __init__(self, rank, memories, signals):
        self.rank, self.size, self.works = rank, len(memories), {}
        self._memories, self._signals, self._before, self._calls = memories, signals, 0, 0
        self._half = len(memories[0]) // 2

    def prepare(self, key, of, arrays, precision, without_parts):
        assert of.memory_bytes <= self._half
        assert {rank for rank, _ in of.sources} <= set(range(self.size)) - {self.rank}
        made = self.works[key] = Work(of.steps, of.signals, of.scratch_bytes, False, (*arrays, "scratch"))
        return made

    def start(self, work, arrays):
        changed, counters = self._signals
        half = self._calls % 2 * self._half
        bases = {name: bytes_of(one) for name, one in zip(work.names, arrays, strict=True)}
        bases |= {f"memory{rank}": one[half : half + self._half] for rank, one in enumerate(self._memories)}
        dtype = arrays[0].dtype

        def matrix(of):
            elements = bases[of.location.base][of.location.offset :]
            elements = elements[: len(elements) // dtype.itemsize * dtype.itemsize].view(dtype)
            return elements.as_strided((of.rows, of.cols), of.strides)

        def counter(step):
            return int(step.counter.base.removeprefix("counters")), step.counter.offset // COUNTER_BYTES

        for step in work.steps:
            if isinstance(step, Multiply):
                added = {} if step.c is None else {"c": matrix(step.c), "beta": 1.0}
                tilewright.matmul(matrix(step.a), matrix(step.b), out=matrix(step.out), alpha=step.alpha, **added)
            elif isinstance(step, DeviceCopy):
                to, source = (bases[at.base][at.offset :][: step.bytes] for at in (step.to, step.source))
                to.copy_(source)
            elif isinstance(step, Signal):
                assert step.number <= work.signals
                with changed:
                    assert counters[counter(step)] < self._before + step.number
                    counters[counter(step)] = self._before + step.number
                    changed.notify_all()
            elif isinstance(step, Wait):
                with changed:
                    assert changed.wait_for(partial(self._reached, counter(step), step.number), timeout=20)
        self._before, self._calls = self._before + work.signals, self._calls + 1

    def _reached(self, counter, number):
        return self._signals[1][counter] >= self._before + number


def bytes_of(array):
    """All memory of a tensor, from its first element on."""
    storage = torch.empty(0, dtype=torch.uint8).set_(array.untyped_storage())
    return storage[array.storage_offset() * array.element_size() :]


def on_ranks(count, work):
    """Results of a piece of work on each of several threads, which take the part of ranks."""
    memories = [torch.full((2**22,), 255, dtype=torch.uint8) for _ in range(count)]
    signals = threading.Condition(), dict.fromkeys(itertools.product(range(count), range(count * len(LANES))), 0)
    found = [None] * count

    def run(rank):
        found[rank] = work(rank, Exchange(rank, memories, signals))

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert None not in found
    return found


@pytest.mark.first(3)
@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_shards_are_multiplied_as_they_come(count, dtype):
    whole = torch.randn(3, count * 4, 8).to(dtype)
    Bs = [torch.randn(8, 5).to(dtype), torch.randn(2, 8).to(dtype).T, torch.randn(16, 6).to(dtype)[::2, ::2]]
    parts = whole.chunk(count, 1)

    def work(rank, exchange):
        calls = [
            overlapped.all_gather_matmul(exchange, parts[rank], Bs, 1, None, wanted) for wanted in (True, False, True)
        ]
        alone, none = overlapped.all_gather_matmul(exchange, parts[rank], [], 1, None, True)
        assert alone.equal(whole) and none == [] and len(exchange.works) == 3
        assert calls[1][0] is None and all(
            one.equal(other) for one, other in zip(calls[1][1], calls[0][1], strict=True)
        )
        return calls[-1]

    for A, results in on_ranks(count, work):
        torch.testing.assert_close(A, whole)
        for result, B in zip(results, Bs, strict=True):
            torch.testing.assert_close(result, whole @ B)


@pytest.mark.first(8)
@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("op", ["sum", "avg"])
@pytest.mark.parametrize(("rows", "n"), [(600, 5), (8, 777), (8, 1100), (3, 5)])
def test_sums_go_from_rank_to_rank(count, op, rows, n):
    As, Bs = ([torch.randn(shape) for _ in range(count)] for shape in ((count * rows, 8), (n, 8)))
    total = sum(A @ B.T for A, B in zip(As, Bs, strict=True)) / (count if op == "avg" else 1)

    def work(rank, exchange):
        found = [overlapped.matmul_reduce_scatter(exchange, As[rank], Bs[rank].T, op, 0, None) for _ in range(3)]
        assert len(exchange.works) == 1 and all(one.equal(found[0]) for one in found)
        return found[0]

    found = on_ranks(count, work)
    torch.testing.assert_close(torch.cat(found), total, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_calls_of_several_kinds_take_turns(dtype):
    """Calls of changing shapes and strides, on one exchange: each has steps of its own."""
    kinds = [((2, 8, 6), 1), ((8, 6), 0), ((4, 2, 6), 0), ((2, 4, 3, 6), 1)]
    factors = [[[torch.randn(shape).to(dtype) for shape, _ in kinds] for _ in range(2)], torch.randn(6, 700).to(dtype)]
    As, B = factors

    def work(rank, exchange):
        return [
            overlapped.matmul_reduce_scatter(exchange, As[rank][i], one, "sum", dim, None)
            for one in (B, B.T.contiguous().T, B[:, ::2])
            for i, (_, dim) in enumerate(kinds)
        ]

    for rank, found in enumerate(on_ranks(2, work)):
        for number, one in enumerate(found):
            i, factor = number % len(kinds), (B, B, B[:, ::2])[number // len(kinds)]
            sums = (As[0][i].float() @ factor.float() + As[1][i].float() @ factor.float()).chunk(2, kinds[i][1])[rank]
            torch.testing.assert_close(one.float(), sums, rtol=3e-2, atol=3e-1)
            assert one.shape == sums.shape


class Alone:
    """A group of one rank, for arguments that are refused before anything is asked of it."""

    group_name = "alone"

    def size(self):
        return 2


REFUSED = {
    "vector": ((8,), (8, 4), 0, ArrayError, "A must be a tensor of 2 or more dimensions"),
    "dim": ((6, 8), (8, 4), 2, ArrayError, "_dim must be a dimension of 6 x 8, got 2"),
    "rows": ((6, 8), (7, 4), 0, ArrayError, "B must have 8 rows, as A has columns: got 7 x 4"),
    "batch": ((6, 8), (2, 8, 4), 0, ArrayError, "B must be a matrix, got"),
}


@pytest.mark.first(2)
@pytest.mark.parametrize(("a", "b", "dim", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_named(a, b, dim, error, words):
    with pytest.raises(error, match=words):
        all_gather_matmul(torch.ones(a), [torch.ones(b)], dim, Alone())
    with pytest.raises(error, match=words):
        matmul_reduce_scatter(torch.ones(a), torch.ones(b), "sum", dim, Alone())


def test_other_arguments_are_checked():
    A, B = torch.ones(6, 8), torch.ones(8, 4)
    with pytest.raises(DtypeError, match="B must have the element type of A"):
        matmul_reduce_scatter(A, B.half(), "sum", 0, Alone())
    with pytest.raises(ProblemError, match="reduce_op must be 'sum' or 'avg', got 'max'"):
        matmul_reduce_scatter(A, B, "max", 0, Alone())
    with pytest.raises(ArrayError, match="the result's dimension 0 must divide into 2 parts, got 5"):
        matmul_reduce_scatter(A[:5], B, "sum", 0, Alone())
    with pytest.raises(ProblemError, match="the name of a process group, got 'nobody'"):
        matmul_reduce_scatter(A, B, "sum", 0, "nobody")
    with pytest.raises(ProblemError, match="precision"):
        matmul_reduce_scatter(A, B, "sum", 0, Alone(), precision="fp17")
