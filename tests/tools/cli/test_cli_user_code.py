"""`sass` and `explain` of PTX and cubins, of which there is no source."""

import json
import re

import pytest
from typer.testing import CliRunner

from tilewright.core.errors import CompileError, ConfigError, EngineUnavailableError, KernelNotFoundError
from tilewright.core.problem import Problem
from tilewright.kernels import find
from tilewright.kernels.source.products import START
from tilewright.runtime import machine_code_tools
from tilewright.tools.cli import explain as explain_command
from tilewright.tools.cli import main
from tilewright.tools.explain.user_code import is_code, read_code

# As Triton writes it: threads of a block, and shared memory that the launch gives.
PTX = """.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 global_smem[];
.visible .entry scaled(.param .u64 x, .param .f32 by)
.reqntid 128, 1, 1
{
    .reg .b64 %rd<5>;
    .reg .b32 %r<2>;
    .reg .f32 %f<4>;
    .shared .align 4 .b8 own[512];
    ld.param.u64 %rd1, [x];
    ld.param.f32 %f1, [by];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.f32 %f2, [%rd4];
    st.shared.f32 [own], %f2;
    bar.sync 0;
    ld.shared.f32 %f3, [own];
    mul.f32 %f2, %f3, %f1;
    st.global.f32 [%rd4], %f2;
    ret;
}
"""


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(explain_command, "present_gpu", lambda: None)
    try:
        machine_code_tools.find()
    except EngineUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def cubins(tmp_path_factory):
    """The kernel of `tilewright new` as cubins for two architectures, and what the compiler reports of it."""
    pytest.importorskip("cuda.core")
    from tilewright.runtime import nvrtc  # noqa: PLC0415

    kernel, folder, reports = find(str(START)), tmp_path_factory.mktemp("cubins"), {}
    config = kernel.config()
    for arch in ("sm_80", "sm_90a"):
        made = nvrtc.compile(kernel, config, kernel.variant(Problem(64, 64, 64), config), arch)
        (folder / f"{arch}.cubin").write_bytes(made.code)
        reports[arch] = made.report
    return folder, reports


def run(*arguments):
    result = CliRunner().invoke(main.app, [*map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, (result.output, result.exception)
    return " ".join(result.output.split())


@pytest.mark.first(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_cubin_says_what_its_compiler_reported(cubins, arch):
    folder, reports = cubins
    found = read_code(f"{folder / arch}.cubin:start")
    assert (found.arch, found.code.report.registers) == (arch, reports[arch].registers)
    assert found.code.report.shared_bytes == reports[arch].shared_bytes == 2 * 4 * 16 * 16
    assert found.code.main_loop


def test_sass_and_explain_take_a_cubin(cubins, tmp_path):
    place = cubins[0] / "sm_90a.cubin"
    found = run("sass", place, "--listing", "--json", tmp_path / "code.json")
    assert re.search(r"_Z5start\w+ for sm_90a \d+ registers a thread, 2048 bytes of shared memory main loop", found)
    assert "BAR.SYNC" in found
    assert json.loads((tmp_path / "code.json").read_text())["main_loop"]["instructions"] > 16
    found = run("explain", place, "--block", "16,16", "--shared", 1024, "--gpu", "H100 SXM")
    assert "blocks of 256 threads" in found
    assert "shared memory 3,072 bytes" in found
    assert "blocks that fit" in found
    assert "compute capability" not in found
    assert "the code is for sm_90a, and A100 40GB has compute capability 8.0" in run(
        "explain", place, "--block", 256, "--gpu", "A100 40GB"
    )


def test_ptx_is_assembled(tmp_path):
    try:
        machine_code_tools.assemble(PTX, "sm_80")
    except EngineUnavailableError as error:
        pytest.skip(str(error))
    (tmp_path / "scaled.ptx").write_text(PTX)
    found = run("sass", tmp_path / "scaled.ptx", "--arch", "sm_89")
    assert re.search(r"scaled for sm_89 \d+ registers a thread, 0 bytes spilled, 512 bytes of shared memory", found)
    found = run("explain", tmp_path / "scaled.ptx", "--gpu", "A100 40GB", "--shared", 1536)
    assert "scaled for sm_80, on one A100 40GB: blocks of 128 threads" in found
    assert "shared memory 2,048 bytes" in found
    with pytest.raises(CompileError, match="does not take the PTX for sm_80"):
        machine_code_tools.assemble(PTX.replace("mul.f32", "mul.f99"), "sm_80")


def test_what_is_no_such_file_is_said(cubins, tmp_path):
    (tmp_path / "text.cubin").write_text("text")
    place = cubins[0] / "sm_80.cubin"
    with pytest.raises(CompileError, match=r"text.cubin is no cubin"):
        read_code(str(tmp_path / "text.cubin"))
    with pytest.raises(KernelNotFoundError, match=r"no kernel can be read from none.cubin: No such file"):
        read_code("none.cubin")
    with pytest.raises(KernelNotFoundError, match="has no kernel 'other'; there are _Z5start"):
        read_code(f"{place}:other")
    with pytest.raises(ConfigError, match="has code for sm_80, got --arch sm_90a"):
        read_code(str(place), "sm_90a")
    for command, option, words in (
        ("sass", "--config", "is compiled: it takes --arch, --listing and --json"),
        ("explain", "--shape", "--shape is for sources"),
    ):
        result = CliRunner().invoke(main.app, [command, str(place), option, "8"])
        assert words in str(result.exception)
    assert "does not say how many threads a block has" in str(
        CliRunner().invoke(main.app, ["explain", str(place)]).exception
    )


@pytest.mark.parametrize(
    ("text", "expected"), [("a.ptx", True), ("b/a.cubin:entry", True), ("a.cu", False), ("naive:small", False)]
)
def test_which_names_are_code(text, expected):
    assert is_code(text) is expected
