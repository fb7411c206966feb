"""Processes of their own for what may end the process that it runs in, or never end: kernels that are not right."""

import contextlib
import inspect
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Any, Literal, NamedTuple, TypeVar, cast

from tilewright.core.errors import EngineUnavailableError, MemoryFullError, TilewrightError
from tilewright.runtime.side_by_side import ended_by

T = TypeVar("T")
ProcessOutcome = Literal["hung", "crashed"]

_LATE = signal.SIGUSR1
_late = threading.Event()

_START_S = 300.0
"""A new process has this long to be ready."""

_MOST_S = 1e6
"""More than anybody waits, and no more than the system counts."""


def is_late() -> bool:
    """Whether this process has been given notice that its answer is awaited no longer, but for a word of where it
    is."""
    return _late.is_set()


class LostError(Exception):
    """A process did not answer: it hung, or it crashed."""

    def __init__(self, outcome: ProcessOutcome, note: str, answer: Any = None) -> None:
        super().__init__(note)
        self.outcome: ProcessOutcome = outcome
        self.answer = answer
        """Answer that it gave when it was late, if any."""


class _Failure(NamedTuple):
    """An exception that a function in another process did not expect."""

    trace: str


class WorkerProcess:
    """A process that runs a function until it is ended, or until this one ends, however that comes about.

    Interrupts are this process's alone.
    """

    def __init__(self, function: Callable[..., None], *arguments: Any, name: str) -> None:
        """Start it.

        Args:
            function: of a module; called with a Connection to send answers by, and the arguments.
            arguments: what can be pickled.
            name: what it is for.
        """
        self._name = name
        self.connection, theirs = multiprocessing.Pipe()
        run = theirs, dict(os.environ), function, arguments
        context = _context(function.__module__, *(one.__module__ for one in arguments if inspect.isroutine(one)))
        self._process = context.Process(target=_run, args=run, name=f"tilewright-{name}", daemon=True)
        with _interrupts_held():
            self._process.start()
        theirs.close()

    def __enter__(self) -> "WorkerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def send(self, request: Any) -> None:
        """Send something; where the process has ended, `receive` tells how."""
        with contextlib.suppress(BrokenPipeError):
            self.connection.send(request)

    def wait_for_start(self) -> str:
        """Its first answer, which it sends when it is ready: an empty text, or why it will not be.

        Raises:
            EngineUnavailableError: it does not get there.
        """
        try:
            return str(self.receive(_START_S))
        except LostError as error:
            raise EngineUnavailableError(f"no process to {self._name} in can be started: {error}") from None

    def receive(self, allowed_s: float, grace_s: float = 0.0) -> Any:
        """Its next answer.

        Args:
            allowed_s: seconds that it has.
            grace_s: seconds that it has then, knowing that it is late (`is_late`).

        Raises:
            LostError: there is none in this many seconds, or the process has ended. It is ended then in any case.
            MemoryFullError: it has too little memory.
        """
        try:
            with ended_by(self._process.kill):
                if self.connection.poll(min(allowed_s, _MOST_S)):
                    return self._received()
                answer = self._late_answer(grace_s) if grace_s else None
        except (EOFError, ConnectionResetError):
            note = self._how_it_ended()
            self.end()
            raise LostError("crashed", note) from None
        self.end()
        raise LostError("hung", f"no answer in {allowed_s:g} s", answer)

    def _late_answer(self, grace_s: float) -> Any:
        if self._process.pid:
            os.kill(self._process.pid, _LATE)
        return self._received() if self.connection.poll(grace_s) else None

    def _received(self) -> Any:
        answer = self.connection.recv()
        if isinstance(answer, MemoryFullError):
            raise answer
        if isinstance(answer, _Failure):
            raise RuntimeError(f"the process to {self._name} in failed:\n{answer.trace}")
        return answer

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self.connection.close()

    def _how_it_ended(self) -> str:
        self._process.join(10)
        status = self._process.exitcode
        if status == -signal.SIGKILL:
            return "ended by SIGKILL, as the system ends processes where memory is full"
        if status is not None and status < 0:
            return f"ended by {signal.Signals(-status).name}"
        return f"ended with exit status {status}"


def call_in_subprocess(function: Callable[..., T], *arguments: Any, name: str, allowed_s: float) -> T:
    """Call a function in a subprocess; returns its result.

    Args:
        function, arguments, name: see `WorkerProcess`; what the function returns can be pickled too.
        allowed_s: seconds, once the process has started.

    Raises:
        LostError: it does not return in time, or ends its process.
        EngineUnavailableError: the process cannot be started.
        Others of this package: as the function.
    """
    with WorkerProcess(_call, function, arguments, name=name) as process:
        process.wait_for_start()
        answer = process.receive(allowed_s)
    if isinstance(answer, TilewrightError):
        raise answer
    return cast("T", answer)


def _call(connection: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    connection.send("")
    try:
        connection.send(function(*arguments))
    except TilewrightError as error:
        connection.send(error)


def _context(*modules: str) -> ForkServerContext:
    """How a process is started that needs these modules: forked from one that has imported what the first of them runs,
    and does nothing else, so it has asked for no GPU. A new Python would take longer to start and to import than most
    of them run."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__.partition(".")[0], *modules])
    return context


def _run(
    connection: Connection, environment: Mapping[str, str], function: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    os.environ.clear()  # what it has is that of the process which forks
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(_LATE, lambda *_: _late.set())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, ConnectionError):  # the other end may close before it has read an answer
        try:
            function(connection, *arguments)
        except MemoryError as error:
            connection.send(MemoryFullError(f"{error or type(error).__name__}"))
        except Exception:  # a fault of this package, which is not to be taken for the kernel's
            connection.send(_Failure(traceback.format_exc()))


def _end_with_parent() -> None:
    """Where the parent is killed, nobody is left to end a process whose kernel hangs."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


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
