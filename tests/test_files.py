"""Files appear whole or not at all."""

import pytest

from tilewright.files import write_whole


def test_a_file_is_written_with_its_folder(tmp_path):
    write_whole(tmp_path / "a" / "b", b"data")
    assert (tmp_path / "a" / "b").read_bytes() == b"data"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
