"""Counts of instructions, and widths of loads and stores."""

import pytest
from listings import listing

from tilewright.emulator.symbols import SourceLine
from tilewright.tools.explain.instruction_mix import access_widths, access_widths_by_line, count, group, multiply_adds
from tilewright.tools.explain.sass import parse


def read(*lines):
    return parse(listing("\n".join(lines)), "kernel")


@pytest.mark.parametrize(
    ("line", "purpose"),
    [
        ("FFMA R0, R1, R2, R3", "fp32 multiply-add"),
        ("FFMA2 R0, R2, R4, R6", "fp32 multiply-add"),
        ("FMUL R0, R1, R2", "other fp32"),
        ("HMMA.16816.F32 R0, R4, R8, R0", "tensor cores"),
        ("HFMA2.MMA R80, -RZ, RZ, 0, 0", "moves, conversions"),
        ("HFMA2 R80, -RZ, RZ, 1.875, 0", "moves, conversions"),
        ("HFMA2 R1, R2, R3, R4", "half precision"),
        ("IMAD.MOV.U32 R1, RZ, RZ, R2", "moves, conversions"),
        ("IMAD.WIDE R2, R3, 0x4, R4", "integer, addresses"),
        ("UIADD3 UR4, UR4, 0x7f, URZ", "integer, addresses"),
        ("LDGSTS.E.BYPASS.128 [R1], desc[UR4][R2.64]", "asynchronous copies"),
        ("UTMALDG.2D [UR8], [UR4]", "asynchronous copies"),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "barriers and fences"),
        ("BRA.U.ANY UR4", "control"),
        ("@!PT LDS RZ, [RZ]", "never executed"),
        ("@!UPT UIADD3 URZ, URZ, URZ, URZ", "never executed"),
        ("@P0 LDS R1, [R2]", "shared loads"),
        ("XYZZY.E R1", "other"),
    ],
)
def test_every_instruction_has_a_purpose(line, purpose):
    (instruction,) = read(line)
    assert group(instruction) == purpose


def test_counts_are_by_purpose_and_opcode():
    code = read("FFMA R0", "LDS R1, [R2]", "FFMA R0", "LDS.128 R4, [R2]", "LDSM.16.M88.4 R4, [R2]", "EXIT")
    assert count(code) == {
        "fp32 multiply-add": {"FFMA": 2},
        "shared loads": {"LDS": 2, "LDSM": 1},
        "control": {"EXIT": 1},
    }
    assert list(count(code)["shared loads"]) == ["LDS", "LDSM"], "the most frequent first"
    assert multiply_adds(code) == (0, 2)


@pytest.mark.parametrize(
    ("line", "kind", "size"),
    [
        ("LDG.E R0, desc[UR4][R2.64]", "global_load", 4),
        ("LDG.E.128.CONSTANT R0, desc[UR4][R2.64]", "global_load", 16),
        ("LDG.E.U16 R0, desc[UR4][R2.64]", "global_load", 2),
        ("LDG.E.ENL2.256 R8, R4, desc[UR4][R2.64]", "global_load", 32),
        ("STG.E.64 desc[UR4][R2.64], R0", "global_store", 8),
        ("LDS R0, [R2+0x80]", "shared_load", 4),
        ("LDS.U.128 R0, [R2]", "shared_load", 16),
        ("STS.128 [R2], R4", "shared_store", 16),
        ("STS.U8 [R2], R4", "shared_store", 1),
        ("LDGSTS.E.BYPASS.128 [R1], desc[UR4][R2.64]", "async_copy", 16),
        ("LDGSTS.E [R1], desc[UR4][R2.64]", "async_copy", 4),
        ("LDSM.16.M88.4 R4, [R2]", "matrix_load", 16),
        ("LDSM.16.MT88.2 R4, [R2]", "matrix_load", 8),
        ("LDSM.16.M88 R4, [R2]", "matrix_load", 4),
        ("LD.E.128 R4, desc[UR4][R2.64]", "generic_load", 16),
        ("ST.E desc[UR4][R2.64], R0", "generic_store", 4),
        ("LDL.LU.64 R4, [R1]", "local_load", 8),
        ("STL [R1+0x4], R4", "local_store", 4),
    ],
)
def test_widths(line, kind, size):
    assert access_widths(read(line)) == {kind: {size: 1}}


def test_the_widest_come_first_and_what_has_no_width_is_left_out():
    code = read(
        "LDS R0, [R2]",
        "LDS.128 R0, [R2]",
        "LDS R0, [R2]",
        "UTMALDG.2D [UR8], [UR4]",
        "RED.E.ADD [R2], R1",
        "@!PT LDS.64 RZ, [RZ]",
    )
    assert access_widths(code) == {"shared_load": {16: 1, 4: 2}}
    assert list(access_widths(code)["shared_load"]) == [16, 4]


def test_widths_by_source_line():
    code = read(
        "FFMA R0",
        '//## File "/a/b/kernel.cu", line 7',
        "LDS.128 R0, [R2]",
        "LDS.128 R4, [R2]",
        "FFMA R0",
        '//## File "/a/b/kernel.cu", line 5',
        "LDG.E R8, desc[UR4][R2.64]",
        '//## File "/a/b/kernel.cu", line 7',
        "LDS R8, [R2]",
        '//## File "/a/b/kernel.cu", line 9',
        "@!PT LDS RZ, [RZ]",
    )
    by_line = access_widths_by_line(code)
    assert by_line == {
        SourceLine("kernel.cu", 5): {"global_load": {4: 1}},
        SourceLine("kernel.cu", 7): {"shared_load": {16: 2, 4: 1}},
    }
