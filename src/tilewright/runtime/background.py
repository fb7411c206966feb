"""Compiling that no call waits for: jobs on a few daemon threads, each once in a process.

At the interpreter's exit, jobs that have not begun are dropped. Compilers that run in this process end first: exit
would unload their library under them, and what they make is cached for the next process.
"""

import atexit
import os
import threading
from collections.abc import Callable, Hashable
from queue import SimpleQueue
from typing import Any

_MOST_THREADS = 8
"""Jobs at once, on a machine with twice as many cores: the rest is for the program."""


class BackgroundJob:
    """Work of a background thread."""

    def __init__(self, work: Callable[[], Any], in_process: bool) -> None:
        self._work: Callable[[], Any] | None = work
        self._done = threading.Event()
        self.in_process = in_process
        """Whether exit waits for it, once it has begun."""
        self.error: Exception | None = None
        """The error that ended it."""

    @property
    def ended(self) -> bool:
        """Whether it has ended, also by an error."""
        return self._done.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, at most this long; returns whether it has."""
        return self._done.wait(seconds)

    def run(self) -> None:
        """Do the work, in the thread that calls."""
        assert self._work is not None
        try:
            self._work()
        except Exception as error:  # whoever asks for the job is told
            self.error = error
        self._work = None  # may hold memory
        self._done.set()


class Background:
    """Threads that are started when there is work, and the jobs that were ever given to them, by key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[Hashable, BackgroundJob] = {}
        self._queue: SimpleQueue[BackgroundJob] = SimpleQueue()
        self._threads = 0
        self._running: set[BackgroundJob] = set()
        self._closed = False

    def start(self, key: Hashable, work: Callable[[], Any], in_process: bool = True) -> BackgroundJob:
        """The job of a key, begun as soon as a thread is free if it is new.

        Args:
            key: what the work makes.
            work: called in a background thread, without any lock.
            in_process: whether exit must wait for it once it has begun: False of a compiler that is a program.
        """
        with self._lock:
            job = self._jobs.get(key)
            if job is None:
                job = self._jobs[key] = BackgroundJob(work, in_process)
                self._queue.put(job)
                if self._threads < max(1, min(_MOST_THREADS, len(os.sched_getaffinity(0)) // 2)):
                    self._threads += 1
                    threading.Thread(target=self._serve, name="tilewright-background", daemon=True).start()
        return job

    def wait(self) -> None:
        """Wait until all jobs that were started have ended."""
        with self._lock:
            jobs = tuple(self._jobs.values())
        for job in jobs:
            job.wait()

    def close(self) -> None:
        """Begin no more jobs, and wait for those that must end before the process does."""
        with self._lock:
            self._closed = True
            running = tuple(self._running)
        for job in running:
            if job.in_process:
                job.wait()

    def _serve(self) -> None:
        while True:
            job = self._queue.get()
            with self._lock:
                if self._closed:
                    return
                self._running.add(job)
            job.run()
            with self._lock:
                self._running.discard(job)


background = Background()
"""The process's own. A process that was forked has no such threads, and begins anew."""

os.register_at_fork(after_in_child=lambda: background.__init__())  # type: ignore[misc]
atexit.register(lambda: background.close())
