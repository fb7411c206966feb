"""How long multiply-adds take to read their operands."""

import pytest
from listings import listing

from tilewright.core.problem import Problem
from tilewright.kernels import find
from tilewright.tools.explain.control_flow import main_loop
from tilewright.tools.explain.machine_code import machine_code
from tilewright.tools.explain.register_banks import BankReads, bank_reads
from tilewright.tools.explain.sass import parse


def reads(text):
    return bank_reads(parse(listing(text), "kernel"))


@pytest.mark.parametrize(
    ("operands", "cycles"),
    [
        ("R1, R2, R3, R1", 2),  # two odd ones
        ("R2, R2, R4, R6", 3),
        ("R0, R2, R2, R3", 1),  # read once
        ("R0, -R2, |R3|, R0", 2),
        ("R0, RZ, R3, R0", 1),
        ("R0, R2, c[0x0][0x10], R3", 1),
        ("R0, R2, UR4, R4", 2),
        ("R0, RZ, RZ, RZ", 1),
    ],
)
def test_each_bank_delivers_one_register_a_cycle(operands, cycles):
    assert reads(f"FFMA {operands}") == BankReads(1, cycles)


def test_an_operand_is_kept_for_the_next_multiply_add_in_the_same_place():
    assert reads("FFMA R8, R2.reuse, R4, R8\nFFMA R9, R2, R5, R8").cycles == 3 + 1
    assert reads("FFMA R8, R2.reuse, R4, R8\nFFMA R9, R5, R2, R8").cycles == 3 + 2
    assert reads("FFMA R8, R2, R4, R8\nFFMA R9, R2, R5, R8").cycles == 3 + 2
    assert reads("FFMA R8, R2.reuse, R4, R8\nLDS.128 R12, [R1]\nFFMA R9, R2, R5, R8").cycles == 3 + 1
    assert reads("FFMA R8, R2.reuse, R4, R8\nFFMA R0, R3, R5, R9\nFFMA R9, R2, R5, R8").cycles == 3 + 3 + 2


def test_other_instructions_and_those_never_executed_do_not_count():
    found = reads("FADD R1, R3, R5\n@!PT FFMA R1, R3, R5, R7\nMOV R1, R2")
    assert found == BankReads(0, 0)
    assert found.rate == 1


@pytest.mark.further
def test_rungs_that_multiply_in_serpentine_find_free_banks():
    """Products in another order took a third more cycles than multiply-adds."""
    kernel = find("tma_transposed")
    config = kernel.config()
    code = machine_code(kernel, config, kernel.variant(Problem(4096, 4096, 4096), config), "sm_90a")
    found = bank_reads(main_loop(code.instructions))
    assert found.multiply_adds == config.TM * config.TN * config.UNROLL
    assert 0.9 < found.rate < 1
