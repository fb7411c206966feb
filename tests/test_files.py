"""Files appear whole or not at all."""

import pytest

from tilewright.errors import RecordsError
from tilewright.files import save_json, write_whole


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


def test_what_cannot_be_saved_is_said(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RecordsError, match="cannot write the facts: "):
        save_json(tmp_path / "file" / "below", {}, "the facts")
    save_json(tmp_path / "facts.json", {"a": 1}, "the facts")
    assert (tmp_path / "facts.json").read_text() == '{\n "a": 1\n}\n'
