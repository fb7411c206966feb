"""`tilewright warm`: what is compiled ahead, into which cache, and what it refuses."""

import zipfile

import pytest
from typer.testing import CliRunner

import tilewright
from tilewright.core.errors import CompileError
from tilewright.core.problem import Problem
from tilewright.runtime import cache, nvrtc
from tilewright.select.selector import select
from tilewright.tools.cli import main
from tilewright.tools.tune import warming

H100 = "NVIDIA H100 80GB HBM3", (9, 0)


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """Kernels that are compiled, with their configs and the architecture; and an empty cache."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    found = []
    monkeypatch.setattr(
        nvrtc, "compile", lambda kernel, config, _, arch, lineinfo: found.append((kernel, config, arch))
    )
    return found


def warm(*arguments):
    """The command's exit status, and what it prints."""
    result = CliRunner().invoke(main.app, ["warm", *arguments], env={"COLUMNS": "300"})
    return result.exit_code, f"{result.output}{result.exception or ''}"


def test_what_is_picked_for_a_shape_is_compiled_for_a_gpu_that_is_not_here(compiled):
    status, printed = warm("--gpu", "H100", "--shape", "512", "--dtype", "float32")
    assert status == 0
    assert "compiled: " in printed
    assert "H100" in printed
    picked = select(Problem.parse("512"), H100[1], H100[0])
    assert (*picked, "sm_90a") in compiled


def test_portfolios_are_compiled_each_code_once():
    jobs = warming.distinct(warming.of_portfolios(["bfloat16"], (9, 0)))
    keys = [(job.kernel, job.config, job.variant) for job in jobs]
    assert len(set(keys)) == len(keys) > 100
    assert {job.variant.edges for job in jobs} == {True, False}


def test_a_kernel_that_is_refused_is_an_error(compiled, monkeypatch):
    def refuses(*_, lineinfo):
        raise CompileError("it has no registers")

    monkeypatch.setattr(nvrtc, "compile", refuses)
    status, printed = warm("--gpu", "H100", "--shape", "512")
    assert status == 1
    assert "it has no registers" in printed


def test_a_wheel_is_written_where_it_is_asked_for_and_over_nothing_else(tmp_path):
    arguments = ("--gpu", "A100 80GB", "--shape", "1x64x64", "--dtype", "float32", "--wheel")
    status, printed = warm(*arguments, str(tmp_path))
    path = tmp_path / f"tilewright_sm_80-{tilewright.__version__}-py3-none-any.whl"
    assert status == 0
    assert str(path) in printed
    assert zipfile.is_zipfile(path)
    path.write_text("notes")
    status, printed = warm(*arguments, str(tmp_path))
    assert status == 1
    assert "--wheel takes a path for a wheel" in printed
    assert path.read_text() == "notes"


def test_clear_empties_the_cache(compiled):
    cache.store("0" * 32, ".cubin", b"code")
    assert "removed 1 files" in warm("--clear")[1]
    assert cache.find("0" * 32, ".cubin") is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--dtype", "int8"], "--dtype must be one of float32, bfloat16, float16, got 'int8'"),
        (["--gpu", "Z9"], "Z9"),
        ([], "this machine has no GPU to compile for: name one"),
    ],
)
def test_what_it_refuses(compiled, options, words):
    status, printed = warm(*options)
    assert status == 1
    assert words in printed
    assert not compiled
