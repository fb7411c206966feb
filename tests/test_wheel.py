"""The wheel has all of the package, and runs without the repository."""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
OFFLINE = ("--no-deps", "--no-index")
RUNTIME = Path("tilewright", "emulator", "runtime")
PRODUCT = """
import numpy as np, tilewright
a, b = np.ones((40, 60), np.float32), np.ones((60, 50), np.float32)
print((tilewright.matmul(a, b, engine="emulator", kernel="shared_tiled") == 60).all())
"""
NOT_PACKAGED = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so")


def copied(folder):
    """Copy of the sources, to build a wheel of: files of earlier builds must not show. Studies lie there too."""
    pytest.importorskip("setuptools")
    for name in ("src", "studies"):
        shutil.copytree(ROOT / name, folder / name, ignore=NOT_PACKAGED)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


def built(folder):
    """The wheel that is built of a copy."""
    command = [*PIP, "wheel", *OFFLINE, "--no-build-isolation", "-w", folder, folder]
    subprocess.run(command, check=True, env=os.environ | {"CFLAGS": "-O0"})  # which compiles in half of the time
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """One that has what was compiled when this checkout was installed, where that was: building is as slow as compiling
    is. What is there counts as compiled of these sources, as for any build after another."""
    folder = copied(tmp_path_factory.mktemp("wheel"))
    kept = folder / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
    for library in (ROOT / "src").rglob("*.so"):
        place = kept / library.relative_to(ROOT / "src")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)
    return built(folder)


@pytest.fixture(scope="module")
def compiled_wheel(tmp_path_factory):
    """One whose libraries were compiled for it."""
    return built(copied(tmp_path_factory.mktemp("compiled")))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Runs a command with the installed wheel, from an empty folder; gives what it prints."""
    return runner(wheel, tmp_path_factory)


@pytest.fixture(scope="module")
def compiled(compiled_wheel, tmp_path_factory):
    """Runs a command with the other installed wheel, from an empty folder; gives its output."""
    return runner(compiled_wheel, tmp_path_factory)


def runner(wheel, tmp_path_factory):
    target, elsewhere = tmp_path_factory.mktemp("target"), tmp_path_factory.mktemp("elsewhere")
    subprocess.run([*PIP, "install", *OFFLINE, "--target", target, wheel], check=True)

    def run(*command, package=target, status=0, **variables):
        environment = os.environ | {"PYTHONPATH": str(package)} | variables
        done = subprocess.run(
            [sys.executable, *command], cwd=elsewhere, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr
        return done.stdout

    run.target = target
    return run


@pytest.fixture
def copy(installed, tmp_path):
    """A copy of the installed package, to be changed."""
    return shutil.copytree(installed.target, tmp_path / "copy")


def test_it_has_every_file_of_the_package(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    files = {path for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix not in (".so", ".pyc", ".md")}
    ours = {path.relative_to(ROOT / "src").as_posix() for path in files if ".egg-info" not in str(path)}
    assert not ours - names
    assert "tilewright/py.typed" in ours
    folders = {name.partition("/")[0] for name in names}
    assert {name for name in folders if not name.endswith(".dist-info")} == {"tilewright"}
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


@pytest.mark.further
def test_what_is_compiled_for_it_is_used_whatever_compiler_is_there(compiled, tmp_path):
    """It is of the wheel's own sources, else every process would compile another."""
    program = """
from tilewright.runtime import _launcher, extension, launcher
print(_launcher.SOURCE == extension.digest(launcher._SOURCE), launcher.load() is _launcher)
"""
    assert compiled("-c", program).split() == ["True", "True"]
    racy = tmp_path / "racy.cu"
    start = (ROOT / "src" / "tilewright" / "kernels" / "start.cu").read_text()
    racy.write_text(start.replace("__syncthreads();  // all have read them", ""))
    for compiler in filter(shutil.which, ("g++", "clang++")):
        variables = {"CXX": compiler, "TILEWRIGHT_CACHE": str(tmp_path / compiler)}
        assert compiled("-c", PRODUCT, **variables) == "True\n"
        assert "race" in compiled("-m", "tilewright", "check", racy, "--shape", "32", status=1, **variables)
        assert list((tmp_path / compiler).rglob("kernel-*"))
    assert not list(tmp_path.rglob("*-runtime-*"))


@pytest.mark.further
def test_without_its_runtime_another_is_compiled_at_first_use(installed, copy, tmp_path):
    """A runtime is compiled from edited sources, at the first use."""
    with (copy / RUNTIME / "findings.cpp").open("a") as edited:
        edited.write("// edited\n")
    fast = shlex.join(["sh", "-c", 'exec g++ "$@" -O0', "sh"])  # which compiles in a third of the time
    assert installed("-c", PRODUCT, package=copy, CXX=fast, TILEWRIGHT_CACHE=str(tmp_path / "cache")) == "True\n"
    assert len(list((tmp_path / "cache").rglob("tilewright-runtime-*.so"))) == 1


@pytest.mark.first(1)
@pytest.mark.parametrize("why", ["as installed", "edited", "absent", "does not load", "other processor"])
def test_when_its_runtime_is_used(installed, copy, tmp_path, why):
    """Shown with a compiler that compiles nothing, so that where the runtime is not used there is none."""
    (library,) = (copy / RUNTIME).parent.glob("_runtime*.so")
    program = "from tilewright.emulator.runtime_library import find_runtime; print(find_runtime().library)"
    if why == "edited":
        with (copy / RUNTIME / "abi.hpp").open("a") as edited:
            edited.write("// edited\n")
    elif why == "absent":
        library.unlink()
    elif why == "does not load":
        library.write_bytes(b"no ELF" + library.read_bytes())
    elif why == "other processor":
        program = f"from tilewright.emulator import prebuilt; prebuilt.INSTRUCTIONS['none such'] = ''; {program}"
    script = tmp_path / "compiler"
    script.write_text('#!/bin/sh\ncase "$*" in *-E*) exec g++ "$@";; esac; echo cannot compile >&2; exit 1\n')
    script.chmod(0o755)
    variables = {"CXX": str(script), "TILEWRIGHT_CACHE": str(tmp_path / "cache")}
    if why == "as installed":  # sysconfig says None to a thread while another is the first to ask it
        program = f"import sysconfig; sysconfig.get_config_var = lambda name: None; {program}"
        assert installed("-c", program, package=copy, **variables).strip() == str(library)
    else:
        program = f"""
from tilewright.core.errors import EngineUnavailableError
try:
    {program}
except EngineUnavailableError as error:
    print(error)
"""
        assert "cannot compile" in installed("-c", program, package=copy, **variables)


def test_its_commands_run_without_the_repository(installed):
    script = str(installed.target / "bin" / "tilewright")
    assert "one thread, one element" in installed(script, "list")
    assert "Roofline" in installed(script, "explain", "naive", "--shape", "64")
    assert "WRONG" not in installed(script, "bench", "best", "--shape", "40", "--engine", "emulator")
