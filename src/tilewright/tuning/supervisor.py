"""Keeps a worker process: starts it, watches its deadlines, and replaces it when it hangs or crashes."""

import contextlib
import multiprocessing
import signal
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, Literal

from tilewright.errors import EngineUnavailableError, LaunchError
from tilewright.problem import Problem
from tilewright.tuning import worker
from tilewright.tuning.worker import Answer, Final, Job, Lookup, Prepare

_START_S = 300.0
"""A new process has this long to start its engine."""

_PREPARE_S = 300.0
"""Making a problem's operands may take this long, and a second more for each _PREPARED_FLOPS of their product."""

_PREPARED_FLOPS = 1e9


class WorkerLostError(Exception):
    """The worker did not answer: it hung, or it crashed."""

    def __init__(self, outcome: Literal["hung", "crashed"], note: str) -> None:
        super().__init__(note)
        self.outcome: Literal["hung", "crashed"] = outcome


class Worker:
    """A process that measures: started when there is something to measure, and again after each that was lost."""

    def __init__(self, engine_name: str, lookup: Lookup, deadline_s: float) -> None:
        """Prepare a worker.

        Args:
            engine_name: 'cuda' or 'emulator'.
            lookup: finds kernels by name; a function of a module.
            deadline_s: seconds that one config may take.
        """
        self.deadline_s = deadline_s
        self._engine_name = engine_name
        self._lookup = lookup
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._problem: Problem | None = None

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def ask(self, request: Job | Final) -> Any:
        """An Answer to a Job; to a Final records, or a text that says why there are none.

        Raises:
            WorkerLostError: it took longer than the deadline, or the process ended; the next request gets a new one.
            EngineUnavailableError: no process can be started that has the engine.
            LaunchError: the problem's operands cannot be made.
        """
        connection = self._start()
        if request.problem != self._problem:
            self._prepare(connection, request.problem)
        configs = len(request.named) + 1 if isinstance(request, Final) else 1
        answer = self._exchange(connection, request, self.deadline_s * configs)
        if isinstance(answer, Answer) and answer.broken:
            self.end()
        return answer

    def end(self) -> None:
        """End the process."""
        if self._process:
            self._process.kill()
            self._process.join()
        if self._connection:
            self._connection.close()
        self._process = self._connection = self._problem = None

    def _start(self) -> Connection:
        if self._connection is not None:
            return self._connection
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=worker.serve, args=(theirs, self._engine_name, self._lookup), name="tilewright-tune", daemon=True
        )
        with _interrupts_held():
            process.start()
        theirs.close()
        self._process, self._connection = process, ours
        try:
            refusal = self._receive(ours, _START_S)
        except WorkerLostError as error:
            raise EngineUnavailableError(f"no process to measure in can be started: {error}") from None
        if refusal:
            self.end()
            raise EngineUnavailableError(str(refusal))
        return ours

    def _prepare(self, connection: Connection, problem: Problem) -> None:
        try:
            refusal = self._exchange(connection, Prepare(problem), _PREPARE_S + problem.flops / _PREPARED_FLOPS)
        except WorkerLostError as error:
            refusal = str(error)
        if refusal:
            raise LaunchError(f"the operands of {problem.shape} cannot be made: {refusal}")
        self._problem = problem

    def _exchange(self, connection: Connection, request: Job | Final | Prepare, allowed_s: float) -> Any:
        with contextlib.suppress(BrokenPipeError):  # it has ended: receiving tells how
            connection.send(request)
        return self._receive(connection, allowed_s)

    def _receive(self, connection: Connection, allowed_s: float) -> Any:
        try:
            if connection.poll(allowed_s):
                return connection.recv()
        except (EOFError, ConnectionResetError):
            note = self._how_it_ended()
            self.end()
            raise WorkerLostError("crashed", note) from None
        self.end()
        raise WorkerLostError("hung", f"no answer in {allowed_s:g} s")

    def _how_it_ended(self) -> str:
        assert self._process is not None
        self._process.join(10)
        status = self._process.exitcode
        if status is not None and status < 0:
            return f"ended by {signal.Signals(-status).name}"
        return f"ended with exit status {status}"


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ignore interrupts; a process that is started now begins by ignoring them too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
