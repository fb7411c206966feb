"""Reading nvdisasm's text."""

import pytest
from listings import listing

from tilewright.core.errors import CompileError
from tilewright.emulator.symbols import SourceLine
from tilewright.tools.explain.sass import parse

LOOP = """
    //## File "/some/where/kernel.cu", line 12
    LDC R1, c[0x0][0x28]
    S2R R6, SR_CTAID.X
    .L_x_1:
    //## File "/some/where/include/tile_copy.cuh", line 34
    @!P0 LDG.E.128.CONSTANT R4, desc[UR8][R2.64+0x10]
    @P0 BRA `(.L_x_1)
    ERRBAR
    @P0 EXIT P1
    EXIT
    .L_x_2:
    BRA `(.L_x_2)
    NOP
    NOP
    .L_x_9:
"""


def test_instructions_have_all_their_parts():
    code = parse(listing(LOOP), "kernel")
    assert [instruction.address for instruction in code] == [0, 16, 32, 48, 64, 80, 96]
    load = code[2]
    assert (load.predicate, load.opcode, load.operands) == (
        "@!P0",
        "LDG.E.128.CONSTANT",
        "R4, desc[UR8][R2.64+0x10]",
    )
    assert (load.name, load.modifiers) == ("LDG", ("E", "128", "CONSTANT"))
    assert code[0].source == SourceLine("kernel.cu", 12)
    assert load.source == SourceLine("tile_copy.cuh", 34)
    assert (code[4].opcode, code[4].operands) == ("ERRBAR", "")
    assert str(load) == " @!P0 LDG.E.128.CONSTANT R4, desc[UR8][R2.64+0x10]"


def test_branches_name_addresses():
    branch = parse(listing(LOOP), "kernel")[3]
    assert (branch.target, branch.operands) == (32, "0020")


def test_what_fills_up_the_end_is_left_out():
    assert parse(listing(LOOP), "kernel")[-1].opcode == "EXIT"


def test_a_branch_to_itself_that_is_not_at_the_end_stays():
    code = parse(listing(".L_x_1:\nBRA `(.L_x_1)\nEXIT"), "kernel")
    assert [instruction.opcode for instruction in code] == ["BRA", "EXIT"]


def test_calls_name_functions_inside_the_kernel():
    code = parse(listing("CALL.REL.NOINC `($__internal_0_$__div)\nEXIT\n$__internal_0_$__div:\nRET R2"), "kernel")
    assert code[0].target == 32


def test_only_the_kernel_asked_for_is_read():
    text = listing("FFMA R0, R1, R2, R3\nEXIT", "kernel_of_halves") + listing("EXIT", "kernel")
    assert [instruction.opcode for instruction in parse(text, "kernel")] == ["EXIT"]
    assert len(parse(text, "kernel_of_halves")) == 2


@pytest.mark.parametrize("text", ["", listing("EXIT", "other")])
def test_a_kernel_that_is_not_there_is_an_error(text):
    with pytest.raises(CompileError, match="the disassembly has no kernel kernel"):
        parse(text, "kernel")
