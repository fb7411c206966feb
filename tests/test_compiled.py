"""The record of what NVRTC made of configs: when it counts, and when something is compiled."""

import json
from dataclasses import asdict, replace

import pytest

import compiled
from compiled import Compiled, entries, report_of, sample
from sass_cases import of_products, written_early
from tilewright.kernels import find
from tilewright.kernels.support import Variant
from tilewright.runtime import machine_code_tools, nvrtc
from tilewright.runtime.executable import CompileReport

NAIVE = find("naive")
ASKED = NAIVE, NAIVE.config(), Variant(True, False), "sm_80"


def write(said):
    """Write a record of these, by key."""
    compiled.write(
        [{"kernel": "naive", "config": "", "made_of": key, **asdict(one)} for key, one in said.items()], compiled.PATH
    )
    entries.cache_clear()
    sample.cache_clear()


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Writes what the record says of ASKED, and whether that is compiled nevertheless."""
    monkeypatch.delenv(compiled.ASKED_VARIABLE, raising=False)
    monkeypatch.setattr(compiled, "PATH", tmp_path / "compiled.json")
    write({})

    def say(registers, sampled):
        said = Compiled("sm_80", CompileReport(registers, 0, 0), "a remark")
        write({compiled.key(*ASKED): said})
        monkeypatch.setattr(compiled, "sample", lambda _: {compiled.key(*ASKED)} if sampled else set())
        return said

    return say


def test_what_is_recorded_is_not_compiled(record, monkeypatch):
    said = record(7, sampled=False)
    monkeypatch.setattr(nvrtc, "compile", None)
    assert report_of(*ASKED) == said


def test_what_is_not_recorded_is_compiled(record):
    with pytest.warns(UserWarning, match=r"compiled.json is behind.* python -m tests.compiled writes it anew"):
        found = report_of(*ASKED)
    assert found.report == nvrtc.compile(*ASKED).report
    assert found.log == ""


def test_a_record_that_is_not_true_fails_in_the_sample(record):
    record(7, sampled=True)
    with pytest.raises(AssertionError, match=r"does not say what naive compiles to: python -m tests\.compiled"):
        report_of(*ASKED)


def test_the_sample_is_a_small_part_of_each_architecture_and_changes_with_the_record(record):
    samples = []
    for count in (100, 101):
        arches = {str(number): "sm_80" if number < 3 else "sm_90a" for number in range(count)}
        write({key: Compiled(arch, CompileReport(1, 0, 0), "") for key, arch in arches.items()})
        samples.append(sample(compiled.PATH))
        assert {arches[key] for key in samples[-1]} == {"sm_80", "sm_90a"}
        assert len(samples[-1]) < 10
    assert samples[0] != samples[1]


def test_remarks_of_the_assembler_are_recorded(record, tmp_path, monkeypatch):
    """And no other line of its log."""
    remark = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized"
    code = nvrtc.compile(*ASKED)
    monkeypatch.setattr(nvrtc, "compile", lambda *_: replace(code, log=f"{remark}\n{code.log}"))
    monkeypatch.setenv(compiled.ASKED_VARIABLE, str(tmp_path))
    report_of(*ASKED)
    (asked,) = (json.loads(path.read_text()) for path in tmp_path.glob(f"{compiled.key(*ASKED)}*"))
    compiled.write([asked], compiled.PATH)
    entries.cache_clear()
    assert entries(compiled.PATH) == {compiled.key(*ASKED): Compiled("sm_80", code.report, remark)}


def test_what_a_function_reads_of_machine_code_is_recorded(record, tmp_path, monkeypatch):
    """Under a name that differs from that of what is only compiled, and from other functions'."""
    monkeypatch.setenv(compiled.ASKED_VARIABLE, str(tmp_path))
    found = report_of(*ASKED, of_products)
    assert found.read == of_products(machine_code_tools.disassemble(nvrtc.compile(*ASKED).code))
    (asked,) = (json.loads(path.read_text()) for path in tmp_path.glob(f"{compiled.key(*ASKED, of_products)}*"))
    compiled.write([asked], compiled.PATH)
    entries.cache_clear()
    monkeypatch.delenv(compiled.ASKED_VARIABLE)
    monkeypatch.setattr(compiled, "sample", lambda _: set())
    monkeypatch.setattr(nvrtc, "compile", None)
    assert report_of(*ASKED, of_products) == found
    assert len({compiled.key(*ASKED), compiled.key(*ASKED, of_products), compiled.key(*ASKED, written_early)}) == 3


def test_a_key_is_another_where_anything_differs_that_code_depends_on(tmp_path, monkeypatch):
    near, far, source = tmp_path / "near.cuh", tmp_path / "far.cuh", tmp_path / "naive.cu"
    source.write_text('#include "near.cuh"\n')
    near.write_text("#include <far.cuh>\n")
    far.write_text("")
    kernel, config, variant, arch = replace(NAIVE, source=source), *ASKED[1:]
    keys = [
        compiled.key(kernel, config, variant, arch),
        compiled.key(kernel, kernel.config({"BLOCK_X": 16}), variant, arch),
        compiled.key(kernel, config, Variant(False, False), arch),
        compiled.key(kernel, config, variant, "sm_89"),
    ]
    for changed in (far, near, source):
        changed.write_text(changed.read_text() + "// changed\n")
        compiled.texts.cache_clear()
        keys.append(compiled.key(kernel, config, variant, arch))
    monkeypatch.setattr(compiled, "compilers", lambda: ["another"])
    keys.append(compiled.key(kernel, config, variant, arch))
    assert len(set(keys)) == len(keys)
