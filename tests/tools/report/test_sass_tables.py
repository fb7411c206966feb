"""Output of `tilewright sass`."""

import io

import pytest
from rich.console import Console

from tilewright.runtime.executable import CompileReport
from tilewright.tools.explain.machine_code import MachineCode
from tilewright.tools.explain.sass import Instruction
from tilewright.tools.report.sass_tables import listing, mix_table, multiply_share, summary, widths_table

OPCODES = ("LDC", "LDG.E.128", "LDS.128", "FFMA", "FFMA", "FFMA", "STL", "BRA", "STG.E", "EXIT")
CODE = tuple(Instruction(16 * i, "", opcode, "R0", None, None) for i, opcode in enumerate(OPCODES))
REPORT = CompileReport(registers=128, spill_bytes=40, shared_bytes=1000)
LOOPING, STRAIGHT = MachineCode(CODE, CODE[1:8], REPORT), MachineCode(CODE, (), REPORT)


def printed(table):
    console = Console(width=160, file=io.StringIO())
    console.print(table)
    return " ".join(console.file.getvalue().split())


def test_the_mix_of_kernel_and_main_loop():
    text = printed(mix_table(LOOPING))
    assert "fp32 multiply-add FFMA 3 3 3 42.9%" in text
    assert "global stores STG 1 1 local memory" in text, "there is none in the loop"
    assert "all 10 7 100.0%" in text


def test_a_row_names_the_most_frequent_opcodes_only():
    many = tuple(
        Instruction(0, "", name, "", None, None) for name in ("LEA", "SHF", "IADD3", "IADD3", "LOP3", "IABS", "SHL")
    )
    assert "IADD3 2, LEA 1, SHF 1, LOP3 1, IABS 1, ... 7" in printed(mix_table(MachineCode(many, (), REPORT)))


def test_widths_of_kernel_and_main_loop():
    text = printed(widths_table(LOOPING))
    assert "global loads 1 x 16 B 1 x 16 B" in text
    assert "global stores 1 x 4 B shared loads" in text


def test_the_summary_says_what_the_loop_is():
    lines = summary(LOOPING, dynamic_shared_bytes=24).splitlines()
    assert lines == [
        "128 registers a thread, 40 bytes spilled, 1024 bytes of shared memory",
        "main loop: 0010 to 0070; 42.9% of its instructions are FFMA",
        "register banks deliver the operands of 1.000 FFMA a cycle: 3 take 3 cycles at least",
        "widest there: global loads of 16, shared loads of 16 bytes",
        "it loads or stores local memory: spilled registers, or arrays that are indexed at run time",
    ]


@pytest.mark.parametrize(
    ("pending", "words"),
    [("0x1", "a wait leaves up to 1 in flight"), ("0x0", "a wait for all lets the tensor cores rest until the next")],
)
def test_the_summary_says_how_products_of_warpgroups_are_waited_for(pending, words):
    rows = (
        ("HGMMA.64x128x16.F32", "R24, gdesc[UR12].tnspB, R24"),
        ("HGMMA.64x128x16.F32", "R24, gdesc[UR8].tnspB, R24, gsb0"),
        ("WARPGROUP.DEPBAR.LE", f"gsb0, {pending}"),
        ("WARPGROUP.ARRIVE", ""),
    )
    loop = tuple(Instruction(16 * i, "", *row, None, None) for i, row in enumerate(rows))
    lines = summary(MachineCode(loop, loop, REPORT, ("(C7510) wgmma is serialized",)), 0).splitlines()
    assert any(line.startswith(f"warpgroups: products 2, groups of them 1, waits 1; {words}") for line in lines)
    assert lines[-1] == "the compiler's remark: (C7510) wgmma is serialized"
    assert "warpgroups" not in summary(LOOPING, 0)


def test_a_kernel_without_a_main_loop_says_so():
    assert "no loop multiplies" in summary(STRAIGHT, 0)
    assert "%" not in printed(mix_table(STRAIGHT))
    assert "main loop" not in printed(widths_table(STRAIGHT))


def test_tensor_cores_count_before_multiply_adds():
    loop = tuple(Instruction(0, "", name, "", None, None) for name in ("FFMA", "FFMA", "HMMA.16816.F32", "BRA"))
    assert multiply_share(loop) == ("HMMA", pytest.approx(0.25))


def test_the_listing_marks_the_main_loop():
    lines = list(listing(LOOPING))
    assert lines[0] == "  0000       LDC R0"
    assert lines[1] == "| 0010       LDG.E.128 R0"
    assert [line[0] for line in lines] == [" "] + ["|"] * 7 + [" "] * 2
