"""Output of the commands in narrow terminals: no line is too long, no word or number is cut in two."""

import re
import sys

import pytest

from faulty import faulty
from tilewright.tools.cli import check, main, streams

EMULATED = ("--engine", "emulator")
COMMANDS = {
    "list": ("list",),
    "list of a kernel": ("list", "split_k"),
    "bench best": ("bench", "best", "double_buffered", "tma_transposed", "--shape", "40x50x60", *EMULATED),
    "bench of parts": ("bench", "wmma_tf32", "split_k", "--shape", "40x50x60", *EMULATED),
    "tune": ("tune", "coalesced", "--shape", "16", "--exhaustive", *EMULATED),
    "explain": ("explain", "async_copy", "--shape", "256"),
    "explain with tensor cores": ("explain", "gemm_sm90", "--shape", "256"),
    "sass": ("sass", "vectorized", "--arch", "sm_90a"),
    "sass with tensor cores": ("sass", "gemm_sm90", "--arch", "sm_90a"),
    "check": ("check", "warptiled", "gemm_sm90", "--shape", "33x20x7"),
    "check of faults": ("check", "past_the_last_row", "--shape", "24x39x35"),
}


@pytest.fixture
def printed(monkeypatch, capsys, tmp_path):
    """Run the command line in a terminal of this many columns; gives the lines of its standard output."""

    def run(columns, *arguments):
        monkeypatch.setattr(streams.out, "_width", columns)  # COLUMNS when it was imported, where that was set
        monkeypatch.setenv("COLUMNS", str(columns))
        if arguments[0] == "tune":
            arguments = (*arguments, "--journal", str(tmp_path / f"{columns}.jsonl"))
        monkeypatch.setattr(sys, "argv", ["tilewright", *arguments])
        with pytest.raises(SystemExit):
            main.main()
        return capsys.readouterr().out.splitlines()

    return run


def words(lines):
    """All words, parameters of a config apart, without what differs from run to run: numbers and units of time."""
    text = re.sub(r",(?=[A-Z_]+=)", ", ", " ".join(lines)).replace("─", " ")
    return {re.sub(r"[\d.]+", "0", word) for word in text.split() if word not in ("us", "ms", "s")}


@pytest.mark.first(2)
@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_nothing_is_cut_in_a_narrow_terminal(arguments, printed, monkeypatch):
    if "past_the_last_row" in arguments:
        monkeypatch.setattr(check.launches.Words, "resolve", lambda words, name: (faulty(name), {}))
    wide = printed(400, *arguments)
    for columns in (60, 80):
        narrow = printed(columns, *arguments)
        assert all(len(line) <= columns or len(line.split()) == 1 for line in narrow), "a long path is a line"
        assert {word.removesuffix(":") for word in words(narrow) - words(wide)} <= words(wide)


def test_a_config_wraps_between_its_parameters(printed):
    lines = [line.split() for line in printed(60, *COMMANDS["bench best"])]
    parameters = [[word for word in line if re.fullmatch(r"[A-Z_]+=\d+", word)] for line in lines]
    assert max(map(len, parameters)) > 1, "several are in a line"
    assert sum(map(bool, parameters)) > 3, "no config is in one line"
