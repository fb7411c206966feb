"""SASS, the machine code of NVIDIA's GPUs, read from the text of nvdisasm: instructions, and where they branch to.

What instructions do: "CUDA Binary Utilities", Instruction Set Reference.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from tilewright.core.errors import CompileError
from tilewright.emulator.symbols import SourceLine

_SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s]+)")
_LABEL = re.compile(r"([.$\w]+):\s*$")
_LINE = re.compile(r'\s*//## File "(.*?)", line (\d+)')
_INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P[T\d]+)\s+)?([A-Z][\w.]*)\s*([^;]*?)\s*;")
_TARGET = re.compile(r"`\((.+?)\)")


@dataclass(frozen=True)
class Instruction:
    """One instruction of a kernel."""

    address: int
    """Bytes from the kernel's first instruction."""
    predicate: str
    """Predicate that it is executed under, as '@P0' or '@!UP1'; empty where always."""
    opcode: str
    """With its modifiers, as 'LDG.E.128'."""
    operands: str
    """As the disassembler writes them; a label is replaced by its address, of four hexadecimal digits or more."""
    target: int | None
    """Address that the operands name: of a branch, a call, or the point where a divergent warp converges."""
    source: SourceLine | None
    """Innermost source line that it comes from, as inlined functions have it; None where that is not known."""

    @property
    def name(self) -> str:
        """The opcode without its modifiers, as 'LDG'."""
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """Words behind the opcode's name, as ('E', '128')."""
        return tuple(self.opcode.split(".")[1:])

    @property
    def executed(self) -> bool:
        """Whether it ever does anything: before asynchronous copies the compiler puts loads with a false predicate."""
        return self.predicate not in ("@!PT", "@!UPT")

    def __str__(self) -> str:
        return f"{self.predicate:>5} {self.opcode} {self.operands}".rstrip()


def parse(text: str, entry: str) -> list[Instruction]:
    """The instructions of one kernel, in the order of their addresses.

    What fills the code up behind its end, a branch to itself and NOPs, is left out.

    Args:
        text: from `machine_code_tools.disassemble`.
        entry: name of the kernel.

    Raises:
        CompileError: the text has no such kernel.
    """
    labels: dict[str, int] = {}
    waiting: list[str] = []  # labels whose instruction has not arrived yet
    rows: list[tuple[int, str, str, str, SourceLine | None]] = []
    source: SourceLine | None = None
    for line in _section(text, entry):
        if instruction := _INSTRUCTION.match(line):
            address = int(instruction[1], 16)
            labels |= dict.fromkeys(waiting, address)
            waiting.clear()
            rows.append((address, instruction[2] or "", instruction[3], instruction[4], source))
        elif label := _LABEL.match(line):
            waiting.append(label[1])
        elif place := _LINE.match(line):
            source = SourceLine(PurePath(place[1]).name, int(place[2]))
    if not rows:
        raise CompileError(f"the disassembly has no kernel {entry}")
    return _without_filling([_instruction(row, labels) for row in rows])


def _section(text: str, entry: str) -> Iterator[str]:
    """The lines of the section that holds a kernel's code."""
    inside = False
    for line in text.splitlines():
        if section := _SECTION.match(line):
            inside = section[1] == entry
        elif line.startswith("//-----"):
            inside = False
        elif inside:
            yield line


def _instruction(row: tuple[int, str, str, str, SourceLine | None], labels: dict[str, int]) -> Instruction:
    address, predicate, opcode, operands, source = row
    named = _TARGET.search(operands)
    target = labels.get(named[1]) if named else None
    if named and target is not None:
        operands = operands.replace(named[0], f"{target:04x}")
    return Instruction(address, predicate, opcode, operands, target, source)


def _without_filling(code: list[Instruction]) -> list[Instruction]:
    end = len(code)
    while end and code[end - 1].name == "NOP":
        end -= 1
    if end and code[end - 1].name == "BRA" and code[end - 1].target == code[end - 1].address:
        end -= 1
    return code[:end]
