"""Programs that end with this process, even where it is killed and can do nothing about them any more."""

import os
import subprocess
from collections.abc import Mapping, Sequence

from tilewright.engines.side_by_side import ended_by

_WATCHED = """
exec 3<&0 </dev/null
(read -r _ <&3; kill -KILL -$$) >/dev/null 2>&1 &
"$@" 3<&-
status=$?
kill -KILL $! 2>/dev/null
exit $status
"""
"""Runs a program next to a watcher, which reads from a pipe whose other end this process holds. When that is closed,
which the end of this process does too, the watcher kills its group: the program and all that this has started."""


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with nothing on its standard input.

    Args:
        command: the program and its arguments.
        environment: its environment; None for this process's.

    Returns:
        Its exit status and output. 127 is the status where there is no such program.
    """
    watched, held = os.pipe()
    with os.fdopen(watched, "rb", 0) as theirs, os.fdopen(held, "wb", 0) as alive, ended_by(alive.close):
        return subprocess.run(
            ["/bin/sh", "-c", _WATCHED, "sh", *command],
            stdin=theirs,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            env=environment,
            start_new_session=True,  # a group of its own, to be killed
        )
