"""Loops of machine code."""

import pytest
from listings import listing

from tilewright.tools.explain.control_flow import loops, main_loop
from tilewright.tools.explain.sass import parse


def read(text):
    return parse(listing(text), "kernel")


def found(text):
    """For each loop the indices of its instructions."""
    return [loop.instructions for loop in loops(read(text))]


STRAIGHT = "LDC R1\n@P0 BRA `(.end)\nFFMA R0, R1, R2, R3\n.end:\nEXIT"

NESTED = """
    LDC R1
    .outer:
    FADD R0, R1, R2
    .inner:
    FFMA R0, R1, R2, R3
    FFMA R4, R1, R2, R4
    @P0 BRA `(.inner)
    FFMA R0, R0, R2, R3
    BAR.SYNC 0x0
    @P1 BRA `(.outer)
    EXIT
"""

# A wait that fails goes behind the end of the kernel, tries again there, and comes back into the loop.
SPIN_BEHIND = """
    LDC R1
    .loop:
    SYNCS.PHASECHK P0
    @!P0 BRA `(.spin)
    .back:
    FFMA R0, R1, R2, R3
    @P1 BRA `(.loop)
    FFMA R0, R1, R2, R3
    FFMA R0, R1, R2, R3
    EXIT
    .spin:
    SYNCS.PHASECHK P0
    @!P0 BRA `(.spin)
    BRA `(.back)
"""


def test_code_without_loops():
    assert found(STRAIGHT) == []
    assert main_loop(read(STRAIGHT)) == ()


def test_a_branch_forward_inside_a_loop_is_no_loop():
    assert found("LDC R1\n.a:\n@P0 BRA `(.b)\nLDG R1\n.b:\nFFMA R0\n@P1 BRA `(.a)\nEXIT") == [(1, 2, 3, 4)]


def test_nested_loops_and_what_is_their_own():
    outer, inner = loops(read(NESTED))
    assert outer.instructions == tuple(range(1, 8))
    assert outer.own == (1, 5, 6, 7)
    assert inner.instructions == inner.own == (2, 3, 4)


def test_the_main_loop_is_the_one_with_most_multiply_adds_of_its_own():
    assert [instruction.address for instruction in main_loop(read(NESTED))] == [0x20, 0x30, 0x40]


def test_a_short_loop_that_waits_is_part_of_the_main_loop():
    text = NESTED.replace("@P0 BRA `(.inner)", "NOP").replace("BAR.SYNC 0x0", ".wait:\n@P2 BRA `(.wait)")
    assert [instruction.address // 16 for instruction in main_loop(read(text))] == list(range(1, 8))


def test_tensor_cores_outweigh_multiply_adds():
    text = ".a:\nHMMA.16816.F32 R0\n@P0 BRA `(.a)\n.b:\nFFMA R0\nFFMA R0\n@P0 BRA `(.b)\nEXIT"
    assert [instruction.name for instruction in main_loop(read(text))] == ["HMMA", "BRA"]


def test_code_moved_behind_the_end_belongs_to_its_loop():
    """The branch back from there goes backward, but the loop does not begin where it leads to."""
    assert found(SPIN_BEHIND) == [(1, 2, 3, 4, 8, 9, 10), (8, 9)]


def test_a_kernel_that_is_one_loop():
    assert found(".a:\nFFMA R0\nBRA `(.a)\nNOP\nEXIT") == [(0, 1)]


@pytest.mark.parametrize("branch", ["@P0 BRA `(.a)", "BRA P0, `(.a)", "BRA.U UP0, `(.a)", "BRA.DIV UR4, `(.a)"])
def test_conditional_branches_go_both_ways(branch):
    assert found(f".a:\nFFMA R0\n{branch}\n.b:\nFADD R0\n@P1 BRA `(.b)\nEXIT") == [(0, 1), (2, 3)]


@pytest.mark.parametrize("end", ["EXIT", "RET.REL.NODEC R2", "BRA `(.c)"])
def test_nothing_follows_an_end(end):
    assert found(f".a:\nFFMA R0\n{end}\n.b:\nFADD R0\n@P1 BRA `(.a)\n.c:\nEXIT") == []


@pytest.mark.parametrize("end", ["@P0 EXIT", "EXIT P1"])
def test_a_conditional_exit_goes_on(end):
    assert found(f".a:\nFFMA R0\n{end}\n@P1 BRA `(.a)\nEXIT") == [(0, 1, 2)]
