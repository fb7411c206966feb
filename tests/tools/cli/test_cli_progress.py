"""How the commands show how far they are: a bar in a terminal, elsewhere few plain lines."""

import os
import pty
import re
import subprocess
import sys

import pytest

from tilewright.tools.cli import main, progress
from tilewright.tools.cli.progress import Steps, left_s

EMULATED = ("--engine", "emulator")
BENCH = ("bench", "naive", "coalesced", "--shape", "16", "--shape", "17", *EMULATED)
COMMANDS = {
    "bench": (BENCH, r"(?:1 of 2: 16x16x16|2 of 2: 17x17x17): "),
    "check": (("check", "naive", "coalesced", "--shape", "16"), "checked (?:naive|coalesced)"),
    "tune": (("tune", "coalesced", "--shape", "16", "--shape", "17", "--budget", "9", *EMULATED), r"[12] of 2: 1[67]x"),
}


@pytest.fixture
def errors(monkeypatch, capsys, tmp_path):
    """Run the command line; gives the lines of its standard error."""

    def run(*arguments):
        if arguments[0] == "tune":
            arguments = (*arguments, "--journal", str(tmp_path / "journal.jsonl"))
        monkeypatch.setattr(sys, "argv", ["tilewright", *arguments])
        with pytest.raises(SystemExit):
            main.main()
        return capsys.readouterr().err.splitlines()

    return run


@pytest.mark.first(1)
@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_terminal_lines_say_how_long_it_will_take(command, errors, monkeypatch):
    monkeypatch.setattr(progress, "FIRST_LINE_S", 0.0)
    arguments, start = COMMANDS[command]
    lines = errors(*arguments)
    assert lines
    for line in lines:
        assert line.isprintable()
        assert re.fullmatch(start + r".*, \d+ of \d+ after \d+:\d\d, about \d+:\d\d left", line)
    if command == "bench":
        assert {line[:6] for line in lines} == {"1 of 2", "2 of 2"}


def test_without_a_terminal_a_short_run_prints_no_progress(errors, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert errors(*BENCH) == []


def test_lines_become_rarer(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Steps() as steps:
        for done in range(1, 301):
            now[0] += 1.0
            steps.update("step", done, 300)
    at = [int(line.split()[1]) for line in capsys.readouterr().err.splitlines()]
    assert at == [10, 30, 70, 130, 190, 250]


def test_the_estimate_is_the_pace_so_far():
    assert left_s(10.0, 0, 5) is None
    assert left_s(10.0, 3, 60) is None
    assert left_s(10.0, 4, 60) == 150.0
    assert left_s(10.0, 4, 6) == 15.0
    assert left_s(10.0, 4, 6, at_most_s=12.0) == 2.0
    assert left_s(10.0, 4, 6, at_most_s=9.0) == 0.0


def test_steps_that_were_done_before_do_not_count(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Steps() as steps:
        now[0] = 100.0
        steps.begin("resumed", done=50, total=60)
        now[0] = 200.0
        steps.update("step", 55, 60)
    assert capsys.readouterr().err == "step, 55 of 60 after 1:40, about 1:40 left\n"


@pytest.mark.first(1)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_terminal_has_a_bar_which_is_gone_before_results_are_printed(command, tmp_path):
    ours, theirs = pty.openpty()
    arguments = COMMANDS[command][0] + (("--journal", str(tmp_path / "journal")) if command == "tune" else ())
    code = "from tilewright.tools.cli.main import main; main()"
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = bytearray()
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # how a terminal ends
        pass
    os.close(ours)
    assert process.wait() == 0
    text = shown.decode()
    assert re.search(r"━.*about.*\d+:\d\d left", text)
    results = [match.start() for match in re.finditer("nothing found|float32", text)]
    assert len(results) >= 2
    for place in results:
        line = text[text.rindex("\n", 0, place) : place]
        assert "━" not in line.rpartition("\x1b[2K")[2]
