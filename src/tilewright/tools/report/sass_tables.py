"""Terminal output of `tilewright sass`: what a kernel's machine code is made of, and the code itself."""

from collections.abc import Iterable, Mapping, Sequence

from tilewright.tools.explain.instruction_mix import (
    GROUPS,
    MULTIPLY_ADD,
    TENSOR,
    Widths,
    access_widths,
    count,
    warpgroup_products,
)
from tilewright.tools.explain.machine_code import MachineCode
from tilewright.tools.explain.register_banks import bank_reads
from tilewright.tools.explain.sass import Instruction
from tilewright.tools.report.fitted import Column, FittedTable

_MOST_OPCODES = 5
"""Opcodes of a purpose that a row names."""

_ACCESS_NAMES = {
    "global_load": "global loads",
    "global_store": "global stores",
    "async_copy": "asynchronous copies",
    "shared_load": "shared loads",
    "shared_store": "shared stores",
    "matrix_load": "matrix loads from shared",
    "matrix_store": "matrix stores to shared",
    "generic_load": "generic loads",
    "generic_store": "generic stores",
    "local_load": "local loads",
    "local_store": "local stores",
}


def mix_table(code: MachineCode) -> FittedTable:
    """One row a purpose of instructions: how many there are in the kernel and in its main loop."""
    counted = ("kernel", "main loop", "of the loop") if code.main_loop else ("kernel",)
    table = FittedTable(
        Column("purpose", style="bold", wraps=" "),
        Column("opcodes", wraps=", "),
        *(Column(heading, "right") for heading in counted),
        title="Instructions",
    )
    whole, inside = count(code.instructions), count(code.main_loop)
    purposes = [purpose for purpose in GROUPS if purpose in whole]
    for purpose in purposes:
        numbers = [sum(counts.get(purpose, {}).values()) for counts in (whole, inside)]
        cells = _cells(code, *numbers)
        table.add_row(purpose, _opcodes(whole[purpose]), *cells, ends_section=purpose == purposes[-1])
    table.add_row("all", "", *_cells(code, len(code.instructions), len(code.main_loop)))
    return table


def widths_table(code: MachineCode) -> FittedTable:
    """One row a kind of loads and stores: how many there are of each width, in the kernel and in its main loop."""
    counted = ("kernel", "main loop") if code.main_loop else ("kernel",)
    table = FittedTable(
        Column("access", style="bold", wraps=" "),
        *(Column(heading, wraps=", ") for heading in counted),
        title="Loads and stores: number x bytes a thread",
    )
    whole, inside = access_widths(code.instructions), access_widths(code.main_loop)
    for kind, widths in whole.items():
        cells = [_times(widths)] + [_times(inside.get(kind, {}))] * bool(code.main_loop)
        table.add_row(_ACCESS_NAMES[kind], *cells)
    return table


def summary(code: MachineCode, dynamic_shared_bytes: int) -> str:
    """Sentences on the compiler's report and on the main loop."""
    report = code.report
    shared = (report.shared_bytes or 0) + dynamic_shared_bytes
    spilled = "" if report.spill_bytes is None else f"{report.spill_bytes} bytes spilled, "
    lines = [f"{report.registers} registers a thread, {spilled}{shared} bytes of shared memory"]
    if code.main_loop:
        first, last = code.main_loop[0].address, code.main_loop[-1].address
        name, share = multiply_share(code.main_loop)
        lines.append(f"main loop: {first:04x} to {last:04x}; {100 * share:.1f}% of its instructions are {name}")
        reads = bank_reads(code.main_loop)
        if reads.multiply_adds:
            lines.append(
                f"register banks deliver the operands of {reads.rate:.3f} FFMA a cycle: {reads.multiply_adds:,} take "
                f"{reads.cycles:,} cycles at least"
            )
        lines += _products(code.main_loop)
        lines += _widest(access_widths(code.main_loop))
    else:
        lines.append("no loop multiplies: there is no main loop")
    lines += [f"the compiler's remark: {remark}" for remark in code.remarks]
    return "\n".join(lines)


def multiply_share(loop: Sequence[Instruction]) -> tuple[str, float]:
    """Opcode that a loop multiplies with, FFMA or HMMA say, and its share of the loop's instructions, 0 to 1."""
    groups = count(loop)
    opcodes = groups.get(TENSOR) or groups.get(MULTIPLY_ADD) or {}
    return "/".join(opcodes), sum(opcodes.values()) / len(loop)


def listing(code: MachineCode) -> Iterable[str]:
    """The instructions, a line each: a bar next to those of the main loop, address, predicate, operation."""
    inside = {instruction.address for instruction in code.main_loop}
    for instruction in code.instructions:
        bar = "|" if instruction.address in inside else " "
        yield f"{bar} {instruction.address:04x} {instruction}"


def _products(loop: Sequence[Instruction]) -> list[str]:
    """A sentence on the products of warpgroups, where there are any."""
    instructions, groups, waits = warpgroup_products(loop)
    if not instructions:
        return []
    sentence = f"warpgroups: products {instructions}, groups of them {groups}, waits {len(waits)}"
    if 0 in waits:
        return [f"{sentence}; a wait for all lets the tensor cores rest until the next product is started"]
    return [f"{sentence}; a wait leaves up to {max(waits)} in flight" if waits else sentence]


def _widest(widths: Widths) -> list[str]:
    """A sentence on the widest loads and stores, and one on registers that live in memory."""
    named = [f"{_ACCESS_NAMES[kind]} of {max(counts)}" for kind, counts in widths.items() if "local" not in kind]
    lines = [f"widest there: {', '.join(named)} bytes"] if named else []
    if any("local" in kind for kind in widths):
        lines.append("it loads or stores local memory: spilled registers, or arrays that are indexed at run time")
    return lines


def _cells(code: MachineCode, whole: int, inside: int) -> list[str]:
    if not code.main_loop:
        return [f"{whole:,}"]
    return [
        f"{whole:,}",
        f"{inside:,}" if inside else "",
        f"{100 * inside / len(code.main_loop):.1f}%" if inside else "",
    ]


def _opcodes(counts: Mapping[str, int]) -> str:
    named = [f"{name} {number}" for name, number in list(counts.items())[:_MOST_OPCODES]]
    return ", ".join(named + ["..."] * (len(counts) > _MOST_OPCODES))


def _times(widths: Mapping[int, int]) -> str:
    """As in '64 x 16 B, 9 x 4 B'."""
    return ", ".join(f"{number:,} x {size} B" for size, number in widths.items())
