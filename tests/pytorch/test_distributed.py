"""Products of several processes: sharded tensors, and products while shards move."""

import contextlib
import itertools
import multiprocessing
import queue
import threading

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed.tensor")

import ranks  # noqa: E402

from tilewright import ArrayError, DtypeError, ProblemError  # noqa: E402
from tilewright.distributed import all_gather_matmul, collectives, matmul_reduce_scatter, overlapped  # noqa: E402

TIMEOUT_S = 120


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What each check gave in each of two processes: '' where it is right."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    path = tmp_path_factory.mktemp("ranks") / "store"
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


@pytest.mark.parametrize("name", ranks.CHECKS)
def test_on_two_processes(outcomes, name):
    for rank in (0, 1):
        assert outcomes.get((rank, name), "did not run") == "", f"rank {rank}: {outcomes.get((rank, name))}"


class Stream:
    """Work is done when it is started, so there is nothing to wait for."""

    def record_event(self):
        return None

    def wait_event(self, event):
        pass

    def wait_stream(self, stream):
        pass


class Exchange:
    """What the ranks of a GPU's group share, between threads: memory, and signals."""

    def __init__(self, rank, memories, signals):
        self.rank, self.size, self.side = rank, len(memories), Stream()
        self._memories, self._signals, self._before, self._calls = memories, signals, 0, 0

    def copying(self):
        return contextlib.nullcontext()

    def begin(self, needed, signals):
        self._calls += 1
        assert needed <= len(self._memories[0]) // 2
        self._half = self._calls % 2 * (len(self._memories[0]) // 2)
        self._base, self._before = self._before, self._before + signals
        self.stream = Stream()
        return self

    def buffer(self, rank, offset, like):
        begin = self._half + offset
        return self._memories[rank][begin : begin + like.nbytes].view(like.dtype).view(like.shape)

    def send(self, rank, offset, data, number):
        assert data.is_contiguous()
        self.buffer(rank, offset, data).copy_(data)
        changed, counters = self._signals
        with changed:
            assert counters[rank, self.rank] == self._base + number - 1
            counters[rank, self.rank] = self._base + number
            changed.notify_all()

    def wait(self, rank, number):
        changed, counters = self._signals
        with changed:
            assert changed.wait_for(lambda: counters[self.rank, rank] >= self._base + number, timeout=20)

    def ended(self, call, waited):
        changed, counters = self._signals
        with changed:
            for rank in waited:
                assert counters[self.rank, rank] >= self._before


def on_ranks(count, work):
    """What a piece of work gives on each of several threads, which take the part of ranks."""
    memories = [torch.full((2**22,), 255, dtype=torch.uint8) for _ in range(count)]
    signals = threading.Condition(), dict.fromkeys(itertools.product(range(count), repeat=2), 0)
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


@pytest.mark.parametrize("count", [2, 3, 5])
def test_shards_are_multiplied_as_they_come(count):
    whole, Bs = torch.randn(3, count * 4, 8), [torch.randn(8, 5), torch.randn(8, 2)]
    parts = whole.chunk(count, 1)

    def work(rank, exchange):
        calls = [
            overlapped.all_gather_matmul(exchange, parts[rank], Bs, 1, {}, wanted) for wanted in (True, False, True)
        ]
        return calls[-1]

    for A, results in on_ranks(count, work):
        torch.testing.assert_close(A, whole)
        for result, B in zip(results, Bs, strict=True):
            torch.testing.assert_close(result, whole @ B)


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("op", ["sum", "avg"])
@pytest.mark.parametrize(("rows", "n"), [(600, 5), (8, 777), (3, 5)])
def test_sums_go_from_rank_to_rank(count, op, rows, n):
    As, Bs = ([torch.randn(shape) for _ in range(count)] for shape in ((count * rows, 8), (8, n)))
    total = sum(A @ B for A, B in zip(As, Bs, strict=True)) / (count if op == "avg" else 1)

    def work(rank, exchange):
        for _ in range(3):
            found = overlapped.matmul_reduce_scatter(exchange, As[rank], Bs[rank], op, 0, {})
        return found

    found = on_ranks(count, work)
    torch.testing.assert_close(torch.cat(found), total, rtol=1e-4, atol=1e-4)


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
    assert collectives.Product
