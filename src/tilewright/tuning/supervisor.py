"""Keeps a worker process: starts it, watches its deadlines, and replaces it when it hangs or crashes."""

from typing import Any

from tilewright.core.errors import EngineUnavailableError, LaunchError
from tilewright.core.problem import Problem, Scalars
from tilewright.engines.apart import Apart, LostError
from tilewright.tuning import worker
from tilewright.tuning.worker import Answer, Final, Job, Prepare

_PREPARE_S = 300.0
"""Making a problem's operands may take this long, and a second more for each _PREPARED_FLOPS of their product."""

_PREPARED_FLOPS = 1e9


class Worker:
    """A process that measures: started when there is something to measure, and again after each that was lost."""

    def __init__(self, engine_name: str, deadline_s: float) -> None:
        """Prepare a worker.

        Args:
            engine_name: 'cuda' or 'emulator'.
            deadline_s: seconds that one config may take.
        """
        self.deadline_s = deadline_s
        self._engine_name = engine_name
        self._apart: Apart | None = None
        self._posed: tuple[Problem, Scalars] | None = None

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def ask(self, request: Job | Final) -> Any:
        """An Answer to a Job; to a Final records, or a text that says why there are none.

        Raises:
            LostError: it took longer than the deadline, or the process ended; the next request gets a new one.
            EngineUnavailableError: no process can be started that has the engine.
            LaunchError: the problem's operands cannot be made.
        """
        apart = self._start()
        if (request.problem, request.scalars) != self._posed:
            self._prepare(apart, request.problem, request.scalars)
        configs = len(request.choices) + 1 if isinstance(request, Final) else 1
        answer = self._exchange(apart, request, self.deadline_s * configs)
        if isinstance(answer, Answer) and answer.broken:
            self.end()
        return answer

    def end(self) -> None:
        """End the process."""
        if self._apart:
            self._apart.end()
        self._apart = self._posed = None

    def _start(self) -> Apart:
        if self._apart is not None:
            return self._apart
        apart = self._apart = Apart(worker.serve, self._engine_name, name="tune")
        try:
            if refusal := apart.wait_for_start():
                raise EngineUnavailableError(refusal)
        except EngineUnavailableError:
            self.end()
            raise
        return apart

    def _prepare(self, apart: Apart, problem: Problem, scalars: Scalars) -> None:
        try:
            refusal = self._exchange(apart, Prepare(problem, scalars), _PREPARE_S + problem.flops / _PREPARED_FLOPS)
        except LostError as error:
            refusal = str(error)
        if refusal:
            raise LaunchError(f"the operands of {problem.shape} cannot be made: {refusal}")
        self._posed = problem, scalars

    def _exchange(self, apart: Apart, request: Job | Final | Prepare, allowed_s: float) -> Any:
        apart.send(request)
        try:
            return apart.receive(allowed_s)
        except LostError:
            self.end()
            raise
