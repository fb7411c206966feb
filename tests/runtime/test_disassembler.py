"""Finding nvdisasm, and what it says."""

import importlib.metadata
import os
import re
import stat

import pytest

from tilewright.core.errors import EngineUnavailableError
from tilewright.runtime import machine_code_tools, nvrtc
from tilewright.runtime.machine_code_tools import disassemble, find

SOURCE = 'extern "C" __global__ void f(float* x) { x[threadIdx.x] *= 2; }'


def program(folder, script="exit 0"):
    """An executable of this name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "nvdisasm"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine without nvdisasm."""

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(machine_code_tools.importlib.metadata, "distribution", missing)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "toolkit"))
    return tmp_path


def test_the_wheel_reads_real_code():
    assert os.access(find(), os.X_OK)
    text = disassemble(nvrtc.compile_source(SOURCE, "f.cu", "f", {}, "sm_90a").code)
    assert ".text.f" in text
    assert "FADD" in text or "FMUL" in text
    assert re.search(r'File ".*f\.cu", line 1$', text, re.MULTILINE)


def test_code_is_read_once_by_each_program(bare, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(bare / "cache"))
    path = program(bare / "bin", f"echo one of them; echo >> {bare / 'calls'}")
    assert [disassemble(b"code"), disassemble(b"code")] == ["one of them\n"] * 2
    assert (bare / "calls").read_text() == "\n"
    program(path.parent, "echo the other one")
    assert disassemble(b"code") == "the other one\n"


def test_the_wheel_comes_first(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(program(tmp_path).parent), prepend=os.pathsep)
    assert find().parent != tmp_path


def test_without_it_the_path_and_then_a_toolkit_are_searched(bare):
    with pytest.raises(EngineUnavailableError, match=r"is not installed: pip install 'nvidia-cuda-nvdisasm==13\.\*'"):
        find()
    toolkit = program(bare / "toolkit" / "bin")
    assert find() == toolkit
    on_path = program(bare / "bin")
    assert find() == on_path


def test_a_failing_program_is_quoted(bare):
    path = program(bare / "bin", "echo 'nvdisasm fatal: unknown architecture' >&2; exit 3")
    with pytest.raises(
        EngineUnavailableError, match=f"{path} cannot read the compiler's code: nvdisasm fatal: unknown"
    ):
        disassemble(b"")


def test_a_program_that_cannot_be_run_is_named(bare):
    path = program(bare / "bin")
    path.write_bytes(b"\x7fELF of another machine")
    with pytest.raises(EngineUnavailableError, match=f"{path} cannot be run"):
        disassemble(b"")


def test_code_that_is_none_is_refused():
    with pytest.raises(EngineUnavailableError, match="cannot read the compiler's code"):
        disassemble(b"no machine code")
