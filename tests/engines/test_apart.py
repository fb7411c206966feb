"""Processes of their own: what they start with, and how they answer."""

import os
import signal
from pathlib import Path

import pytest

from tilewright.core.errors import LaunchError
from tilewright.engines import apart
from tilewright.engines.apart import LostError, call_apart

NAME = "TILEWRIGHT_TEST_OF_APART"

forked = pytest.mark.parametrize("forked", sorted({apart._FORKED, False}))


def around():
    """What a process finds around it."""
    return os.environ.get(NAME), str(Path.cwd()), signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def refuse():
    raise LaunchError("as it must")


@forked
def test_a_process_has_what_this_one_has_when_it_is_started(forked, monkeypatch, tmp_path):
    """Not what this one had when the first was."""
    monkeypatch.setattr(apart, "_FORKED", forked)
    for value in ("1", "2"):
        folder = tmp_path / value
        folder.mkdir()
        monkeypatch.setenv(NAME, value)
        monkeypatch.chdir(folder)
        assert call_apart(around, name="test", allowed_s=60) == (value, str(folder), True)
    monkeypatch.delenv(NAME)
    assert call_apart(around, name="test", allowed_s=60)[0] is None


@forked
def test_a_process_that_fails_says_how(forked, monkeypatch):
    monkeypatch.setattr(apart, "_FORKED", forked)
    with pytest.raises(LaunchError, match="as it must"):
        call_apart(refuse, name="test", allowed_s=60)
    with pytest.raises(LostError, match="ended by SIGABRT"):
        call_apart(os.abort, name="test", allowed_s=60)
