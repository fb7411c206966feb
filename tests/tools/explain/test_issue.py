"""Issue slots: what comes with the multiply-adds."""

import pytest

from tilewright.core.gpus import gpu_named
from tilewright.emulator.counting import Operations
from tilewright.runtime.executable import CompileReport
from tilewright.tools.explain.control_flow import main_loop
from tilewright.tools.explain.demand import issue
from tilewright.tools.explain.machine_code import MachineCode
from tilewright.tools.explain.sass import Instruction

H200, B200 = gpu_named("H200"), gpu_named("B200")
OPERATIONS = Operations(ffma=32 * 8_000_000, fmul=0, fadd=0)


def code(*opcodes):
    """A loop of these instructions."""
    names = [*opcodes, "BRA", "EXIT"]
    last = 16 * len(opcodes)
    instructions = [
        Instruction(16 * index, "@P0" if name == "BRA" else "", name, "", 0 if name == "BRA" else None, None)
        for index, name in enumerate(names)
    ]
    assert instructions[-2].address == last
    return MachineCode(tuple(instructions), main_loop(instructions), CompileReport(32, 0, 0))


def test_other_instructions_take_slots_too():
    found = issue(code("FFMA", "LDS.128", "FFMA"), OPERATIONS, H200)
    assert found.multiply_share == 0.5
    assert found.instructions == 16_000_000
    assert found.time_us == pytest.approx(16e6 / (4 * 132 * 1980))


def test_pairs_are_two_multiply_adds():
    found = issue(code("FFMA2", "FFMA2", "FFMA2"), OPERATIONS, B200)
    assert found.instructions == round(OPERATIONS.ffma / 32 * 4 / 6)


def test_without_multiply_adds_nothing_is_known():
    assert issue(code("HMMA.16816.F32", "LDS"), None, H200) is None
    assert issue(code("IADD3", "LDS"), OPERATIONS, H200) is None
