"""Runs tests on a copy of the checkout that has a fault, and says which of them finds it first."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tilewright.runtime import cache

from .faults import Fault
from .planting import Sources, copy_checkout

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?= - |$)", re.MULTILINE)
"""A line of pytest's summary: a test, whose parameters may have spaces, and why."""
_NONE_COLLECTED = 5
"""Exit status of pytest where the selection has no test."""


class SelectionError(Exception):
    """Tests that fail where no fault is, or a selection without tests; the message says which."""


class Verdict(NamedTuple):
    found_by: str | None
    """The first test that failed; None where all passed."""
    seconds: float
    """Until then, or for all of them."""


class Guard:
    """A copy of a checkout, in which tests look for faults. In a `with` block; nothing of it is left behind."""

    def __init__(self, checkout: Path, jobs: str, deadline_s: float) -> None:
        """Copy a checkout, of which nothing is changed.

        Args:
            checkout: its folder.
            jobs: how many processes run tests, as pytest's -n takes it.
            deadline_s: tests that take longer have found the fault: it has one of them hang.

        Raises:
            PlantingError: it is no checkout.
        """
        self._jobs, self._deadline_s = jobs, deadline_s
        self._folder = tempfile.TemporaryDirectory(prefix="tilewright-faults-")
        self._copy = Path(self._folder.name, "checkout")
        self._process: subprocess.Popen[str] | None = None
        copy_checkout(checkout, self._copy)
        self.sources = Sources(self._copy)

    def __enter__(self) -> "Guard":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._folder.cleanup()

    def judge(self, fault: Fault, selection: Sequence[str]) -> Verdict:
        """Which test finds a fault first.

        Args:
            fault: what is planted.
            selection: arguments of pytest.

        Raises:
            PlantingError: the fault's text is not in the sources once.
            SelectionError: the selection has no test, or the one that failed fails without the fault too.
        """
        start = time.monotonic()
        with self.sources.replacing(fault), _cache() as folder:
            status, printed = self._pytest(selection, self._jobs, folder)
        seconds = time.monotonic() - start
        if status == 0:
            return Verdict(None, seconds)
        if status is None:
            return Verdict(f"no end in {self._deadline_s:.0f} s", seconds)
        failed = _FAILED.search(printed)
        again = [failed[1]] if failed else ["--collect-only", *selection]
        with _cache() as folder:
            without, more = self._pytest(again, "0", folder)
        if without == _NONE_COLLECTED:
            raise SelectionError(f"pytest {' '.join(selection)} selects no test")
        if without != 0:
            raise SelectionError(f"{' '.join(again)} fails without {fault.name!r} too:\n{more}")
        return Verdict(failed[1] if failed else _ended(status), seconds)

    def _pytest(self, selection: Sequence[str], jobs: str, cache_folder: Path) -> tuple[int | None, str]:
        """Exit status, None past the deadline, and what was printed."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", jobs, *selection]
        environment = {
            **os.environ,
            "PYTHONPATH": str(self._copy / "src"),
            cache.FOLDER_VARIABLE: str(cache_folder),
        }
        self._process = subprocess.Popen(
            command,
            cwd=self._copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # a group of its own, so that all that tests have started can be ended
        )
        try:
            printed, _ = self._process.communicate(timeout=self._deadline_s)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            status = self._process.returncode
            self._end()
        return status, printed

    def _end(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None


def _ended(status: int) -> str:
    """How pytest ended that has named no test."""
    return f"the tests are ended by {signal.Signals(-status).name}" if status < 0 else "the tests do not start"


@contextlib.contextmanager
def _cache() -> Iterator[Path]:
    """In a `with` block: a cache that begins with what the user's own has, and which nobody has afterwards.

    A fault may put anything into a cache. Entries are linked, since there are gigabytes of them: none is written again.
    """
    own = cache.folder()
    own.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tilewright-faults-", dir=own.parent) as folder:
        place = Path(folder, "cache")
        if own.is_dir():
            shutil.copytree(own, place, copy_function=_link)
        place.mkdir(mode=0o700, exist_ok=True)
        yield place


def _link(source: str, target: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # another process has removed it
        os.link(source, target)
