"""Register banks: how many cycles the fp32 multiply-adds of some code need to read their operands.

Registers lie on two banks, even numbers on one and odd numbers on the other, and each bank delivers one register, of
all 32 lanes, a cycle. An operand marked `.reuse` stays at hand for the next multiply-add of the warp, in the same place
among its operands. So three operands that are all to be read take two cycles at least, three if they share a bank.

Source: "Analyzing Modern NVIDIA GPU cores", Huerta et al., 2025, section 5.3, measured on Ampere. On an H200 a form of
split_k with conflicts in half of its multiply-adds took a tenth longer than one with few, at 2047x2047x128. Few matter
little where a scheduler has four warps to choose from: tma_packed with its multiply-adds so ordered that a third of its
conflicts was left (1 in 40) took as long, within 0.5%.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from tilewright.tools.explain.sass import Instruction

_MULTIPLY_ADD = "FFMA"
_OPERAND = re.compile(r"[-|~]*R(\d+)(?:\.\w+)*?(\.reuse)?[|]?$")


class BankReads(NamedTuple):
    """Cycles that some code's multiply-adds need of the register banks."""

    multiply_adds: int
    """FFMA instructions."""
    cycles: int
    """Cycles that they take a scheduler at least, if nothing else is issued."""

    @property
    def rate(self) -> float:
        """Multiply-adds a cycle at most, 0 to 1; 1 where there are none."""
        return self.multiply_adds / self.cycles if self.cycles else 1.0


def bank_reads(code: Iterable[Instruction]) -> BankReads:
    """Count the cycles that operands take, as if the code ran from its first instruction to its last."""
    multiply_adds = cycles = 0
    kept: dict[int, int] = {}  # registers at hand, by their place among the operands
    for instruction in code:
        if instruction.name != _MULTIPLY_ADD or not instruction.executed:
            continue
        sources = _sources(instruction)
        read = {register for place, register, _ in sources if kept.get(place) != register}
        even = sum(register % 2 == 0 for register in read)
        multiply_adds += 1
        cycles += max(even, len(read) - even, 1)
        kept = {place: register for place, register, reused in sources if reused}
    return BankReads(multiply_adds, cycles)


def _sources(instruction: Instruction) -> list[tuple[int, int, bool]]:
    """Operands that are registers: their place, their number and whether they are kept. RZ lies on no bank."""
    found = []
    for place, operand in enumerate(instruction.operands.split(", ")[1:]):
        register = _OPERAND.fullmatch(operand)
        if register:
            found.append((place, int(register[1]), register[2] is not None))
    return found
