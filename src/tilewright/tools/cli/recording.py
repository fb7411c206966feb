"""The records of a command's measurements, written as they come."""

from collections.abc import Sequence
from pathlib import Path

from tilewright.runtime.base import Engine
from tilewright.tools.bench.environment import environment
from tilewright.tools.bench.records import Record, Result, Run
from tilewright.tools.cli.terminal import STDOUT, write_json


class Recording:
    """In a `with` block: records go to the file of --json as they come, or at the end to standard output."""

    def __init__(self, path: Path | None, engine: Engine) -> None:
        """Keep the records of an engine; where no path is given, only for the caller."""
        self._path, self._engine = path, engine
        self.results: list[Result] = []
        """Records, and results that were not timed."""

    def add(self, found: Sequence[Result]) -> None:
        """Keep more of them.

        Raises:
            WriteError: the file cannot be written.
        """
        self.results += found
        if self._path != STDOUT:
            self._save()

    @property
    def records(self) -> list[Record]:
        """Results that were timed."""
        return [one for one in self.results if isinstance(one, Record)]

    def _save(self) -> None:
        if self._path is not None:
            untimed = [one for one in self.results if not isinstance(one, Record)]
            run = Run(environment=environment(self._engine), records=self.records, results=untimed)
            write_json(self._path, run.model_dump(), "the records")

    def __enter__(self) -> "Recording":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._path == STDOUT and (self.results or kind is None):
            self._save()
