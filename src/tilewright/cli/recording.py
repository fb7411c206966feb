"""The records of a command's measurements, written as they come."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tilewright.bench.environment import environment
from tilewright.bench.records import Record, Run
from tilewright.cli.terminal import STDOUT, write_json
from tilewright.engines.base import Engine


class Recording:
    """In a `with` block: records go to the file of --json as they come, or at the end to standard output."""

    def __init__(self, path: Path | None, engine: Engine) -> None:
        """Keep the records of an engine; where no path is given, only for the caller."""
        self._path, self._engine = path, engine
        self.records: list[Record] = []

    def add(self, measured: Sequence[Record]) -> None:
        """Keep more of them.

        Raises:
            WriteError: the file cannot be written.
        """
        self.records += measured
        if self._path != STDOUT:
            self._save()

    def _save(self) -> None:
        if self._path is not None:
            run = Run(environment=environment(self._engine), records=self.records)
            write_json(self._path, run.model_dump(), f"the records to {self._path}")

    def __enter__(self) -> "Recording":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._path == STDOUT and (self.records or kind is None):
            self._save()
