"""Threads side by side, and what they wait for: an interrupt of the thread that started them ends it at once."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

S = TypeVar("S")
T = TypeVar("T")

_here = threading.local()
"""The `Workers` that the thread is one of; a value of its own in each thread."""


class StoppedError(BaseException):
    """Raised in a thread whose work nobody waits for any more."""


class Workers:
    """Threads, in a `with` block. Where an exception leaves the block, Ctrl-C among others, they are stopped: what
    they wait for in `ended_by` is ended, and what has not begun never begins."""

    def __init__(self, most: int | None = None) -> None:
        """Threads that are started when there is work, at most this many."""
        self._threads = ThreadPoolExecutor(most, initializer=self._begin)
        self._lock = threading.Lock()
        self._ends: list[Callable[[], None]] = []
        self._within = contextlib.ExitStack()
        self.stopped = False

    def __enter__(self) -> "Workers":
        self._within.enter_context(ended_by(self.stop))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._within:
            if kind is not None:
                self.stop()
            self._threads.shutdown(cancel_futures=kind is not None)

    def submit(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        """Have a thread call a function."""
        return self._threads.submit(function, *arguments)

    def map(self, function: Callable[[S], T], items: Iterable[S]) -> list[T]:
        """Results of a function for each item."""
        return list(self._threads.map(function, items))

    def stop(self) -> None:
        """End what the threads wait for, now and from now on."""
        with self._lock:
            self.stopped = True
            ends = list(self._ends)
        for end in ends:
            end()

    def _begin(self) -> None:
        _here.workers = self

    @contextlib.contextmanager
    def waiting(self, end: Callable[[], None]) -> Iterator[None]:
        """As `ended_by`, of one of these threads."""
        with self._lock:
            self._ends.append(end)
        try:
            if self.stopped:
                end()
            yield
        finally:
            with self._lock:
                self._ends.remove(end)
        if self.stopped:
            raise StoppedError


@contextlib.contextmanager
def ended_by(end: Callable[[], None]) -> Iterator[None]:
    """In a `with` block that waits for something: have it ended by a call, from another thread, where this thread's
    `Workers` are stopped.

    Raises:
        StoppedError: they have been stopped by the end of the block.
    """
    workers: Workers | None = getattr(_here, "workers", None)
    with workers.waiting(end) if workers else contextlib.nullcontext():
        yield


def check_stopped() -> None:
    """Raise StoppedError where this thread's `Workers` are stopped."""
    workers: Workers | None = getattr(_here, "workers", None)
    if workers and workers.stopped:
        raise StoppedError
