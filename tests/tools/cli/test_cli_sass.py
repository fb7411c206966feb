"""`tilewright sass`, from its arguments to its exit status; kernels are compiled and disassembled for real."""

import json
import sys

import pytest

from tilewright.core.errors import EngineUnavailableError
from tilewright.runtime import machine_code_tools
from tilewright.tools.cli import main, streams
from tilewright.tools.cli import sass as command


@pytest.fixture
def sass(monkeypatch, capsys):
    """Run the command; gives exit status, standard output and standard error as they are."""
    monkeypatch.setattr(streams.out, "_width", 160)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["tilewright", "sass", *arguments])
        status = 0
        try:
            main.main()
        except SystemExit as stop:
            status = stop.code or 0
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def test_it_shows_mix_widths_and_main_loop(sass):
    status, out, _ = sass("vectorized", "--arch", "sm_90a")
    assert status == 0
    assert "vectorized BM=128,BN=128,BK=8,TM=8,TN=8 for sm_90a: float32, without guards" in out
    text = " ".join(out.split())
    assert "0 bytes spilled, 8192 bytes of shared memory" in text
    assert "fp32 multiply-add FFMA 576 576 512" in text
    assert "global loads 18 x 16 B 2 x 16 B" in text
    assert "EXIT\n" not in out


def test_without_a_gpu_code_is_made_for_hopper(sass, monkeypatch):
    monkeypatch.setattr(command, "present_gpu", lambda: None)
    _, out, _ = sass("naive")
    assert " for sm_90a: float32" in out


def test_the_listing_is_printed_on_request(sass):
    _, out, _ = sass("1", "--arch", "sm_90a", "--listing")
    lines = out.splitlines()
    assert any(line.startswith("| ") and " FFMA R" in line for line in lines)
    assert lines[-1].endswith(" EXIT")


def test_ptx_is_printed_instead(sass, monkeypatch):
    monkeypatch.setattr(machine_code_tools, "find", lambda: pytest.fail("PTX needs no disassembler"))
    status, out, _ = sass("naive", "--arch", "sm_80", "--ptx")
    assert status == 0
    assert ".target sm_80" in out
    assert ".visible .entry naive(" in out
    assert "fma.rn.f32" in out
    assert "main loop" not in out


def test_shape_config_and_type_decide_the_code(sass):
    _, out, _ = sass("10", "--shape", "1001x999x1003", "--config", "BK=8", "--arch", "sm_80")
    assert "BK=8" in out and "with guards for edges; rows need not be aligned" in out
    _, out, _ = sass("wmma_f16", "--dtype", "bfloat16", "--arch", "sm_80")
    assert "bfloat16, without guards" in out
    assert "of its instructions are HMMA" in out


@pytest.mark.further
def test_orders_decide_the_code(sass):
    arguments = ("gemm_sm90", "--shape", "512", "--config", "BN=80", "--listing")
    along, across = (sass(*arguments, "--layout", layout)[1] for layout in ("NT", "TN"))
    assert "HGMMA" in along and "tnspA" in across and "tnspB" in across and "tnsp" not in along
    assert "naive takes layouts NN of A and B, got TT" in sass("naive", "--layout", "TT")[2]


def test_the_json_has_counts_widths_and_listing(sass, tmp_path):
    path = tmp_path / "new" / "code.json"
    status, _, _ = sass("async_copy", "--arch", "sm_90a", "--json", str(path))
    assert status == 0
    facts = json.loads(path.read_text())
    assert (facts["kernel"], facts["arch"], facts["edges"], facts["aligned"]) == ("async_copy", "sm_90a", False, True)
    assert facts["config"]["STAGES"] == 3
    assert facts["shared_bytes"] > 3 * 4 * (64 + 128) * 16 - 1, "all stages of A and B"
    assert facts["main_loop"]["access_widths"]["async_copy"] == {"16": 6}
    assert facts["main_loop"]["mix"]["fp32 multiply-add"] == {"FFMA": 1024}
    assert facts["main_loop"]["register_banks"]["multiply_adds"] == 1024
    assert 1024 < facts["main_loop"]["register_banks"]["cycles"] < 2 * 1024
    assert facts["main_loop"]["multiply_share"] == pytest.approx(1024 / facts["main_loop"]["instructions"])
    assert len(facts["listing"]) == facts["whole"]["instructions"]
    lines = {(one["file"], one["line"]): one["access_widths"] for one in facts["access_widths_by_line"]}
    assert {"async_copy": {"16": 18}} in lines.values()
    copies = [one for one in facts["listing"] if one["opcode"].startswith("LDGSTS")]
    assert copies[0]["source"]["file"].endswith((".cu", ".cuh"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["warptield"], "no kernel is called 'warptield'; did you mean 'warptiled'?"),
        (["10", "--config", "BX=3"], "warptiled has no parameter 'BX'"),
        (["10", "--arch", "hopper"], "arch must read sm_NN, as in sm_80 or sm_90a, got 'hopper'"),
        (["10", "--arch", "sm_70"], "warptiled needs a GPU of compute capability 7.5 or newer for float32, got 7.0"),
        (["async_copy", "--arch", "sm_75"], "needs a GPU of compute capability 8.0 or newer"),
        (["gemm_sm90", "--arch", "sm_80"], "gemm_sm90 runs on GPUs of compute capability 9.0 alone (sm_90a), got 8.0"),
        (["wgmma", "--arch", "sm_90"], "arch must be sm_90a for wgmma, whose instructions others lack, got sm_90"),
        (["10", "--dtype", "float16"], "warptiled takes float32, got float16"),
        (["10", "--shape", "7x8"], "shape must read MxNxK"),
        (["10", "--arch", "sm_99"], "arch must be one that the compiler knows, sm_75, sm_80, sm_8"),
        (["10", "--arch", "sm_99", "--ptx"], "arch must be one that the compiler knows, sm_75, sm_80, sm_8"),
    ],
)
def test_bad_input_is_named(sass, arguments, message):
    status, out, err = sass(*arguments)
    assert status == 2
    assert message in err
    assert not out


def test_without_a_disassembler_it_says_what_to_install(sass, monkeypatch):
    def missing():
        raise EngineUnavailableError("nvdisasm is not installed: pip install it")

    monkeypatch.setattr(machine_code_tools, "find", missing)
    status, out, err = sass("naive", "--arch", "sm_90a")
    assert status == 1
    assert "pip install it" in err
    assert not out


def test_counts_that_cannot_be_written_fail_by_name(sass, tmp_path):
    (tmp_path / "plain").write_text("")
    status, out, err = sass("naive", "--arch", "sm_90a", "--json", str(tmp_path / "plain" / "code.json"))
    assert status == 2
    assert "--json takes a path for counts of machine code, got" in err
    assert not out


def test_help_teaches(sass):
    status, out, _ = sass("--help")
    assert status == 0
    assert "pip install 'nvidia-cuda-nvdisasm==13.*'" in " ".join(out.replace("│", "").split())


def test_ptx_and_json_are_both_written(sass, tmp_path):
    path = tmp_path / "code.json"
    status, out, _ = sass("naive", "--arch", "sm_80", "--ptx", "--json", str(path))
    assert status == 0
    assert ".target sm_80" in out
    assert json.loads(path.read_text())["listing"]


def test_json_on_standard_output_is_alone_there(sass):
    status, out, err = sass("naive", "--arch", "sm_80", "--json", "-")
    assert status == 0
    assert json.loads(out)["kernel"] == "naive"
    assert "bytes spilled" in err
