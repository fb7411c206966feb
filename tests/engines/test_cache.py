"""The cache on disk: what processes that were killed leave behind is removed."""

import os
import subprocess
import sys
import tempfile
import time

import pytest

from tilewright.engines import cache

KILLED = """
import os, signal
from tilewright.engines import cache
with cache.scratch() as folder:
    (folder / "output").write_text("half")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(monkeypatch, tmp_path):
    """An empty cache folder, in a temporary folder of its own."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    cache._sweep.cache_clear()
    yield tmp_path
    cache._sweep.cache_clear()
    monkeypatch.undo()
    tempfile.tempdir = None


def age(path, hours):
    then = time.time() - 3600 * hours
    os.utime(path, (then, then))


@pytest.mark.parametrize(("hours", "remain"), [(1, True), (25, False)])
def test_what_a_killed_process_left_is_removed_after_a_day(temporary, hours, remain):
    killed = subprocess.run([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, check=False)
    left = temporary / killed.stdout.strip()
    assert killed.returncode < 0
    assert left.is_dir() and left.parent == temporary
    half = temporary / "cache" / "ab" / ".entry.part"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"half")
    others = temporary / "tilewright-other"
    others.mkdir()
    for path in (left, half, others):
        age(path, hours)
    entry = cache.store("kernel-ab", ".so", b"code")
    assert (left.exists(), half.exists(), others.exists()) == (remain, remain, True)
    assert cache.find("kernel-ab", ".so") == entry
