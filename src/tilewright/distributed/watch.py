"""Watches calls of several ranks: where one has not ended within its group's timeout, this GPU's work fails, as no rank
that waits for another may wait for ever.

A stream that waits for a rank that is gone ends its wait only when what it waits for is there. So the watch writes
that itself, and before it that the call has failed; at its end the call looks at that, and fails: whatever the process
asks of this GPU then raises an error. PyTorch's watchdog of NCCL ends the process instead.
"""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

LOG = logging.getLogger("tilewright.distributed")

_PAUSE_S = 0.25


class Watched(NamedTuple):
    """A call that has been started."""

    done: Any
    """The event of its end."""
    timeout: float
    """Seconds from now on, or from the end of the call before."""
    device: Any
    late: Callable[[], list[int]]
    """Which ranks it waits for; reads the GPU's memory."""
    release: Callable[[], None]
    """Ends its waits, and has it fail, in the current stream, without code that a GPU would have to load."""
    failed: list[str]
    """Told what went wrong."""


_lock = threading.Condition()
_calls: deque[tuple[float, Watched]] = deque()
_thread: threading.Thread | None = None


def watch(call: Watched) -> None:
    """See to it that a call ends, or fails."""
    global _thread
    with _lock:
        _calls.append((time.monotonic() + call.timeout, call))
        if _thread is None:
            _thread = threading.Thread(target=_run, name="tilewright-watch", daemon=True)
            _thread.start()
        elif len(_calls) == 1:
            _lock.notify()


def prepare(device: Any) -> None:
    """Load the code by which a call fails, since a GPU may be unable to load any while a stream waits."""
    torch._assert_async(torch.ones((), dtype=torch.bool, device=device))
    torch.cuda.synchronize(device)


def _run() -> None:
    last = 0.0
    while True:
        with _lock:
            while not _calls:
                _lock.wait()
            deadline, call = _calls[0]
        try:
            ended = _ended(call)
        except RuntimeError:  # the GPU has failed, which its user finds out
            ended = True
        if ended:
            last = time.monotonic()
            with _lock:
                _calls.popleft()
        elif time.monotonic() > max(deadline, last + call.timeout):
            _fail(call)
            with _lock:
                _calls.clear()
        else:
            time.sleep(_PAUSE_S)


def _ended(call: Watched) -> bool:
    from tilewright.engines.driver import outside_of_captures  # noqa: PLC0415 - needs the CUDA bindings

    with outside_of_captures():
        return bool(call.done.query())


def _fail(call: Watched) -> None:
    """Say who did not come, and have the call fail."""
    with contextlib.suppress(RuntimeError), torch.cuda.stream(torch.cuda.Stream(call.device)):
        ranks = call.late()
        words = (
            f"a product of several ranks did not end within {call.timeout:g} s, the timeout of its group: it waits for "
            + (f"rank {', '.join(map(str, ranks))} of the group" if ranks else "work that was started before")
        )
        call.failed.append(words)
        LOG.error(words)
        call.release()
        torch.cuda.current_stream(call.device).synchronize()
        torch.cuda.synchronize(call.device)
