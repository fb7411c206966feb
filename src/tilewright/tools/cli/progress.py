"""How far a command is, and how long it may still take: a bar in a terminal, elsewhere a line now and then."""

import contextlib
import time
from collections.abc import Iterator

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tilewright.tools.cli.streams import notes, out

FIRST_LINE_S, MOST_BETWEEN_S = 10.0, 60.0
"""Where there is no terminal: seconds until the first line, doubled from line to line, and the most between two."""


class Steps:
    """The steps of a command, in a `with` block. They are counted from the last `begin`, as the time is."""

    def __init__(self) -> None:
        live = all(console.file.isatty() and console.is_interactive for console in (out, notes))
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}", markup=False),
        )
        self._bar = Progress(*columns, console=notes, transient=True) if live else None
        self._pause_s = FIRST_LINE_S
        self._printed = time.monotonic()
        self.begin("starting")

    def __enter__(self) -> "Steps":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def begin(self, what: str, done: int = 0, total: int | None = None, part: str = "") -> None:
        """Start to count anew, where `done` steps need not be done any more. part: the part of the work that this is,
        named until the next `begin`, as in '1 of 3'."""
        self._began, self._done_before, self._part = time.monotonic(), done, part and f"{part}: "
        if self._bar:
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
            self._task = self._bar.add_task(self._part + what, completed=done, total=total, left="")

    def update(self, what: str, done: int, total: int, at_most_s: float | None = None) -> None:
        """Show what is going on, how many steps are done and how many there are.

        Args:
            what: the text.
            done: steps done.
            total: steps to do.
            at_most_s: seconds from `begin` on after which the rest is not done.
        """
        now, what = time.monotonic(), self._part + what
        elapsed = now - self._began
        left = left_s(elapsed, done - self._done_before, total - done, at_most_s)
        about = "" if left is None else f"about {_clock(left)} left"
        if self._bar:
            self._bar.update(self._task, description=what, completed=done, total=total, left=about)
        elif now - self._printed >= self._pause_s:
            facts = (what, f"{done} of {total} after {_clock(elapsed)}", about)
            notes.print(", ".join(filter(None, facts)), soft_wrap=True)
            self._printed, self._pause_s = now, min(2 * self._pause_s, MOST_BETWEEN_S)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """In a `with` block: no bar, so that results can be printed."""
        if self._bar:
            self._bar.stop()
        yield
        if self._bar:
            self._bar.start()


_ENOUGH = 0.05
"""Share of all steps after which the time of the others is estimated."""


def left_s(elapsed_s: float, done: int, left: int, at_most_s: float | None = None) -> float | None:
    """Seconds that the steps left will take, at the pace of those done; None where these are too few to judge by:
    the first often wait for what all need.

    With `at_most_s`, no more than what the elapsed time leaves of that.
    """
    if done <= 0 or done < _ENOUGH * (done + left):
        return None
    estimate = elapsed_s / done * left
    return estimate if at_most_s is None else max(min(estimate, at_most_s - elapsed_s), 0.0)


def _clock(seconds: float) -> str:
    """As in '0:05', '12:34' and '1:02:03'."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
