"""The wheel has all of the package, and runs without the repository."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
OFFLINE = ("--no-deps", "--no-index")
NOT_PACKAGED = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy of the sources alone: what earlier builds left behind must not show."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "src", folder / "copy" / "src", ignore=NOT_PACKAGED)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "copy")
    command = [*PIP, "wheel", *OFFLINE, "--no-build-isolation", "-w", folder, folder / "copy"]
    subprocess.run(command, check=True, env=os.environ | {"CFLAGS": "-O0"})  # which compiles in half of the time
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Runs a command with the installed wheel, from an empty folder; gives what it prints."""
    target, elsewhere = tmp_path_factory.mktemp("target"), tmp_path_factory.mktemp("elsewhere")
    subprocess.run([*PIP, "install", *OFFLINE, "--target", target, wheel], check=True)

    def run(*command):
        environment = os.environ | {"PYTHONPATH": str(target)}
        done = subprocess.run(
            [sys.executable, *command], cwd=elsewhere, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run.target = target
    return run


def test_it_has_every_file_of_the_package(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    files = {path for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix not in (".so", ".pyc")}
    ours = {path.relative_to(ROOT / "src").as_posix() for path in files if ".egg-info" not in str(path)}
    assert not ours - names
    assert "tilewright/py.typed" in ours
    suffixes = {Path(name).suffix for name in ours}
    assert {".cu", ".cuh", ".hpp", ".cpp", ".h", ".json", ".j2", ".css", ".js"} <= suffixes


def test_it_multiplies_without_the_repository(installed):
    program = """
import sys, numpy as np, tilewright
a, b = np.ones((40, 60), np.float32), np.ones((60, 50), np.float32)
for kernel in ("vectorized", "split_k", "gemm_wmma"):
    factors = (a.astype(np.float16), b.astype(np.float16)) if kernel == "gemm_wmma" else (a, b)
    result = tilewright.matmul(*factors, engine="emulator", kernel=kernel)
    assert (result == 60).all(), kernel
files = {module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "tilewright"}
print(*files, sep="\\n")
"""
    files = installed("-c", program).splitlines()
    assert len(files) > 50
    assert all(Path(file).is_relative_to(installed.target) for file in files)


def test_its_launcher_is_of_its_own_sources(installed):
    """Else every process would compile another."""
    program = """
from tilewright.engines import _launcher, extension, launcher
print(_launcher.SOURCE == extension.digest(launcher._SOURCE), launcher.load() is _launcher)
"""
    assert installed("-c", program).split() == ["True", "True"]


def test_its_commands_run_without_the_repository(installed):
    script = str(installed.target / "bin" / "tilewright")
    assert "one thread, one element of C" in installed(script, "list")
    assert "Roofline" in installed(script, "explain", "naive", "--shape", "64")
    assert "WRONG" not in installed(script, "bench", "best", "--shape", "40", "--engine", "emulator")
