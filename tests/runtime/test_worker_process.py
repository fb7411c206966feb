"""Processes of their own: what they start with, and how they answer."""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from tilewright.core.errors import LaunchError
from tilewright.runtime.worker_process import LostError, WorkerProcess, call_in_subprocess

NAME = "TILEWRIGHT_TEST_OF_SUBPROCESS"


def around():
    """Environment of a process: a variable, its folder, its handling of signals."""
    return os.environ.get(NAME), str(Path.cwd()), signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def refuse():
    raise LaunchError("as it must")


def wait(connection):
    connection.send("")
    connection.recv()


def test_a_process_has_what_this_one_has_when_it_is_started(monkeypatch, tmp_path):
    """Not what this one had when the first was."""
    for value in ("1", "2"):
        folder = tmp_path / value
        folder.mkdir()
        monkeypatch.setenv(NAME, value)
        monkeypatch.chdir(folder)
        assert call_in_subprocess(around, name="test", allowed_s=60) == (value, str(folder), True)
    monkeypatch.delenv(NAME)
    assert call_in_subprocess(around, name="test", allowed_s=60)[0] is None


def test_a_process_that_fails_says_how():
    with pytest.raises(LaunchError, match="as it must"):
        call_in_subprocess(refuse, name="test", allowed_s=60)
    with pytest.raises(LostError, match="ended by SIGABRT"):
        call_in_subprocess(os.abort, name="test", allowed_s=60)


def test_a_process_ends_with_its_block():
    with WorkerProcess(wait, name="wait") as process:
        process.wait_for_start()
        assert "tilewright-wait" in [one.name for one in multiprocessing.active_children()]
    assert "tilewright-wait" not in [one.name for one in multiprocessing.active_children()]
