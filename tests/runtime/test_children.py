"""Programs that are run, and what becomes of them where this process is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tilewright.runtime.host_compiler import run_watched

COMPILES = """
import sys
from tilewright.runtime.host_compiler import run_watched
run_watched(["/bin/sh", "-c", 'sleep 60 & echo $! > "$0"; wait', sys.argv[1]])
"""
"""Runs a program that starts another, as compilers do, and writes down its number."""


def waits_for(condition):
    """Value of the condition as soon as it is true."""
    deadline = time.monotonic() + 20
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def number_in(path):
    return int(path.read_text() or 0) if path.exists() else 0


def runs(process):
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def members(group):
    """The processes of a group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        found += [path] if fields[2] == group else []
    return found


def test_a_programs_output_and_status_come_back():
    done = run_watched(["/bin/sh", "-c", 'echo "$1"; echo wrong >&2; cat; exit 3', "sh", "two words"])
    assert (done.returncode, done.stdout, done.stderr) == (3, "two words\n", "wrong\n")


def test_a_program_that_is_not_there():
    assert run_watched(["/no/such/program"]).returncode == 127


def test_nothing_is_left_of_a_program_that_has_ended():
    group = run_watched(["/usr/bin/cut", "-d", " ", "-f", "5", "/proc/self/stat"]).stdout.strip()
    assert int(group) != os.getpgid(0)
    waits_for(lambda: not members(group))


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_program_and_what_it_started_end_with_this_process(tmp_path, end):
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", COMPILES, tmp_path / "number"]
    with subprocess.Popen(command, env=paths, stderr=subprocess.DEVNULL) as parent:
        try:
            number = waits_for(lambda: number_in(tmp_path / "number"))
            assert runs(number)
        finally:
            parent.send_signal(end)
    waits_for(lambda: not runs(number))
