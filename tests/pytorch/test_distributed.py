"""Products of several processes: sharded tensors, and products while shards move."""

import contextlib
import itertools
import multiprocessing
import queue
import random
from collections import deque

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed.tensor")

import ranks  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import tilewright  # noqa: E402
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
    """Work that is done later, in order; each piece says whether it could be done."""

    def __init__(self):
        self.left = deque()

    def record_event(self):
        event = []
        self.left.append(lambda: event.append(True) is None)
        return event

    def wait_event(self, event):
        self.left.append(lambda: bool(event))

    def wait_stream(self, stream):
        self.wait_event(stream.record_event())


class Later(TorchDispatchMode):
    """Copies go to a stream."""

    def __init__(self, stream):
        super().__init__()
        self._stream = stream

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        if function is not torch.ops.aten.copy_.default:
            return function(*arguments, **(named or {}))
        self._stream.left.append(lambda: function(*arguments) is not None)
        return arguments[0]


class Exchange:
    """What the ranks of a GPU's group share: memory, and signals. Everything is done later."""

    def __init__(self, rank, memories, counters):
        self.rank, self.size, self.stream = rank, len(memories), Stream()
        self.side, self.second = Stream(), Stream()
        self.current = self.stream
        self._memories, self._counters, self._before, self._calls = memories, counters, 0, 0

    @contextlib.contextmanager
    def on(self, stream):
        before, self.current = self.current, stream
        with Later(stream):
            yield
        self.current = before

    def read(self, result):
        """A tensor as it is when the call's stream comes to it."""
        seen = torch.full_like(result, float("nan"))
        with self.on(self.stream):
            seen.copy_(result)
        return seen

    def begin(self, needed, signals):
        self._calls += 1
        assert needed <= len(self._memories[0]) // 2
        self._half = self._calls % 2 * (len(self._memories[0]) // 2)
        self._base, self._before = self._before, self._before + signals
        return self

    def buffer(self, rank, offset, like):
        begin = self._half + offset
        return self._memories[rank][begin : begin + like.nbytes].view(like.dtype).view(like.shape)

    def signal(self, rank, number):
        value = self._base + number

        def write():
            assert self._counters[rank, self.rank] == value - 1
            self._counters[rank, self.rank] = value
            return True

        self.side.left.append(write)

    def wait(self, stream, rank, number):
        value = self._base + number
        stream.left.append(lambda: self._counters[self.rank, rank] >= value)

    def ended(self, call, waited):
        for rank in waited:
            self.wait(self.stream, rank, self._before - self._base)
            self.stream.left.append(lambda rank=rank, last=self._before: self._counters[self.rank, rank] >= last)


def on_ranks(monkeypatch, count, work, seed):
    """What a piece of work gives on each of several ranks, whose streams go on in a random order."""
    memories = [torch.full((2**22,), 255, dtype=torch.uint8) for _ in range(count)]
    counters = dict.fromkeys(itertools.product(range(count), repeat=2), 0)
    exchanges = [Exchange(rank, memories, counters) for rank in range(count)]
    found = []
    for exchange in exchanges:

        def later(*factors, exchange=exchange, **named):
            exchange.current.left.append(lambda: tilewright.matmul(*factors, **named) is not None)

        monkeypatch.setattr(overlapped, "matmul", later)
        found.append(work(exchange.rank, exchange))
    streams = [stream for one in exchanges for stream in (one.stream, one.side, one.second)]
    chance = random.Random(seed)
    while waiting := [stream for stream in streams if stream.left]:
        chance.shuffle(waiting)
        done = next((stream for stream in waiting if stream.left[0]()), None)
        assert done is not None, "every stream waits"
        done.left.popleft()
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [2, 3, 5])
def test_shards_are_multiplied_as_they_come(monkeypatch, count, seed):
    whole, Bs = torch.randn(3, count * 4, 8), [torch.randn(8, 5), torch.randn(8, 2)]
    parts = whole.chunk(count, 1)

    def work(rank, exchange):
        def made(call):
            A, results = overlapped.all_gather_matmul(exchange, parts[rank] * (call + 1), Bs, 1, {}, call != 1)
            return None if A is None else exchange.read(A), [exchange.read(result) for result in results]

        return [made(call) for call in range(4)]

    for calls in on_ranks(monkeypatch, count, work, seed):
        for call, (A, results) in enumerate(calls):
            assert (A is None) == (call == 1)
            if A is not None:
                torch.testing.assert_close(A, whole * (call + 1))
            for result, B in zip(results, Bs, strict=True):
                torch.testing.assert_close(result, whole * (call + 1) @ B)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize(("op", "rows"), [("sum", 600), ("avg", 600), ("sum", 300)])
def test_sums_go_from_rank_to_rank(monkeypatch, count, op, rows, seed):
    As, Bs = ([torch.randn(shape) for _ in range(count)] for shape in ((count * rows, 8), (8, 5)))
    total = sum(A @ B for A, B in zip(As, Bs, strict=True)) / (count if op == "avg" else 1)

    def work(rank, exchange):
        factors = [exchange.read(As[rank] * (call + 1)) for call in range(4)]  # made in the call's stream
        return [exchange.read(overlapped.matmul_reduce_scatter(exchange, A, Bs[rank], op, 0, {})) for A in factors]

    for call, parts in enumerate(zip(*on_ranks(monkeypatch, count, work, seed), strict=True)):
        torch.testing.assert_close(torch.cat(parts), total * (call + 1), rtol=1e-4, atol=1e-4)


def test_parts_of_a_shard_cover_it():
    for rows in (0, 1, 255, 512, 1000, 4096):
        cuts = overlapped.cuts_of(rows)
        assert cuts[0][0] == 0 and cuts[-1][1] == rows
        assert all(one[1] == other[0] and one[1] % 128 == 0 for one, other in itertools.pairwise(cuts))
    assert len(overlapped.cuts_of(4096)) == 2


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
