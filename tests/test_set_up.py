"""Instructions to a newcomer: how to call the command line, and what to install."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

needs_make = pytest.mark.skipif(not shutil.which("make"), reason="there is no make")

PYTHON = """#!/bin/sh
case "$*" in
    "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python && ln -s /bin/true .venv/bin/tilewright;;
    "-m pip index versions torch") echo "Available versions: 2.9.0+cpu, 2.9.0";;
    "-m pip install"*) shift 3; echo "$@" >> installed;;
esac
"""
"""An interpreter that writes down what pip is to install."""


def alone():
    """The environment of a make that is not part of `make test`."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}


@needs_make
def test_make_bench_runs_the_course(tmp_path):
    for name in ("Makefile", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)
    tools = tmp_path / ".venv" / "bin"
    tools.mkdir(parents=True)
    (tools.parent / "installed").touch()
    program = tools / "tilewright"
    program.write_text("#!/bin/sh\necho ran $*\n")
    program.chmod(0o755)
    make = subprocess.run(["make", "bench"], cwd=tmp_path, env=alone(), capture_output=True, text=True, check=True)
    assert make.stdout.splitlines()[-1] == "ran bench"


@needs_make
@pytest.mark.parametrize(("gpu", "package"), [("", "."), ("/dev/nvidiactl", ".[cublas]")])
def test_make_installs_for_a_bench_and_then_for_tests(tmp_path, gpu, package):
    """The package once, since that compiles."""
    for name in ("Makefile", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)

    def installed(target):
        command = ["make", target, f"PYTHON={python}", f"GPU={gpu}"]
        subprocess.run(command, cwd=tmp_path, env=alone(), capture_output=True, check=True)
        return [line.split() for line in (tmp_path / "installed").read_text().splitlines()]

    bench = ["--disable-pip-version-check", "--editable", package]
    dev = [["--disable-pip-version-check", "tilewright[dev]"]]
    torch = [["--disable-pip-version-check", "torch==2.9.0+cpu", "tilewright[torch]"]]
    assert installed("bench") == [bench]
    assert installed("test") == [bench, *dev, *torch]
    assert installed("bench") == installed("test") == [bench, *dev, *torch]
    (tmp_path / "installed").unlink()
    shutil.rmtree(tmp_path / ".venv")
    assert installed("test") == [bench, *dev, *torch]


@needs_make
def test_make_says_which_python_it_needs(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    python = tmp_path / "python3.9"
    old = "import sys; sys.version_info = (3, 9, 20)"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{old}; $2"\n')
    python.chmod(0o755)
    for name in ("pyproject.toml", "setup.py"):
        (tmp_path / name).touch()
    command = ["make", "bench", f"PYTHON={python}"]
    make = subprocess.run(command, cwd=tmp_path, env=alone(), capture_output=True, text=True, check=False)
    assert make.returncode != 0
    assert f"tilewright needs Python 3.10 or newer, {python} is older: make PYTHON=python3.12 ..." in make.stderr
    assert not (tmp_path / ".venv").exists()


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
