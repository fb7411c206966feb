"""Watches calls of several ranks: where one has not ended within its group's timeout, this GPU's work fails, as no rank
that waits for another may wait for ever.

A stream that waits for a rank that is gone ends its wait only when what it waits for is there. So the watchdog writes
that itself, and before it that the call has failed; at its end the call looks at that, and fails: whatever the process
asks of this GPU then raises an error. Where even that hangs, as in a driver that waits for a full queue, the process
ends, as PyTorch's watchdog of NCCL has it end at once.
"""

import contextlib
import faulthandler
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

LOG = logging.getLogger("tilewright.distributed")

GRACE_S = 10.0
"""A call that is to fail has this long, then the process ends."""

_PAUSE_S = 0.25
_STDERR = 2


class WatchedCall(NamedTuple):
    """A call that has been started."""

    ended: Callable[[], bool]
    """Whether it has. A RuntimeError says that the GPU has failed, which its user finds out."""
    timeout: float
    """Seconds from now on, or from the end of the call before."""
    late: Callable[[], list[int]]
    """Which ranks it waits for."""
    release: Callable[[], None]
    """Ends its waits, and has it fail; returns when it has. It may raise that error."""
    failed: list[str]
    """Messages on faults so far."""


_lock = threading.Condition()
_calls: deque[tuple[float, WatchedCall]] = deque()
_thread: threading.Thread | None = None


def watch(call: WatchedCall) -> None:
    """See to it that a call ends, or fails."""
    global _thread
    with _lock:
        _calls.append((time.monotonic() + call.timeout, call))
        if _thread is None:
            _thread = threading.Thread(target=_run, name="tilewright-watch", daemon=True)
            _thread.start()
        elif len(_calls) == 1:
            _lock.notify()


def _run() -> None:
    last = 0.0
    while True:
        with _lock:
            while not _calls:
                _lock.wait()
            deadline, call = _calls[0]
        try:
            ended = call.ended()
        except RuntimeError:
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


def _fail(call: WatchedCall) -> None:
    """Say who did not come, and have the call fail."""
    faulthandler.dump_traceback_later(GRACE_S, exit=True, file=_STDERR)  # needs neither Python's lock nor the driver
    ranks: list[int] = []
    with contextlib.suppress(RuntimeError):
        ranks = call.late()
    words = (
        f"a product of several ranks did not end within {call.timeout:g} s, the timeout of its group: it waits for "
        + (f"rank {', '.join(map(str, ranks))} of the group" if ranks else "work that was started before")
    )
    call.failed.append(words)
    LOG.error(words)
    with contextlib.suppress(RuntimeError):
        call.release()
    faulthandler.cancel_dump_traceback_later()
