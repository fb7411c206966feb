"""The outputs that docs/tools shows are what its commands print."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.tools.cli import main, streams

ROOT = Path(__file__).parents[3]
PAGES = sorted(ROOT.glob("docs/tools/*.md"))
WIDTH = 100
VARYING = ("info", "tune")
"""Commands whose output depends on the machine, or on how far they get."""


def samples():
    """Each block of code that shows a session: its text."""
    text = "\n".join(page.read_text() for page in PAGES)
    blocks = re.findall(r"^```\n(\$ .*?)^```", text, re.DOTALL | re.MULTILINE)
    return [block for block in dict.fromkeys(blocks) if block.split()[2] not in VARYING]


def lines(text):
    """The lines of an output, without what is another each time or on another machine: times, versions, widths, and how
    often a finding was made, which depends on how far the compiler optimizes."""
    text = re.sub(r"(?:checked in|ok) +[\d.,]+ (?:s|ms|us)", "ok", text)
    text = re.sub(r"version [\d.]+ +[\d.,]+ (?:s|ms|us)", "version", text)
    text = re.sub(r"[\d,]+ times in all", "times in all", text)
    return [" ".join(re.sub("─+", "─", line).split()) for line in text.splitlines() if line.strip()]


def missing(sample, printed):
    """The first part of a sample, of those between lines of '...', that is not in what was printed after the part
    before; None where all are."""
    rest = lines(printed)
    for part in re.split(r"^ *\.\.\.$", sample, flags=re.MULTILINE):
        wanted = lines(part)
        starts = range(len(rest) - len(wanted) + 1)
        at = next((start for start in starts if rest[start : start + len(wanted)] == wanted), None)
        if at is None:
            return part
        rest = rest[at + len(wanted) :]
    return None


def test_samples_are_found():
    assert {sample.split()[2] for sample in samples()} >= {"bench", "list", "check", "explain", "sass"}


@pytest.mark.first(3)
@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.splitlines()[0])
def test_a_sample_is_what_the_commands_print(sample, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(streams.out, "_width", WIDTH)
    for name in ("softmax.cu", "references.py"):
        shutil.copy(ROOT / "tests/own_kernels" / name, tmp_path)
    for command in ("tilewright new my_gemm", *re.findall(r"^\$ (.*)$", sample, re.MULTILINE)):
        words = shlex.split(command)
        if words[0] != "tilewright":
            subprocess.run(command, shell=True, check=True)
            continue
        if words[1] == "bench":
            words += ["--engine", "emulator"]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit):
            main.main()
    shown = re.sub(r"^\$ .*\n", "", sample, flags=re.MULTILINE)
    assert missing(shown, capsys.readouterr().out) is None


def test_a_line_that_is_not_printed_is_found():
    assert missing("a 1\n...\nc 3\n", "a  1\nb\nc 3\n") is None
    assert missing("a 1\n...\nc 4\n", "a 1\nb\nc 3\n") == "\nc 4\n"
    assert missing("a 1\nc 3\n", "a 1\nb\nc 3\n") == "a 1\nc 3\n"
    assert missing("1 kernel checked in 2.1 s: 1 faulty\n", "1 kernel checked in 31.0 s: 1 faulty\n") is None
