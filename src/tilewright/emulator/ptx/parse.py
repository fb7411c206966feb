"""Reads PTX: instructions, their operands, registers and labels (PTX ISA manual, "Syntax")."""

import re
from typing import NamedTuple

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(
    r"""\s*(?: (?P<parameter> %\d+ )
    | (?P<special> %%?[A-Za-z_]\w* (?:\.[xyzw])? )
    | (?P<number> -?(?:0[fF][0-9a-fA-F]{8} | 0[dD][0-9a-fA-F]{16} | 0[xX][0-9a-fA-F]+U?
        | \d+\.\d*(?:[eE][-+]?\d+)? | \d+U?) )
    | (?P<word> \.?[A-Za-z_$][\w$]* (?:(?:\.|::)[\w$]+)* )
    | (?P<sign> \S ) )""",
    re.VERBOSE,
)


class UnknownError(Exception):
    """An instruction, or a form of one, that is not known here; the message names it."""


class Numbered(NamedTuple):
    """%0, %1: an operand of the C++ statement."""

    number: int


class Name(NamedTuple):
    """A register of the PTX, or a label."""

    name: str


class Special(NamedTuple):
    """A register of the machine, as in %tid.x."""

    name: str


class NumberLiteral(NamedTuple):
    """A literal as PTX writes it."""

    text: str


class RegisterGroup(NamedTuple):
    """{a, b}, the registers of a vector."""

    parts: tuple["Operand", ...]


class Address(NamedTuple):
    """[base + offset], with the coordinates of a tile behind a comma."""

    base: "Operand"
    offset: int
    added: "tuple[Operand, ...]"
    """Operands of the C++ statement that are added too."""
    rest: "tuple[Operand, ...]"


class Pair(NamedTuple):
    """a|b, of a result and a predicate."""

    first: "Operand"
    second: "Operand"


class Not(NamedTuple):
    """!p."""

    of: "Operand"


Operand = Numbered | Name | Special | NumberLiteral | RegisterGroup | Address | Pair | Not


class PtxInstruction(NamedTuple):
    """One of them, or a label: `guard` says under which predicate it is carried out."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: Operand | None = None


class PtxProgram(NamedTuple):
    """A statement's template, parsed."""

    instructions: tuple[PtxInstruction, ...]
    """A label is an instruction with the opcode ':'."""
    registers: dict[str, str]
    """Registers that the template declares, with their types; blocks with equal names have different ones."""


def parse(template: str) -> PtxProgram:
    """Read the PTX of a statement.

    Raises:
        UnknownError: it is not understood.
    """
    return _Parser(template).program()


class _Parser:
    def __init__(self, template: str) -> None:
        text = _COMMENT.sub(" ", template).replace("%=", "")
        self.tokens = [(str(one.lastgroup), one[0].strip()) for one in _TOKEN.finditer(text) if one[0].strip()]
        self.position = 0
        self.scopes: list[dict[str, str]] = [{}]
        self.registers: dict[str, str] = {}
        self.instructions: list[PtxInstruction] = []

    def program(self) -> PtxProgram:
        while self.position < len(self.tokens):
            if self.accept("{"):
                self.scopes.append({})
            elif self.accept("}"):
                if len(self.scopes) == 1:
                    raise UnknownError("a brace closes that was not opened")
                self.scopes.pop()
            elif not self.accept(";"):
                self.instruction()
        return PtxProgram(tuple(self.instructions), self.registers)

    def instruction(self) -> None:
        guard: Operand | None = None
        if self.accept("@"):
            guard = self.operand()
        opcode = self.word()
        if guard is None and self.accept(":"):
            self.instructions.append(PtxInstruction(":", (Name(opcode),)))
            return
        if opcode == ".reg":
            self.declare()
            return
        if opcode.startswith("."):
            raise UnknownError(opcode)
        operands = []
        while not self.ends():
            operands.append(self.operand())
            if not self.accept(","):
                break
        if not self.ends():
            raise UnknownError(f"{opcode} with {self.tokens[self.position][1]} where its name or an operand ends")
        self.instructions.append(PtxInstruction(opcode, tuple(operands), guard))

    def declare(self) -> None:
        """Registers, behind `.reg`."""
        kind = self.word().lstrip(".").rpartition(".")[2]
        while True:
            name = self.next()[1].lstrip("%")
            names = [name]
            if self.accept("<"):
                count = self.next()[1]
                if not count.isdecimal() or not self.accept(">"):
                    raise UnknownError(".reg")
                names = [f"{name}{i}" for i in range(int(count))]
            for one in names:
                own = f"simt_ptx_{one.replace('$', '_')}_{len(self.registers)}"
                self.scopes[-1][one] = own
                self.registers[own] = kind
            if not self.accept(","):
                return

    def operand(self) -> Operand:
        if self.accept("!"):
            return Not(self.operand())
        if self.accept("{"):
            parts = self.list("}")
            return RegisterGroup(tuple(parts))
        if self.accept("["):
            return self.address()
        kind, text = self.next()
        one: Operand
        if kind == "parameter":
            one = Numbered(int(text[1:]))
        elif kind == "number":
            one = NumberLiteral(text)
        elif kind == "special":
            own = self.register(text.lstrip("%"))
            one = Special(text.lstrip("%")) if own is None else Name(own)
        elif kind == "word":
            one = Name(self.register(text) or text)
        else:
            raise UnknownError(f"{text!r} where an operand is expected")
        return Pair(one, self.operand()) if self.accept("|") else one

    def address(self) -> Address:
        base, offset, added = self.operand(), 0, list[Operand]()
        while self.position < len(self.tokens) and self.tokens[self.position][1] != "]":
            if self.accept(","):
                return Address(base, offset, tuple(added), tuple(self.list("]")))
            negative = self.accept("-")
            if not negative:
                self.accept("+")
            kind, text = self.next()
            if kind == "parameter" and not negative:
                added.append(Numbered(int(text[1:])))
                continue
            if kind != "number":
                raise UnknownError(f"{text!r} in an address")
            offset += (-1 if negative else 1) * int(text.rstrip("U"), 0)
        self.accept("]")
        return Address(base, offset, tuple(added), ())

    def list(self, end: str) -> list[Operand]:
        parts = []
        while not self.accept(end):
            parts.append(self.operand())
            self.accept(",")
        return parts

    def register(self, name: str) -> str | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def word(self) -> str:
        kind, text = self.next()
        if kind != "word":
            raise UnknownError(f"{text!r} where an instruction is expected")
        return text

    def next(self) -> tuple[str, str]:
        if self.position == len(self.tokens):
            raise UnknownError("its end is missing")
        self.position += 1
        return self.tokens[self.position - 1]

    def ends(self) -> bool:
        """Whether an instruction ends here, which may lack the last semicolon."""
        return self.position == len(self.tokens) or self.tokens[self.position][1] in (";", "}")

    def accept(self, text: str) -> bool:
        found = self.position < len(self.tokens) and self.tokens[self.position][1] == text
        self.position += found
        return found
