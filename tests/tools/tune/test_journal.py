"""The journal: what is written is read back, and stale or damaged lines are passed over."""

import json
from dataclasses import replace

import pytest

from tilewright.core.errors import RecordsError
from tilewright.core.problem import Problem
from tilewright.kernels import find
from tilewright.tools.tune.journal import Journal, Trial, read, source_digest

KERNEL = find("coalesced")
PROBLEM = Problem(64, 64, 64)


def trial(**changes):
    fields = {
        "device": "GPU", "digest": source_digest(KERNEL), "kernel": "coalesced", "config": {"BLOCK": 32},
        "m": 64, "n": 64, "k": 64, "case": "NN float32", "outcome": "timed", "time_us": 2.0,
    }  # fmt: skip
    return Trial(**(fields | changes))


def of(journal, device="GPU", problem=PROBLEM):
    return journal.of(device, {"coalesced": source_digest(KERNEL)}, problem)


def test_trials_are_kept_over_openings(tmp_path):
    journal = Journal(tmp_path / "deep" / "journal.jsonl")
    journal.append(trial())
    assert len((tmp_path / "deep" / "journal.jsonl").read_text().splitlines()) == 1, "before it is closed"
    journal.close()
    again = Journal(journal.path)
    again.append(trial(config={"BLOCK": 16}))
    assert [one.config["BLOCK"] for one in of(again)] == [32, 16]
    assert read(journal.path) == [trial(), trial(config={"BLOCK": 16})]


NO_TRIALS = {
    "half of one": '{"device": "GP',
    "bytes": "\x00\xff",
    "nothing in it": "{}",
    "a list": "[1]",
    "deep": '{"note": ' + "[" * 100_000 + "]" * 100_000 + "}",
    **{
        f"{field} {value}": trial().model_dump_json().replace(f'"{field}":{old}', f'"{field}":{value}')
        for field, old, value in (("time_us", 2.0, "1e999"), ("at_s", 0.0, "NaN"), ("m", 64, f"1{'0' * 400}"))
    },
}


@pytest.mark.parametrize("rest", NO_TRIALS.values(), ids=NO_TRIALS)
def test_a_truncated_line_is_passed_over_and_spoils_no_later_one(tmp_path, rest):
    path = tmp_path / "journal.jsonl"
    path.write_text(trial().model_dump_json() + "\n" + rest)
    journal = Journal(path)
    journal.append(trial(config={"BLOCK": 8}))
    assert [one.config["BLOCK"] for one in read(path)] == [32, 8]


@pytest.mark.parametrize(
    "changes",
    [{"device": "other"}, {"digest": "old"}, {"kernel": "naive"}, {"m": 65}, {"batch": 2}, {"case": "NT float32"}],
)
def test_what_is_of_something_else_is_not_reused(tmp_path, changes):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(trial(**changes))
    journal.append(trial())
    assert of(journal) == [trial()]


def test_a_changed_source_has_another_digest(tmp_path):
    source = tmp_path / "coalesced.cu"
    source.write_text(KERNEL.source.read_text() + "\n")
    assert source_digest(replace(KERNEL, source=source)) != source_digest(KERNEL)


def test_a_journal_that_cannot_be_kept_or_read_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordsError, match="cannot keep the journal"):
        Journal(tmp_path / "file" / "journal.jsonl")
    with pytest.raises(RecordsError, match="cannot read the journal"):
        read(tmp_path / "none.jsonl")


def test_speed_is_known_where_time_is():
    assert trial().gflops == pytest.approx(2 * 64**3 / 2e3)
    assert trial(time_us=None, outcome="hung").gflops is None


OLD = {
    "device": "GPU", "digest": "x", "kernel": "split_k", "m": 64, "n": 64, "k": 64, "dtype": "float32", "alpha": 1.0,
    "beta": 0.0, "outcome": "timed", "time_us": 2.0, "config": {"BM": 32, "BN": 64, "SLICES": 2, "WAVE": 264},
}  # fmt: skip


def test_lines_of_format_1_are_passed_over(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_text("\n".join((json.dumps(OLD), trial().model_dump_json())))
    assert read(path) == [trial()]


def test_lines_say_their_format(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(trial(batch=3))
    assert json.loads(journal.path.read_text())["format"] == 2
    assert read(journal.path) == [trial(batch=3)]
    assert trial(batch=3).shape == "3 of 64x64x64"
    assert trial(batch=3).gflops == 3 * trial().gflops


@pytest.mark.parametrize("content", [b"notes\n", b'{"environment": {}, "records": []}', b'{"format":2,"gpu":"X"}\n'])
def test_nothing_is_added_to_a_file_of_another_kind(tmp_path, content):
    path = tmp_path / "mine"
    path.write_bytes(content)
    with pytest.raises(RecordsError, match=r"cannot keep the journal .*mine: the file holds something else"):
        Journal(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "content", [b"{", b'{"format": 2, "dev', b'{"device": "X", "kernel": "naive", "outcome": "of old"}\n']
)
def test_old_and_interrupted_journals_go_on(tmp_path, content):
    path = tmp_path / "tuning.jsonl"
    path.write_bytes(content)
    Journal(path).close()
    assert path.read_bytes().startswith(content)
