"""Steps that a call of several GPUs starts, and how calls follow each other, with stand-ins for GPU and driver."""

import contextlib
from functools import partial
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed.tensor")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from tilewright.core.errors import LaunchError  # noqa: E402
from tilewright.frameworks.torch.distributed import exchange, failing, overlapped, products  # noqa: E402
from tilewright.frameworks.torch.distributed.planning import CallKind, planned  # noqa: E402
from tilewright.frameworks.torch.distributed.sequences import (  # noqa: E402
    LANE,
    MAIN,
    Multiply,
    RankCall,
    all_gather,
    reduce_scatter,
    tight,
)
from tilewright.runtime import driver, nvrtc  # noqa: E402
from tilewright.runtime.plan import Memory, Needs, Plan, Slot, Step  # noqa: E402
from tilewright.runtime.sequence import ABSOLUTE, Location, PlanLaunch  # noqa: E402

CHECK = PlanLaunch(0, (Step(0xBAD, (1, 1, 1), (1, 1, 1), 0, 0, bytes(8), (0,), (Slot(0, "pointer", "A"),)),), ())


class Engine:
    """An H100 that plans whatever it is asked to, and compiles nothing."""

    capability, device_name, name = (9, 0), "NVIDIA H100 80GB HBM3", "cuda"
    device = SimpleNamespace(device_id=0)

    def __init__(self, needs=None):
        self.needs, self.problems, self.asked = needs or Needs(), [], []

    def plan(self, kernel, config, problem, addresses, *, cached=None, capturing=None, factors=None):
        self.problems.append((problem, addresses))
        step = Step(len(self.problems), (1, 1, 1), (1, 1, 1), 0, 0, bytes(8), (0,), ())
        return Plan(problem, kernel, config, None, (step,), self.needs)

    def capturing(self, stream):
        return False

    def workspace(self, stream, needs):
        self.asked.append((stream, needs))
        return Memory(counters=0x70000 + stream)


def started(sequence, engine, dtype="bfloat16", without_parts=False, **aligned):
    like = torch.empty(1, dtype=getattr(torch, dtype))
    kind = CallKind(like, dtype, engine, 0, aligned, None, without_parts)
    return planned(sequence, kind, CHECK, {MAIN: 1, LANE: 2})


def test_products_are_planned_as_they_lie():
    engine = Engine()
    A, B = tight("A", 0, 2 * 2048, 2048), tight("B0", 0, 2048, 14336)
    sequence = reduce_scatter(0, 2, A, B, 2, True)
    found = started(sequence, engine, A=8)
    products = [step for step in sequence.steps if isinstance(step, Multiply)]
    launches = [step for step in found.steps if isinstance(step, PlanLaunch)]
    assert len(found.steps) == len(sequence.steps) and len(launches) == len(products) + 1
    first, last = (launches.index(one) for one in (launches[0], launches[-2]))
    addresses = dict(launches[first].addresses)
    assert addresses == {"A": Location("A", 2048 * 2048 * 2), "B": Location("B0"), "D": Location("scratch")}
    assert (launches[first].alpha, launches[first].beta, launches[last].beta) == (0.5, 0.0, 1.0)
    last_product = products[-1]
    assert dict(launches[last].addresses)["C"] == last_product.c.location
    assert launches[-1].steps == CHECK.steps
    shapes = {(problem.m, problem.n, problem.k) for problem, _ in engine.problems}
    assert shapes == {(2048, 3584, 2048)}
    assert {addresses.a for _, addresses in engine.problems} == {8}
    lds = {(problem.b.ld or problem.n, problem.d.ld or problem.n) for problem, _ in engine.problems}
    assert lds == {(14336, 3584), (14336, 14336)}
    assert found.scratch_bytes == sequence.scratch_bytes == 2048 * 14336 * 2


def test_a_result_that_lies_by_columns_exchanges_the_factors():
    out = tight("result0", 0, 64, 32)._replace(strides=(1, 64))
    product = Multiply(MAIN, tight("A", 0, 64, 48), tight("B0", 0, 48, 32), out)
    (launch,) = started(RankCall((product,), 0, 0, 0, 0, frozenset()), Engine()).steps
    assert dict(launch.addresses) == {"A": Location("B0"), "B": Location("A"), "D": Location("result0")}


def test_memory_of_plans_lies_behind_the_sums_and_is_a_streams():
    needs = Needs(workspace_bytes=1000, counters=7, relayout_bytes=500)
    engine = Engine(needs)
    sequence = reduce_scatter(0, 2, tight("A", 0, 600, 64), tight("B0", 0, 64, 1024), 2, False)
    found = started(sequence, engine)
    assert sorted(engine.asked) == [(1, (0, 7, 0)), (2, (0, 7, 0))]
    begins = {}
    for step in found.steps:
        if isinstance(step, PlanLaunch) and step.steps != CHECK.steps:
            addresses = dict(step.addresses)
            begins.setdefault(step.stream, set()).add((addresses["workspace"], addresses["relayout"]))
            assert addresses["counters"] == Location(ABSOLUTE, 0x70001 if step.stream == MAIN else 0x70002)
    sums = sequence.scratch_bytes
    assert begins == {
        MAIN: {(Location("scratch", sums), Location("scratch", sums + 1024))},
        LANE: {(Location("scratch", sums + 1536), Location("scratch", sums + 2560))},
    }
    assert found.scratch_bytes == sums + 2 * 1536


def test_float32_products_split_unless_there_is_no_memory():
    sequence = all_gather(0, 2, tight("A", 0, 4096, 4096), [tight("B0", 0, 4096, 4096)], 4, False)
    assert started(sequence, Engine(), "float32").splits
    without = Engine()
    assert not started(sequence, without, "float32", without_parts=True).splits
    assert {problem.arithmetic.precision for problem, _ in without.problems} == {"ieee"}


def test_a_kernel_that_updates_c_in_place_is_refused(monkeypatch):
    from tilewright.api import gpu as on_gpu  # noqa: PLC0415
    from tilewright.api import planned_call as planned  # noqa: PLC0415
    from tilewright.kernels import resolve  # noqa: PLC0415

    kernel, config = resolve("warptiled")
    on_gpu._plans.clear()
    monkeypatch.setattr(planned, "select", lambda *_, **__: (kernel, kernel.config(config)))
    sequence = reduce_scatter(0, 2, tight("A", 0, 64, 64), tight("B0", 0, 64, 64), 4, False)
    with pytest.raises(LaunchError, match=r"warptiled, which a table names for .*, updates C in place"):
        started(sequence, Engine(), "float32")
    on_gpu._plans.clear()


def test_what_fails_compiles():
    cubin = nvrtc.compile_source(failing.SOURCE, "fail_unless.cu", "fail_unless", {}, "sm_90a")
    assert cubin.entry == "fail_unless" and not cubin.report.spill_bytes


class Event:
    def __init__(self, number):
        self.cuda_event, self.ended, self.waits = number, True, 0

    def synchronize(self):
        self.waits += 1

    def query(self):
        return self.ended


class Exchange(exchange.Exchange):
    """Exchange of rank 0 of 2, without memory."""

    def __init__(self):
        self.rank, self.size, self.device = 0, 2, torch.device("cuda", 3)
        self._timeout, self._half, self._calls, self._signals, self._lost = 1.0, 4096, 0, 0, []
        self._events = [Event(100 + number) for number in range(exchange._MOST_CALLS)]
        self._ends = [event.cuda_event for event in self._events]
        self._bases = [(0, 11, 12, 0x1000, 0x2000), (0, 11, 12, 0x3000, 0x4000)]
        self._stream = lambda device: 0x50 + device
        self.grown = []

    def grow(self, needed):
        self.grown.append(needed)
        self._half, self._signals = needed, 0


@pytest.fixture
def calls(monkeypatch):
    """An exchange, what its calls ran, and what is watched."""
    made = SimpleNamespace(exchange=Exchange(), runs=[], watched=[])
    monkeypatch.setattr(exchange, "watch", made.watched.append)
    monkeypatch.setattr(exchange, "_failed", {})
    return made


def work(calls, ahead=4, memory_bytes=4096, run=None):
    return exchange.ReadyCall(
        run or (lambda *given: calls.runs.append(given)), 3, memory_bytes, 0, frozenset({(1, 0), (1, 1)}), False, ahead
    )


def test_calls_alternate_and_follow_each_other(calls):
    array = torch.empty(4)
    for _ in range(3):
        calls.exchange.start(work(calls), (array, array))
    at = array.data_ptr()
    assert calls.runs == [
        ((0, 11, 12, 0x1000, 0x2000, at, at), 0x53, 0, 0, 100),
        ((0, 11, 12, 0x3000, 0x4000, at, at), 0x53, 3, 100, 101),
        ((0, 11, 12, 0x1000, 0x2000, at, at), 0x53, 6, 101, 102),
    ]
    assert len(calls.watched) == 3


def test_numbers_pass_32_bits(calls):
    calls.exchange._signals = 2**32 + 5
    calls.exchange.start(work(calls), ())
    assert calls.runs[0][2] == 5


@pytest.mark.parametrize("ahead", [1, 5, exchange._MOST_CALLS])
def test_the_host_waits_for_calls_long_before(calls, ahead):
    for number in range(40):
        before = [event.waits for event in calls.exchange._events]
        calls.exchange.start(work(calls, ahead), ())
        waited = [i for i, event in enumerate(calls.exchange._events) if event.waits != before[i]]
        assert waited == ([(number - ahead) % exchange._MOST_CALLS] if number >= ahead else [])


def test_memory_grows_before_a_call(calls):
    calls.exchange.start(work(calls), ())
    calls.exchange.start(work(calls, memory_bytes=5000), ())
    assert calls.exchange.grown == [8192] and [run[2] for run in calls.runs] == [0, 0]
    calls.exchange.start(work(calls, memory_bytes=100_000), ())
    assert calls.exchange.grown == [8192, 100_000]


def test_a_call_has_ended_when_its_event_has_or_is_a_later_calls(calls, monkeypatch):
    monkeypatch.setattr(driver, "outside_of_captures", contextlib.nullcontext)
    calls.exchange.start(work(calls, exchange._MOST_CALLS), ())
    ended = calls.watched[0].ended
    assert ended()
    calls.exchange._events[0].ended = False
    for _ in range(exchange._MOST_CALLS):
        assert not ended()
        calls.exchange.start(work(calls, exchange._MOST_CALLS), ())
    assert ended()


def test_a_call_that_is_refused_in_part_ends_all(calls):
    def refused(*given):
        raise LaunchError("the GPU reports CUDA_ERROR_LAUNCH_FAILED")

    array = torch.empty(4)
    with pytest.raises(LaunchError, match="CUDA_ERROR_LAUNCH_FAILED"):
        calls.exchange.start(work(calls, run=refused), (array,))
    assert exchange._failed[3] == ["a call was started in part: the GPU reports CUDA_ERROR_LAUNCH_FAILED"]
    assert calls.exchange._lost == [(array,)] and not calls.watched
    like, group = SimpleNamespace(is_cuda=True, device=torch.device("cuda", 3)), SimpleNamespace(size=lambda: 2)
    with pytest.raises(LaunchError, match="a call was started in part"):
        exchange.exchange_of(group, like, "all_gather")


def test_ranks_that_are_late_are_named(calls, monkeypatch):
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    counters = torch.zeros(exchange._COUNTERS_BYTES, dtype=torch.uint8)
    calls.exchange._memory, calls.exchange._aside = counters, None
    for signals in (0, 2**31 - 2, 2**32 - 2):  # the number passes what an int32 holds
        calls.exchange._signals = signals
        calls.exchange.start(work(calls), ())
        late = calls.watched[-1].late
        for came, expected in ((signals, [1]), (signals + 2, [1]), (signals + 3, []), (signals + 4, [])):
            for lane, number in enumerate((signals + 3, came)):  # of rank 1
                counters.view(torch.int32)[2 + lane] = (number + 2**31) % 2**32 - 2**31
            assert late() == expected


class Prepares:
    """An exchange that says which works it would start."""

    rank, size = 0, 2

    def __init__(self, splits):
        self.works, self.splits, self.started = {}, splits, []

    def prepare(self, key, of, arrays, precision, without_parts):
        size = 64 if without_parts else 1 << 62
        made = exchange.ReadyCall(print, of.signals, of.memory_bytes, size, of.sources, self.splits, 1)
        self.works[key] = made
        return made

    def start(self, work, arrays):
        self.started.append((work.scratch_bytes, len(arrays)))


@pytest.fixture
def full(monkeypatch):
    """A GPU's memory has room for 1 MiB."""

    def scratch(like, work):
        if work.scratch_bytes > 2**20:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return like.new_empty(work.scratch_bytes, dtype=torch.uint8)

    monkeypatch.setattr(overlapped, "_scratch", scratch)


def test_without_memory_for_parts_products_do_without(full):
    A, B = torch.empty(64, 32), torch.empty(32, 16)
    moving = Prepares(splits=True)
    for _ in range(2):
        overlapped.matmul_reduce_scatter(moving, A, B, "sum", 0, None)
    assert moving.started == [(64, 4), (64, 4)] and len(moving.works) == 2


def test_without_memory_nothing_is_started(full):
    A, B = torch.empty(64, 32), torch.empty(32, 16)
    moving = Prepares(splits=False)
    with pytest.raises(torch.OutOfMemoryError):
        overlapped.all_gather_matmul(moving, A, [B], 0, None, True)
    assert not moving.started


def test_calls_that_others_are_to_see_are_left_to_collectives(monkeypatch):
    monkeypatch.setattr(products, "exchange_of", lambda group, like, purpose: (purpose, tuple(like.shape)))
    A, B = torch.empty(4, 8, dtype=torch.bfloat16), torch.empty(8, 2, dtype=torch.bfloat16)
    asked = partial(products._exchange, None, "all_gather")
    assert asked(0, A, B, torch.nn.Parameter(B)) == ("all_gather", (4, 8))
    assert asked(1, A, B) is None
    assert asked(0, A.double(), B.double()) is None
    assert asked(0, A, B.as_subclass(type("Other", (torch.Tensor,), {}))) is None
    assert asked(0, torch.empty(4, 8, dtype=torch.complex64).conj().imag, B) is None
    with torch.autocast("cpu", dtype=torch.float16):
        assert asked(0, A, B) is None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert asked(0, A, B) == ("all_gather", (4, 8))
        assert asked(0, A.float(), B.float()) is None
    with FlopCounterMode(display=False):
        assert asked(0, A, B) is None
