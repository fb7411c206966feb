"""Every command that the README or docs/ print works: at a small size, on the emulator."""

import argparse
import importlib
import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tilewright.kernels import find
from tilewright.kernels.source.products import START
from tilewright.select.tables import store
from tilewright.tools.bench import suites
from tilewright.tools.cli import bench, check, main, tune

ROOT = Path(__file__).parents[3]
RECORD = "results/h200/best.json"
OWN_KERNELS = ROOT / "tests/own_kernels"
DOCS = [page for folder in ("docs", "docs/tools") for page in sorted((ROOT / folder).glob("*.md"))]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
RUNGS = sorted(ROOT.glob("docs/worklog/[0-9]*.md"))
# Pages of rungs print the same commands: all of one are run, of the others those that mark an exercise with a config.
WHOLE = [*PAGES, ROOT / "docs/worklog/README.md", ROOT / "docs/worklog/sources.md", RUNGS[0]]
INCOMPLETE = ("KERNEL", "<name>", "...", "MxNxK")

SHAPE = "32x16x24"
BATCH = "2"


def printed():
    """Each line of a block of code, and each piece of code in a sentence, that runs the command."""
    for page in PAGES:
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            if language in ("", "sh"):
                yield from re.findall(r"^(?:\$ )?tilewright (\w.*)$", block, re.MULTILINE)
    for page in dict.fromkeys((*WHOLE, *RUNGS)):
        words = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for code in re.findall(r"`(tilewright [^`]*)`", words):
            complete = " " in code.removeprefix("tilewright ") and not any(word in code for word in INCOMPLETE)
            if complete and (page in WHOLE or ("check" in code and "--config" in code)):
                yield from (one.removeprefix("tilewright ") for one in code.split(" && "))


def commands():
    """The arguments of each command, without prompt and comment."""
    return list(dict.fromkeys(tuple(shlex.split(line, comments=True)) for line in printed()))


def small(arguments):
    """Arguments of a documented command, with a small problem, with no time to search, and without a GPU."""
    command, *words = arguments
    sizes = {"--shape": SHAPE, "--suite": "small", "--batch": BATCH}
    words = [sizes.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    sized = {"--shape", "--suite", "softmax.cu"} & set(words)
    if command == "info":
        words = []  # --measure needs a GPU
    if command in ("bench", "check", "explain", "sass", "tune") and not sized:
        words += ["--shape", SHAPE]
    if command in ("bench", "tune"):
        words += ["--engine", "emulator"]
    if command == "tune":
        words += ["--budget", "0"]
    if command == "warm" and "--clear" not in words:  # one kernel of the thousand
        words = ["--gpu", "H100", "--shape", SHAPE, "--dtype", "float32"]
    return [command, *words]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to run in, with tables, journal and suite of its own, and few kernels."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(store.FOLDER_VARIABLE, str(tmp_path / "tables"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    every = suites.shapes() | {"small": (suites.SuiteSize(32, 16, 24),)}
    monkeypatch.setattr(suites, "shapes", lambda: every)
    for module in (bench, check, tune):  # where no kernel is named; other tests run all of them
        monkeypatch.setattr(module, "KERNELS", tuple(map(find, ("coalesced", "split_k", "gemm_wmma"))))
    return tmp_path


def test_the_commands_are_found():
    assert len(commands()) > 20
    assert ("explain", "vectorized") in commands()
    assert {command for command, *_ in commands()} == {
        "list", "info", "bench", "check", "explain", "sass", "tune", "new", "fault", "report", "warm"
    }  # fmt: skip


@pytest.mark.one_of_each("arguments.0")
@pytest.mark.parametrize("arguments", commands(), ids=" ".join)
def test_a_documented_command_works(arguments, folder, monkeypatch, capsys):
    if arguments[0] != "new":  # which the pages have before
        for name in {"my_gemm.cu", *(one for one in arguments if one.startswith("my_") and one.endswith(".cu"))}:
            (folder / name).write_text(START.read_text())
    for name in ("softmax.cu", "unmodified/sgemm.cu", "references.py"):
        shutil.copy(OWN_KERNELS / name, folder)
    for record in (folder / "run.json", folder / RECORD):
        record.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / RECORD, record)
    if "--clear" in arguments:
        monkeypatch.setenv("TILEWRIGHT_CACHE", str(folder / "cache"))
    monkeypatch.setattr(sys, "argv", ["tilewright", *small(arguments)])
    status = 0
    try:
        main.main()
    except SystemExit as stop:
        status = stop.code or 0
    printed = capsys.readouterr()
    if {"--save", "--end-to-end", "--survey"} & set(arguments):
        assert status == 1
        assert "needs a GPU" in printed.err
    elif "--mark" in arguments:
        assert status == 2
        assert "no kernel can be read from" in printed.err
    elif "missing_barrier" in arguments:
        assert status == 1
        assert "race" in printed.out
    elif arguments[0] == "tune":
        assert status == 1
        assert "the budget ended before any config was tried" in printed.err
    else:
        assert status == 0, printed.err
        assert printed.out or "-o" in arguments or arguments[0] == "warm"
    for option in ("--json", "--figure", "-o"):
        if option in arguments and status == 0 and arguments[0] != "info":
            assert (folder / arguments[arguments.index(option) + 1]).stat().st_size


def test_every_command_has_a_page_that_the_index_names():
    index = (ROOT / "docs/tools/README.md").read_text()
    assert [name for name in main.COMMANDS if f"[{name}]({name}.md)" not in index] == []
    assert [name for name in main.COMMANDS if not (ROOT / f"docs/tools/{name}.md").exists()] == []


def modules():
    """Each `python -m` that a page prints, with its arguments."""
    for page in dict.fromkeys((*WHOLE, *RUNGS)):
        for words in re.findall(r"(?:^|`)python -m (tilewright[^`\n]*|tests[^`\n]*)", page.read_text(), re.MULTILINE):
            if "<" not in words:
                yield tuple(shlex.split(words, comments=True))


class ParsedError(Exception):
    """Instead of the run."""


@pytest.mark.parametrize("words", dict.fromkeys(modules()), ids=" ".join)
def test_a_documented_module_takes_its_options(words, monkeypatch):
    parse = argparse.ArgumentParser.parse_args

    def only_parse(parser, *arguments):
        parse(parser, *arguments)
        raise ParsedError

    module, *arguments = words
    monkeypatch.syspath_prepend(ROOT)
    loaded = importlib.import_module(module)
    if not (hasattr(loaded, "__path__") or hasattr(loaded, "argparse")):  # it takes no options
        assert not arguments
        return
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", only_parse)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ParsedError):
        runpy.run_module(module, run_name="__main__")
