"""Files appear whole or not at all."""

from pathlib import Path

import pytest

from tilewright.core.errors import PathError, WriteError
from tilewright.core.files import Output, check_outputs, json_kind, save_json, write_whole

FACTS = json_kind("a file of facts", "a")


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
    with pytest.raises(WriteError, match="cannot write the facts: "):
        save_json(tmp_path / "file" / "below", {}, "the facts")
    save_json(tmp_path / "facts.json", {"a": 1}, "the facts")
    assert (tmp_path / "facts.json").read_text() == '{\n "a": 1\n}\n'


def test_a_link_stays_and_its_file_is_written(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_whole(tmp_path / "link", b"data")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"data"


def test_an_output_may_be_new_or_empty_or_of_its_own_kind(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    save_json(tmp_path / "facts.json", {"a": 1, "b": 2}, "the facts")
    outputs = [tmp_path / "new" / "folder" / "facts.json", tmp_path / "empty", tmp_path / "facts.json", None]
    check_outputs([Output("--json", path, FACTS) for path in outputs], [tmp_path / "other"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "facts.json"], "nothing is left behind"


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("input", "--json must name a file of its own, got {0}/input, which is read"),
        ("hard", "--json must name a file of its own, got {0}/input, which is read"),
        ("soft", "--json must name a file of its own, got {0}/input, which is read"),
        ("figure", "--json must name a file of its own, got {0}/figure, which another option names too"),
        ("text", "--json takes a path for a file of facts, got {0}/text, which is there and holds something else"),
        ("other", "--json takes a path for a file of facts, got {0}/other, which is there and holds something else"),
        (".", "--json takes a path for a file of facts, got {0}, which is a folder"),
        ("text/facts", "--json takes a path for a file of facts, got {0}/text/facts, but {0}/text is not a folder"),
        ("/dev/null", "--json takes a path for a file of facts, got /dev/null, which is a device or a pipe"),
        ("/proc/facts", "--json takes a path for a file of facts, got /proc/facts, which cannot be written"),
        ("x" * 300, "--json takes a path for a file of facts, got {0}/xxx"),
    ],
)
def test_an_output_that_would_replace_something_or_fail_is_refused(tmp_path, output, message):
    (tmp_path / "text").write_text("mine")
    (tmp_path / "other").write_text('{"b": 1}')
    (tmp_path / "input").write_text('{"a": 1}')
    (tmp_path / "hard").hardlink_to(tmp_path / "input")
    (tmp_path / "soft").symlink_to("input")
    figure = Output("--figure", tmp_path / "figure", FACTS)
    with pytest.raises(PathError) as caught:
        check_outputs([figure, Output("--json", tmp_path / output, FACTS)], [Path(tmp_path / "input")])
    assert message.format(tmp_path) in str(caught.value)
