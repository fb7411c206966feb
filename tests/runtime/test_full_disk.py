"""Compiled code on disk where the disk is full."""

import errno

import pytest

from tilewright.core.errors import EngineUnavailableError
from tilewright.runtime import cache


@pytest.fixture
def full(tmp_path, monkeypatch):
    """Have no file be written below the folders in a set, links resolved; the cache folder is one."""
    monkeypatch.setenv(cache.FOLDER_VARIABLE, str(tmp_path / "cache"))
    folders, put = {tmp_path / "cache"}, cache.put

    def write(path, data):
        if folders & set(path.resolve().parents):
            raise OSError(errno.ENOSPC, "No space left on device")
        put(path, data)

    monkeypatch.setattr(cache, "put", write)
    return folders


def test_where_the_disk_is_full_another_folder_serves(full, tmp_path):
    with pytest.warns(RuntimeWarning, match=r"cannot use the cache folder .*cache \(No space left on device\)"):
        path = cache.store("name", ".so", b"code")
    assert tmp_path / "cache" not in path.resolve().parents
    assert cache.find("name", ".so") == path
    assert path.parents[1] == cache.store("other", ".so", b"code").parents[1], "and it goes on to, without a warning"


def test_where_all_disks_are_full_it_says_what_helps(full, tmp_path, monkeypatch):
    (tmp_path / "spare").mkdir()
    monkeypatch.setattr(cache.tempfile, "mkdtemp", lambda prefix: str(tmp_path / "spare"))
    full.add(tmp_path / "spare")
    message = (
        "cannot write compiled code: No space left on device. Set TILEWRIGHT_CACHE or TMPDIR to a folder with room"
    )
    with pytest.warns(RuntimeWarning), pytest.raises(EngineUnavailableError, match=message):
        cache.store("name", ".so", b"code")
