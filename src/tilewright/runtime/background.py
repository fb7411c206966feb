"""Compilers at work while nobody waits for them: calls go another way until their code is there.

What has not begun when the process ends never begins; the end waits for compilers that run within the process.
"""

import atexit
import os
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

_Work = Callable[[], Any]

_MOST_THREADS = 16
"""Compilers at a time; at least one core is left to others."""


class PendingCode(Exception):  # noqa: N818 - no error: another way is taken
    """Raised in place of waiting for a compiler.

    Args:
        work: what is being compiled.
    """

    def __init__(self, work: Sequence[Future[Any]]) -> None:
        super().__init__("code is being compiled")
        self.work = work


_here = threading.local()


@contextmanager
def never_waiting() -> Iterator[None]:
    """In a `with` block, products of this thread raise PendingCode where code has to be compiled first."""
    before = not waits()
    _here.never = True
    try:
        yield
    finally:
        _here.never = before


def waits() -> bool:
    """Whether this thread waits for compilers."""
    return not getattr(_here, "never", False)


def require(works: Mapping[Hashable, _Work]) -> None:
    """Have work done in the background, once for each name; `begun` gives the results.

    Raises:
        PendingCode: some of it is not done.
    """
    started = [start(name, work) for name, work in works.items()]
    if not all(one.done() for one in started):
        raise PendingCode(started)


def start(name: Hashable, work: _Work, within: bool = True) -> Future[Any]:
    """The result of work that is done in the background, once under this name.

    within: whether it runs within this process, whose end then waits for it; False of a compiler that is a program.
    """
    return _compilers.start(name, work, within)


def begun(name: Hashable) -> Any:
    """The result of work that was begun under this name, which is waited for; None where none was."""
    found = _compilers.drop(name)
    return None if found is None else found.result()


def finish() -> bool:
    """Wait until all that was begun is done. Returns whether there was something to wait for."""
    left = _compilers.left()
    wait(left)
    return bool(left)


class _Compilers:
    """Threads that work in the background; there are none until something is to be done."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Hashable, Future[Any]] = {}
        self._queue: SimpleQueue[tuple[Future[Any], _Work, bool]] = SimpleQueue()
        self._threads = 0
        self._within: set[Future[Any]] = set()
        self._ended = False

    def start(self, name: Hashable, work: _Work, within: bool) -> Future[Any]:
        with self._lock:
            if name not in self._known:
                self._known[name] = Future()
                self._queue.put((self._known[name], work, within))
                if self._threads < max(1, min(len(os.sched_getaffinity(0)) - 1, _MOST_THREADS)):
                    self._threads += 1
                    threading.Thread(target=self._run, name="tilewright-compile", daemon=True).start()
            return self._known[name]

    def drop(self, name: Hashable) -> Future[Any] | None:
        with self._lock:
            return self._known.pop(name, None)

    def left(self) -> list[Future[Any]]:
        with self._lock:
            return [one for one in self._known.values() if not one.done()]

    def _run(self) -> None:
        while True:
            future, work, within = self._queue.get()
            with self._lock:
                if self._ended:
                    return
                if within:
                    self._within.add(future)
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
            with self._lock:
                self._within.discard(future)

    def end(self) -> None:
        """Begin nothing more, and wait for compilers within the process: its end would unload them while they run."""
        with self._lock:
            self._ended, running = True, tuple(self._within)
        wait(running)


_compilers = _Compilers()
atexit.register(lambda: _compilers.end())


def _forget() -> None:
    """In a process that was forked: it has none of the threads."""
    global _compilers
    _compilers = _Compilers()


os.register_at_fork(after_in_child=_forget)
