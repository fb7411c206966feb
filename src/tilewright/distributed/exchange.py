"""Memory that GPUs of one host write into each other, and counters that say what has come: no kernel takes part.

    rank r, side stream          rank p
    wait for the data            product of what it has
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
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tilewright.distributed.watch import Watched, watch
from tilewright.engines.registry import cuda_unavailable
from tilewright.errors import LaunchError

_COUNTER_BYTES = 4096
"""Before the two halves: a counter of 4 bytes for each rank."""

_LINE = 256
"""Bytes that a half, and each slot in it, is a multiple of."""

_MULTICAST = "TORCH_SYMM_MEM_DISABLE_MULTICAST"

_MOST_RANKS = _COUNTER_BYTES // 4

_MOST_CALLS = 16
"""That have been started and have not ended. The host waits for the one before these, without Python's lock: a queue of
the driver that is full, behind a rank that is gone, would have it wait with that lock, so nobody could find out."""

_failed: dict[int, list[str]] = {}
"""By GPU: what its calls failed of."""

_exchanges: dict[tuple[str, int, str], tuple[Any, "Exchange | None"]] = {}
"""By group, GPU and what for; with the group, since another may get its name."""


def exchange_of(group: Any, like: Any, purpose: str) -> "Exchange | None":
    """What moves data between the ranks of a group; None where collectives have to.

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
    exchange = Exchange(group, device)
    try:
        exchange.grow(0)
        works = True
    except RuntimeError:  # this system does not let processes share memory of GPUs
        works = False
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


class Exchange:
    """Buffers and counters of one rank's GPU, that all ranks of a group see."""

    def __init__(self, group: Any, device: Any) -> None:
        self.rank, self.size = group.rank(), group.size()
        self._group, self._device, self._timeout = group, device, _timeout(group, device)
        self._half = 0
        self._memory: Any = None
        self._handle: Any = None
        self._call = 0
        self._signals = 0
        self._ends: deque[Any] = deque()
        self._ok = torch.ones((), dtype=torch.bool, device=device)
        torch._assert_async(self._ok)  # loaded now: a GPU may be unable to load code while a stream waits
        self._aside = _stream_of_its_own(device)
        self.side = torch.cuda.Stream(device)
        """Copies run here."""

    def copying(self) -> Any:
        """A context in which copies go to the side stream."""
        return torch.cuda.stream(self.side)

    def grow(self, needed: int) -> None:
        """Make each half hold this many bytes; a collective call, which waits for all work of all ranks."""
        import torch.distributed._symmetric_memory as symmetric  # noqa: PLC0415 - not in every build of PyTorch

        half = -(-max(needed, self._half, _LINE) // _LINE) * _LINE
        total = _COUNTER_BYTES + 2 * half
        if self._memory is not None:
            torch.cuda.synchronize(self._device)
            _gather(self._group, None)  # nobody uses the old memory any more
        with _without_multicast():
            memory = symmetric._SymmetricMemory.empty_strided_p2p((total,), (1,), torch.uint8, self._device)
            memory[:_COUNTER_BYTES].zero_()
            torch.cuda.synchronize(self._device)
            self._handle = symmetric.rendezvous(memory, self._group.group_name)
        if self._handle.buffer_ptrs[self.rank] != memory.data_ptr():
            raise RuntimeError("symmetric memory does not begin where it was allocated")
        self._memory, self._half, self._signals = memory, half, 0

    def begin(self, needed: int, signals: int) -> "Call":
        """The next call, in the current stream.

        Args:
            needed: bytes of this rank's buffer that others write.
            signals: how many each rank that writes to another sends it.
        """
        if len(self._ends) == _MOST_CALLS:
            self._ends.popleft().synchronize()
        if needed > self._half:
            self.grow(max(needed, min(2 * self._half, 2 * needed)))
        stream = torch.cuda.current_stream(self._device)
        if self._ends:
            stream.wait_event(self._ends[-1])  # it may have been in another stream
        self._call += 1
        begin = _COUNTER_BYTES + self._call % 2 * self._half
        before, self._signals = self._signals, self._signals + signals
        return Call(self, stream, self._handle, begin, before)

    def ended(self, call: "Call", waited: set[int]) -> None:
        """All of a call has been started; waited: ranks whose signals it waits for."""
        with torch.cuda.stream(call.stream):
            torch._assert_async(self._ok)
        end = call.stream.record_event()
        self._ends.append(end)
        expected = self._signals
        counters = self._memory[:_COUNTER_BYTES].view(torch.int32)[: self.size]

        def ended() -> bool:
            from tilewright.engines.driver import outside_of_captures  # noqa: PLC0415 - needs the CUDA bindings

            with outside_of_captures():
                return bool(end.query())

        def late() -> list[int]:
            with torch.cuda.stream(self._aside):
                came = counters.tolist()
            return [rank for rank in sorted(waited) if (came[rank] - expected) & 2**31]

        def release() -> None:
            last = (self._signals + 2**31) % 2**32 - 2**31  # of all calls that have been started
            with torch.cuda.stream(self._aside):  # by copies alone, for which a GPU loads no code
                self._ok.copy_(torch.zeros((), dtype=torch.bool))
                counters.copy_(torch.tensor([last] * self.size, dtype=torch.int32))
            torch.cuda.synchronize(self._device)

        watch(Watched(ended, self._timeout, late, release, _failed.setdefault(self._device.index, [])))


def _stream_of_its_own(device: Any) -> Any:
    """A stream that nothing else runs in: PyTorch's come from a pool, and one of that could be the one that waits."""
    from cuda.bindings import driver  # noqa: PLC0415 - slow to import

    from tilewright.engines.driver import check  # noqa: PLC0415 - needs the CUDA bindings

    with torch.cuda.device(device):
        made = check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    return torch.cuda.ExternalStream(int(made), device)


class Call:
    """One call of an exchange."""

    def __init__(self, exchange: Exchange, stream: Any, handle: Any, begin: int, signals: int) -> None:
        from cuda.bindings import driver  # noqa: PLC0415 - slow to import

        self.stream = stream
        self._exchange, self._handle, self._driver = exchange, handle, driver
        self._begin, self._signals = begin, signals

    def buffer(self, rank: int, offset: int, like: Any) -> Any:
        """Memory of a rank, of a tensor's shape and type, from a byte of this call's half on; see `slot_bytes`."""
        first = (self._begin + offset) // like.element_size()
        return self._handle.get_buffer(rank, tuple(like.shape), like.dtype, first)

    def send(self, rank: int, offset: int, data: Any, number: int) -> None:
        """Start to copy a tensor without gaps to a rank's memory, in the side stream, and tell the rank when it came.

        Args:
            rank: to which.
            offset: where to, as `buffer` has it.
            data: the tensor.
            number: which signal to that rank this is, from 1 on.
        """
        stream, there = self._exchange.side.cuda_stream, self._handle.buffer_ptrs[rank]
        if data.nbytes:
            _check(self._driver.cuMemcpyAsync(there + self._begin + offset, data.data_ptr(), data.nbytes, stream))
        counter = there + 4 * self._exchange.rank
        _check(self._driver.cuStreamWriteValue32(stream, counter, self._value(number), 0))

    def wait(self, rank: int, number: int) -> None:
        """Have the call's stream wait for a signal of a rank."""
        own = self._handle.buffer_ptrs[self._exchange.rank] + 4 * rank
        at_least = self._driver.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ
        _check(self._driver.cuStreamWaitValue32(self.stream.cuda_stream, own, self._value(number), at_least))

    def _value(self, number: int) -> int:
        value: int = self._signals + number
        return value & 0xFFFFFFFF  # compared as a difference, so it may wrap


def slot_bytes(like: Any) -> int:
    """Bytes that a tensor takes in a buffer."""
    taken: int = like.nbytes
    return -(-taken // _LINE) * _LINE


def _check(result: Any) -> None:
    from tilewright.engines.driver import check  # noqa: PLC0415 - needs the CUDA bindings

    check(result)


def _timeout(group: Any, device: Any) -> float:
    """Seconds that ranks of a group wait for each other."""
    try:
        return float(group._get_backend(device).options._timeout.total_seconds())
    except (AttributeError, RuntimeError):
        return 600.0
