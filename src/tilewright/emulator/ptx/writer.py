"""Writes C++ for one PTX instruction: what the instructions' own modules have in common."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tilewright.emulator.ptx.parse import (
    Address,
    Name,
    Not,
    Numbered,
    NumberLiteral,
    Operand,
    PtxInstruction,
    RegisterGroup,
    Special,
    UnknownError,
)

TYPES = {
    "pred": "bool",
    **dict.fromkeys(("b8", "u8"), "unsigned char"),
    "s8": "signed char",
    **dict.fromkeys(("b16", "u16"), "unsigned short"),
    "s16": "short",
    **dict.fromkeys(("b32", "u32"), "unsigned"),
    "s32": "int",
    **dict.fromkeys(("b64", "u64"), "unsigned long long"),
    "s64": "long long",
    "f32": "float",
    "f64": "double",
    "f16": "__half",
    "f16x2": "__half2",
    "bf16": "__nv_bfloat16",
    "bf16x2": "__nv_bfloat162",
}
"""In C++, by their names in PTX."""

_INTEGERS = {held for name, held in TYPES.items() if name[0] in "bus" and name[1:].isdigit()}

POINTER = "void*"
"""An address in shared memory that a source has as a pointer."""

_LETTERS = {
    **{"r": "unsigned", "l": "unsigned long long", "h": "unsigned short"},
    **{"f": "float", "d": "double", "n": "long long"},
}
HELD = {**_LETTERS, **{letter.upper(): held for letter, held in _LETTERS.items()}, "P": POINTER}
"""Inputs in C++, by their letters. Headers of ours have capitals: their inputs are numbers and pointers, for which a
cast compiles in less time than a function that also knows a source's own types."""

SPECIAL = {
    **{
        f"{name}.{axis}": f"{whole}.{axis}"
        for name, whole in (("tid", "threadIdx"), ("ntid", "blockDim"), ("ctaid", "blockIdx"), ("nctaid", "gridDim"))
        for axis in "xyz"
    },
    "laneid": "simt_thread()->lane",
    "warpid": "simt::ptx::warp()",
    "nwarpid": "(simt::ptx::block_threads() + 31) / 32",
    "lanemask_eq": "(1u << simt_thread()->lane)",
    "lanemask_lt": "((1u << simt_thread()->lane) - 1)",
    "lanemask_le": "((2u << simt_thread()->lane) - 1)",
    "lanemask_gt": "~((2u << simt_thread()->lane) - 1)",
    "lanemask_ge": "~((1u << simt_thread()->lane) - 1)",
    "cluster_ctarank": "simt_thread()->block->rank",
    "clock": "unsigned(clock())",
    "clock64": "clock64()",
    "globaltimer": "clock64()",
}
"""Registers of the machine, in C++."""


@dataclass
class Writer:
    """An instruction whose C++ is being written."""

    instruction: PtxInstruction
    modifiers: list[str]
    """The parts of its name that nobody has understood so far."""
    held: Sequence[str | None]
    """C++ types of the statement's inputs, as `HELD` has them; None for outputs."""
    kinds: Mapping[str, str]
    """Types of the registers that the statement declares."""
    by_place: set[int]
    """Inputs of the statement that are needed where they lie, to be added to."""
    operands: tuple[Operand, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.operands = self.instruction.operands

    def call(self, operation: str) -> str:
        """The runtime's operation that it is, and where it is called."""
        return f'SIMT_PTX_CALL({operation}, "{self.instruction.opcode}")'

    @property
    def of_ours(self) -> bool:
        """Whether it is in a function of a header of ours, which only such have pointers to shared memory for."""
        return POINTER in self.held

    def unknown(self, what: str = "") -> UnknownError:
        """For a form of the instruction that is not there."""
        return UnknownError(f"{self.instruction.opcode}{what and f' {what}'}")

    def take(self, *names: str) -> str:
        """The modifier that the instruction has of these, or ''."""
        found = next((one for one in self.modifiers if one in names), "")
        if found:
            self.modifiers.remove(found)
        return found

    def ignore(self, *names: str) -> None:
        """Modifiers that change nothing here."""
        self.modifiers = [one for one in self.modifiers if one not in names and not one.startswith("L1::")]

    def types(self) -> list[str]:
        """Types of the instruction, in their order."""
        found = [one for one in self.modifiers if one in TYPES]
        self.modifiers = [one for one in self.modifiers if one not in TYPES]
        return found

    def done(self, least: int, most: int = 0) -> None:
        """Raise UnknownError unless all modifiers are understood, and there are this many operands."""
        if self.modifiers:
            raise self.unknown(f"(its .{self.modifiers[0]})")
        if not least <= len(self.operands) <= max(least, most):
            raise self.unknown(f"with {len(self.operands)} operands")

    def value(self, operand: Operand, kind: str = "u32") -> str:
        """An operand's value as this type."""
        of = TYPES[kind]
        if isinstance(operand, Not):
            return f"!{self.value(operand.of, 'pred')}"
        if isinstance(operand, NumberLiteral):
            return _number(operand.text, of)
        if isinstance(operand, Special):
            if operand.name not in SPECIAL:
                raise UnknownError(f"%{operand.name}")
            return f"static_cast<{of}>({SPECIAL[operand.name]})"
        name = self.register(operand)
        held = self.held[operand.number] if isinstance(operand, Numbered) else None
        if held == POINTER:
            return f"simt_shared_address(simt_thread(), {name})"
        if held == of:
            return name
        return f"static_cast<{of}>({name})" if {held, of} <= _INTEGERS else f"simt::ptx::get<{of}>({name})"

    def register(self, operand: Operand) -> str:
        """The C++ variable that is a register."""
        if isinstance(operand, Numbered):
            if operand.number >= len(self.held):
                raise self.unknown(f"with %{operand.number}, which the statement has not")
            return f"simt_ptx_{operand.number}"
        if isinstance(operand, Name) and operand.name.startswith("simt_ptx_"):
            return operand.name
        raise self.unknown(f"with {operand.name if isinstance(operand, Name) else 'an operand'} that is no register")

    def put(self, operand: Operand, value: str) -> str:
        """An assignment."""
        if isinstance(operand, Name) and operand.name == "_":
            return f"(void)({value});"
        if isinstance(operand, Numbered) and self.held[operand.number : operand.number + 1] != [None]:
            raise self.unknown(f"that writes %{operand.number}, which is no output")
        return f"simt::ptx::set({self.register(operand)}, {value});"

    def parts(self, operand: Operand, count: int = 0) -> tuple[Operand, ...]:
        """The registers of a vector, of which there are this many if that is not 0."""
        parts = operand.parts if isinstance(operand, RegisterGroup) else (operand,)
        if count and len(parts) != count:
            raise self.unknown(f"with {len(parts)} registers where it takes {count}")
        return parts

    def address(self, operand: Operand) -> Address:
        """An operand in brackets."""
        if not isinstance(operand, Address):
            raise self.unknown("with no address in brackets")
        return operand

    def generic(self, operand: Operand) -> str:
        """A pointer to global memory, or a generic one."""
        return f"simt::ptx::at({self._sum(operand, 'u64')})"

    def shared(self, operand: Operand) -> str:
        """A pointer to shared memory."""
        if self.is_pointer(operand):
            return self.register(self.address(operand).base)
        return f"simt_at_shared(simt_thread(), {self.call('shared_memory')}, {self.shared_number(operand)})"

    def barrier(self, operand: Operand) -> str:
        """C++ for a pointer to a barrier in shared memory."""
        return f"simt::ptx::as_barrier({self.shared(operand)})"

    def is_pointer(self, operand: Operand) -> bool:
        """Whether an address is known as a pointer to shared memory."""
        address = self.address(operand)
        numbered = isinstance(address.base, Numbered) and self.held[address.base.number] == POINTER
        return numbered and not (address.offset or address.added)

    def shared_number(self, operand: Operand) -> str:
        """An address in shared memory, of 32 bits."""
        return self._sum(operand, "u32")

    def _sum(self, operand: Operand, kind: str) -> str:
        """An address as a number of this type."""
        address = self.address(operand)
        numbers = [self.value(one, kind) for one in (address.base, *address.added)]
        return " + ".join([*numbers, *([str(address.offset)] if address.offset else [])])


Handler = Callable[[Writer], str]

HANDLERS: dict[str, Handler] = {}
"""Functions that write an instruction, by the beginning of its name."""


def instruction(*names: str) -> Callable[[Handler], Handler]:
    """Enter a function that writes the C++ of instructions."""

    def enter(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return enter


class _Given(NamedTuple):
    """An operand in a text: as `{0}` its value, as `{0:barrier}` a pointer to one."""

    writer: Writer
    operand: Operand

    def __format__(self, kind: str) -> str:
        return self.writer.barrier(self.operand) if kind == "barrier" else self.writer.value(self.operand)


class _Called(NamedTuple):
    """`{call:barrier_init}` in a text."""

    writer: Writer

    def __format__(self, operation: str) -> str:
        return self.writer.call(operation)


def call(name: str, operands: int, text: str, *ignored: str) -> None:
    """Enter an instruction that has one form.

    Args:
        name: the beginning of its name.
        operands: how many it has.
        text: its C++, in which `{0}` is the first operand, and `{call:barrier_init}` an operation of the runtime's.
        ignored: modifiers that change nothing.
    """

    def write(w: Writer) -> str:
        if ignored:
            w.ignore(*ignored)
        w.done(operands)
        return text.format(*(_Given(w, one) for one in w.operands), call=_Called(w))

    HANDLERS[name] = write


def _number(text: str, of: str) -> str:
    digits = text.rstrip("U")
    if text[:2].lower() in ("0f", "0d"):
        host, bits = ("simt::HostFloat", f"0x{text[2:]}u") if text[1] in "fF" else ("double", f"0x{text[2:]}ull")
        return f"simt::ptx::get<{of}>(simt::bit_cast<{host}>({bits}))"
    return f"{of}({digits})" if " " not in of else f"static_cast<{of}>({digits})"
