"""What a newcomer is told: how to call the command line, and what to install."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
def test_make_bench_ends_with_how_to_call_the_command_line(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    tools = tmp_path / ".venv" / "bin"
    tools.mkdir(parents=True)
    (tools.parent / "installed").touch()
    program = tools / "tilewright"
    program.write_text("#!/bin/sh\necho ran $*\n")
    program.chmod(0o755)
    (tools / "activate").write_text(f"PATH={tools}:$PATH\n")
    alone = {
        name: value for name, value in os.environ.items() if not name.startswith("MAKE")
    }  # not part of `make test`
    make = subprocess.run(["make", "bench"], cwd=tmp_path, env=alone, capture_output=True, text=True, check=True)
    ran, told = make.stdout.splitlines()[-2:]
    assert ran == "ran bench"
    command, activation = re.fullmatch(
        r'More: (\S+ --help)\. After "(.*)" its name is tilewright alone.', told
    ).groups()
    for line in (command, f"{activation} && tilewright --help"):
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == "ran --help\n"


def test_messages_name_packages_that_can_be_installed():
    """The package itself, and so its extras, are on no registry; what the extras name is."""
    known = dict(re.findall(r'^ +"([\w-]+)>=(\d+)', (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    named = {}
    for path in (ROOT / "src").rglob("*.py"):
        for words in re.findall(r"pip install ([^.:(\[\n\"]+)", path.read_text()):
            named |= {word.strip("'"): path.name for word in words.split()}
    assert {"nvidia-cuda-nvdisasm==13", "nvidia-cublas==13", "plotly", "torch"} <= set(named)
    for word, file in named.items():
        name, _, version = word.partition("==")
        assert name in known, f"{file} says to install {word}"
        assert version in ("", known[name]), f"{file} says to install {word}"
