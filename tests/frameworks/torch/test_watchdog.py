"""The watch over calls of several ranks, without GPUs: what ends, what fails, and what not even fails."""

import io
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("torch.distributed.tensor")

from tilewright.frameworks.torch.distributed import watchdog


class Call:
    """A call that ends when it is released, or is said to."""

    def __init__(self, ends=False):
        self.end, self.released, self.words = threading.Event(), threading.Event(), []
        if ends:
            self.end.set()

    def release(self):
        self.released.set()
        self.end.set()
        raise RuntimeError("device-side assert triggered")

    def watched(self, timeout, late=lambda: [1, 3]):
        return watchdog.WatchedCall(self.end.is_set, timeout, late, self.release, self.words)


def test_a_call_that_ends_is_left_alone():
    call, behind = Call(ends=True), Call()
    watchdog.watch(call.watched(0.0))
    watchdog.watch(behind.watched(0.6))
    time.sleep(0.3)
    behind.end.set()
    time.sleep(1.0)
    assert not call.words and not behind.words and not behind.released.is_set()


@pytest.fixture
def logged():
    """Text that the watchdog writes to its log."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    watchdog.LOG.addHandler(handler)
    yield written
    watchdog.LOG.removeHandler(handler)


def test_a_call_that_does_not_end_names_ranks_and_is_released(logged):
    call = Call()
    watchdog.watch(call.watched(0.2))
    assert call.released.wait(10)
    (words,) = call.words
    assert "did not end within 0.2 s, the timeout of its group: it waits for rank 1, 3 of the group" in words
    assert words in logged.getvalue()
    after = Call()  # the watch goes on
    watchdog.watch(after.watched(0.2, list))
    assert after.released.wait(10)
    assert after.words[0].endswith("it waits for work that was started before")


def test_the_timeout_counts_from_the_end_of_the_call_before():
    first, second = Call(), Call()
    watchdog.watch(first.watched(30))
    watchdog.watch(second.watched(0.6))
    time.sleep(0.9)
    first.end.set()
    assert not second.released.wait(0.3)
    assert second.released.wait(10)


@pytest.mark.further
@pytest.mark.parametrize("where", ["late", "release"])
def test_a_process_that_cannot_even_fail_ends(where):
    code = (  # of the module alone: PyTorch takes seconds to load
        "import threading\nimport watchdog\n"
        "watchdog.GRACE_S = 0.5\n"
        "def hangs(): threading.Event().wait()\n"
        f"late, release = {'hangs, print' if where == 'late' else 'list, hangs'}\n"
        "watchdog.watch(watchdog.WatchedCall(lambda: False, 0.2, late, release, []))\n"
        "threading.Event().wait()"
    )
    named = os.environ | {"PYTHONPATH": str(Path(watchdog.__file__).parent)}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, env=named
    )
    assert ran.returncode == 1
    assert "Timeout" in ran.stderr and "in _fail" in ran.stderr
