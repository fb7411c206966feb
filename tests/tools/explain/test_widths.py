"""How wide machine code accesses shared memory."""

from tilewright.emulator.symbols import SourceLine
from tilewright.kernels import find
from tilewright.kernels.support import Variant
from tilewright.tools.explain.instruction_mix import shared_widths
from tilewright.tools.explain.machine_code import machine_code
from tilewright.tools.explain.sass import Instruction

HERE, THERE = SourceLine("kernel.cu", 3), SourceLine("kernel.cu", 4)


def instruction(opcode, source):
    return Instruction(0, "", opcode, "", None, source)


def test_the_widest_of_each_line():
    code = [
        instruction("LDS.64", HERE),
        instruction("LDS", HERE),
        instruction("LDS.U.128", THERE),
        instruction("STS", THERE),
        instruction("LDG.E.128", HERE),
        instruction("STS.64", None),
    ]
    widths = shared_widths(code)
    assert widths[HERE] == {"global_load": {16: 1}, "shared_load": {8: 1, 4: 1}}
    assert widths[THERE] == {"shared_load": {16: 1}, "shared_store": {4: 1}}
    assert list(widths[None]["shared_load"]) == [16, 8, 4]
    assert list(widths[None]["shared_store"]) == [8, 4]


def test_a_loop_unrolled_by_two_merges_two_words():
    """Rung 5 unrolls the loop over k by two: of A, where k runs along the row, that makes 8 bytes; of B 16."""
    kernel = find("thread_tiled_2d")
    code = machine_code(kernel, kernel.config(), Variant(edges=False, aligned=False), "sm_90a")
    widths = shared_widths(code.instructions)
    lines = kernel.source.read_text().splitlines()
    by_array = {name: next(i for i, line in enumerate(lines, 1) if f"= {name}[" in line) for name in ("As", "Bs")}
    assert max(widths[SourceLine(kernel.source.name, by_array["As"])]["shared_load"]) == 8
    assert max(widths[SourceLine(kernel.source.name, by_array["Bs"])]["shared_load"]) == 16
