"""Memory that GPUs of one host write into each other, and counters that say what has arrived: no kernel waits for them.

    rank r                       rank p
    makes the data               product of what it has
    copy engine: data   ------>  buffer, of the generation of the call
    write a number      ------>  counter of r
                                 the stream waits until the counter is that number, then the product of the data

A generation has half of the buffer, and calls alternate. Whoever writes for call g has ended call g-1, for which all
ranks that read had ended call g-2: so nothing is overwritten that is still read, and no rank waits before it writes.

Memory is PyTorch's symmetric memory. Driver API: "Stream Memory Operations" (cuStreamWriteValue32,
cuStreamWaitValue32); a wait takes no multiprocessor.
"""

import os
import socket
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import torch

from tilewright.api.call import gpu_engine
from tilewright.api.engines import cuda_unavailable
from tilewright.core.errors import LaunchError, TilewrightError
from tilewright.frameworks.torch.arrays import numpy_name
from tilewright.frameworks.torch.distributed.failing import failing
from tilewright.frameworks.torch.distributed.planning import CallKind, planned
from tilewright.frameworks.torch.distributed.sequences import (
    COUNTER_BYTES,
    LANE,
    LANES,
    MAIN,
    OTHER_SIDE,
    SIDE,
    RankCall,
    rounded,
)
from tilewright.frameworks.torch.distributed.watchdog import WatchedCall, watch
from tilewright.kernels.support import VECTOR_BYTES
from tilewright.runtime import sequence
from tilewright.runtime.sequence import ABSOLUTE, Location

_COUNTERS_BYTES = 4096
"""Bytes of the counters before the two halves: one for each lane of each rank."""

_MULTICAST = "TORCH_SYMM_MEM_DISABLE_MULTICAST"

_MOST_RANKS = _COUNTERS_BYTES // COUNTER_BYTES // len(LANES)

_MOST_CALLS, _MOST_STEPS = 16, 1024
"""Calls, and steps of them, that have been started and have not ended, at most. The host waits for one before these,
without Python's lock: a queue of the driver that is full, behind a rank that is gone, would have it wait with that
lock, so nobody could find out."""

_MOST_KINDS = 256
"""Kinds of calls whose steps are cached, at most."""

_failed: dict[int, list[str]] = {}
"""By GPU: what its calls failed of."""

_address = torch.Tensor.data_ptr

_exchanges: dict[tuple[str, int, str], tuple[Any, "Exchange | None"]] = {}
"""By group, GPU and what for; with the group, since another may get its name."""


def exchange_of(group: Any, like: Any, purpose: str) -> "Exchange | None":
    """The exchange that moves data between the ranks of a group; None where collectives have to.

    The first call for a group is a collective one. All ranks get one, or none does.

    Args:
        group: a process group.
        like: a tensor on this rank's GPU.
        purpose: calls of one purpose have memory of their own.

    Raises:
        LaunchError: a call on this GPU has failed.
    """
    if not like.is_cuda or group.size() == 1:
        return None
    if words := _failed.get(like.device.index):
        raise LaunchError(words[0])
    if torch.cuda.is_current_stream_capturing():
        return None
    key = group.group_name, like.device.index, purpose
    found = _exchanges.get(key)
    if found is None or found[0] is not group:
        found = _exchanges[key] = group, _made(group, like.device)
    return found[1]


def _made(group: Any, device: Any) -> "Exchange | None":
    if not _agree(group, _reach(group, device)):
        return None
    exchange, works = None, False
    with suppress(TilewrightError):  # there is no NVRTC, say
        exchange = Exchange(group, device)
    if not _agree(group, exchange is not None) or exchange is None:
        return None
    with suppress(RuntimeError):  # this system does not let processes share memory of GPUs
        exchange.grow(0)
        works = True
    return exchange if _agree(group, works) else None


def _reach(group: Any, device: Any) -> bool:
    """Whether this rank's GPU reaches those of all ranks."""
    own = socket.gethostname(), device.index, torch.cuda.device_count()
    ranks = _gather(group, own)
    if cuda_unavailable() or group.size() > _MOST_RANKS or len({host for host, _, _ in ranks}) > 1:
        return False
    try:
        import torch.distributed._symmetric_memory as memory  # noqa: PLC0415 - not in every build of PyTorch
    except ImportError:
        return False
    if not hasattr(memory, "rendezvous"):
        return False
    # Where a process sees only its own GPU, the rendezvous shows whether others are reached.
    peers = {index for _, index, _ in ranks} - {device.index}
    return all(
        index >= torch.cuda.device_count() or torch.cuda.can_device_access_peer(device.index, index) for index in peers
    )


def _gather(group: Any, own: Any) -> list[Any]:
    import torch.distributed as dist  # noqa: PLC0415 - not in every build of PyTorch

    found: list[Any] = [None] * group.size()
    dist.all_gather_object(found, own, group=group)
    return found


def _agree(group: Any, own: bool) -> bool:
    return all(_gather(group, own))


@contextmanager
def _without_multicast() -> Iterator[None]:
    """In a `with` block, PyTorch sets up no multicast over NVLink, which nothing here uses."""
    before = os.environ.get(_MULTICAST)
    os.environ[_MULTICAST] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_MULTICAST]
        else:
            os.environ[_MULTICAST] = before


class ReadyCall(NamedTuple):
    """Steps that a call starts, ready; one object for all calls of a kind."""

    run: Callable[..., None]
    """`sequence.Sequence.run`."""
    signals: int
    memory_bytes: int
    scratch_bytes: int
    sources: frozenset[tuple[int, int]]
    splits: bool
    """As `sequences.RankCall` and `planning.Planned` have them."""
    ahead: int
    """This many calls before it may not have ended when it is started."""


class Exchange:
    """Memory and counters of one rank's GPU, that all ranks of a group see, and what calls of each kind start."""

    def __init__(self, group: Any, device: Any) -> None:
        engine: Any = gpu_engine(None, device.index)
        self.rank, self.size, self.device = group.rank(), group.size(), device
        self.works: dict[Hashable, ReadyCall] = {}
        """By what calls of a kind have in common."""
        self._engine = engine
        self._group, self._timeout = group, _timeout(group, device)
        self._half = 0
        self._memory: Any = None
        self._handle: Any = None
        self._bases: list[tuple[int, ...]] = []
        self._calls = self._signals = 0
        self._ok = torch.ones((), dtype=torch.int32, device=device)
        self._check = sequence.PlanLaunch(SIDE, (failing(engine),), (("A", Location(ABSOLUTE, self._ok.data_ptr())),))
        """Fails where this call, or one before, is to fail."""
        self._aside = _stream_of_its_own(device)
        self._own = {one: _stream_of_its_own(device) for one in (SIDE, LANE, OTHER_SIDE)}
        """Streams of calls, but for MAIN."""
        self._events = [_event(device) for _ in range(_MOST_CALLS)]
        """Events of the ends of calls, used in turns."""
        self._ends = [event.cuda_event for event in self._events]
        self._lost: list[tuple[Any, ...]] = []
        """Arrays that a call may use that nobody waits for."""
        self._between: list[Any] = []
        """Events of the steps of calls: a wait is for what an event was last when the wait was started."""
        self._stream = torch._C._cuda_getCurrentRawStream
        torch.cuda.synchronize(device)
        # Loaded now: a GPU may be unable to load code while a stream waits.
        once = sequence.sequence(engine.context, (), (self._check,), (self._own[SIDE].cuda_stream,), ())
        once.run((0,), self._stream(device.index), 0, 0, self._ends[0])
        torch.cuda.synchronize(device)

    def grow(self, needed: int) -> None:
        """Make each half hold this many bytes; a collective call, which waits for all work of all ranks."""
        import torch.distributed._symmetric_memory as symmetric  # noqa: PLC0415 - not in every build of PyTorch

        half = max(rounded(max(needed, self._half)), rounded(1))
        total = _COUNTERS_BYTES + 2 * half
        if self._memory is not None:
            torch.cuda.synchronize(self.device)
            _gather(self._group, None)  # nobody uses the old memory any more
        with _without_multicast():
            memory = symmetric._SymmetricMemory.empty_strided_p2p((total,), (1,), torch.uint8, self.device)
            memory[:_COUNTERS_BYTES].zero_()
            torch.cuda.synchronize(self.device)
            self._handle = symmetric.rendezvous(memory, self._group.group_name)
        begins = tuple(self._handle.buffer_ptrs)
        if begins[self.rank] != memory.data_ptr():
            raise RuntimeError("symmetric memory does not begin where it was allocated")
        self._memory, self._half, self._signals = memory, half, 0
        halves = _COUNTERS_BYTES, _COUNTERS_BYTES + half
        self._bases = [(0, *begins, *(begin + at for begin in begins)) for at in halves]

    def prepare(
        self, key: Hashable, of: RankCall, arrays: Mapping[str, Any], precision: str | None, without_parts: bool
    ) -> ReadyCall:
        """Plan and compile a call's products, and make its steps ready for all calls of its kind.

        Args:
            key: the kind.
            of: the call as data.
            arrays: its tensors, by the bases that the steps name: `start` is given such, and then the scratch.
            precision: as `matmul` takes it.
            without_parts: whether products of float32 are not to split their factors.

        Raises:
            ProblemError, CompileError, LaunchError: as `matmul` raises them; nothing has been launched.
        """
        like, own = arrays["A"], {number: one.cuda_stream for number, one in self._own.items()}
        aligned = {name: one.data_ptr() % VECTOR_BYTES for name, one in arrays.items()}
        current = self._stream(self.device.index)
        kind = CallKind(like, numpy_name(like.dtype), self._engine, current, aligned, precision, without_parts)
        # Nobody else's launches take counters of these streams; those of the call's own may be any stream's.
        found = planned(of, kind, self._check, {MAIN: own[SIDE], LANE: own[LANE]})
        while len(self._between) < of.events:
            self._between.append(_event(self.device))
        ranks = range(self.size)
        names = (*(f"counters{rank}" for rank in ranks), *(f"memory{rank}" for rank in ranks), *arrays, "scratch")
        events = [event.cuda_event for event in self._between]
        ready = sequence.sequence(self._engine.context, names, found.steps, tuple(own.values()), events)
        count = sum(len(step.steps) if isinstance(step, sequence.PlanLaunch) else 1 for step in found.steps)
        ahead = max(1, min(_MOST_CALLS, _MOST_STEPS // count))
        if len(self.works) == _MOST_KINDS:
            self.works.clear()
        made = ReadyCall(ready.run, of.signals, of.memory_bytes, found.scratch_bytes, of.sources, found.splits, ahead)
        self.works[key] = made
        return made

    def start(self, work: ReadyCall, arrays: tuple[Any, ...]) -> None:
        """Start a call in the current stream.

        Args:
            work: what to start.
            arrays: tensors, as `prepare` was told. Their memory is the current stream's, before and after the call.

        Raises:
            LaunchError: the driver refuses a step. Those before it have been started, so the GPU takes no more calls.
        """
        number = self._calls
        if number >= work.ahead:
            self._events[(number - work.ahead) % _MOST_CALLS].synchronize()
        if work.memory_bytes > self._half:
            self.grow(max(work.memory_bytes, min(2 * self._half, 2 * work.memory_bytes)))
        bases = self._bases[number & 1] + tuple(map(_address, arrays))
        stream, signals = self._stream(self.device.index), self._signals & 0xFFFFFFFF
        before = self._ends[(number - 1) % _MOST_CALLS] if number else 0  # it may have been in another stream
        self._calls, self._signals = number + 1, self._signals + work.signals
        failed = _failed.setdefault(self.device.index, [])
        try:
            work.run(bases, stream, signals, before, self._ends[number % _MOST_CALLS])
        except LaunchError as error:
            failed.append(f"a call was started in part: {error}")
            self._lost.append(arrays)
            raise
        late = partial(self._late, work.sources, self._signals)
        watch(WatchedCall(partial(self._has_ended, number), self._timeout, late, self._release, failed))

    def _has_ended(self, number: int) -> bool:
        from tilewright.runtime.driver import outside_of_captures  # noqa: PLC0415 - needs the CUDA bindings

        with outside_of_captures():
            ended = self._events[number % _MOST_CALLS].query()
        return bool(ended or self._calls > number + _MOST_CALLS)  # or the event is a later call's

    def _late(self, sources: frozenset[tuple[int, int]], expected: int) -> list[int]:
        """Ranks of which one of these lanes has not signalled a number."""
        with torch.cuda.stream(self._aside):
            came = self._counters.tolist()
        return sorted({rank for rank, lane in sources if (came[len(LANES) * rank + lane] - expected) & 2**31})

    def _release(self) -> None:
        """End all waits, and have the GPU fail."""
        last = (self._signals + 2**31) % 2**32 - 2**31  # of all calls that have been started
        counters = self._counters
        with torch.cuda.stream(self._aside):  # by copies alone, for which a GPU loads no code
            self._ok.copy_(torch.zeros((), dtype=torch.int32))
            counters.copy_(torch.tensor([last] * len(counters), dtype=torch.int32))
        torch.cuda.synchronize(self.device)

    @property
    def _counters(self) -> Any:
        return self._memory[:_COUNTERS_BYTES].view(torch.int32)[: self.size * len(LANES)]


def _event(device: Any) -> Any:
    """An event of the driver: PyTorch makes it when it is recorded first."""
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))
    return event


def _stream_of_its_own(device: Any) -> Any:
    """A stream that nothing else runs in: PyTorch's come from a pool, and one of that could be the one that waits."""
    from cuda.bindings import driver  # noqa: PLC0415 - slow to import

    from tilewright.runtime.driver import check  # noqa: PLC0415 - needs the CUDA bindings

    with torch.cuda.device(device):
        made = check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    return torch.cuda.ExternalStream(int(made), device)


def _timeout(group: Any, device: Any) -> float:
    """Seconds that ranks of a group wait for each other."""
    try:
        return float(group._get_backend(device).options._timeout.total_seconds())
    except (AttributeError, RuntimeError):
        return 600.0
