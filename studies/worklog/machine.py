"""A GPU as it was measured (`tilewright info --measure`): a table, and the hierarchy of its memories as a figure."""

import math

from studies.templates import block
from tilewright.tools.machine.record import DRAM, L1, L2, REGISTERS, SHARED, Machine, MachineRow, binary_bytes
from tilewright.tools.report.figures.palette import owner_color
from tilewright.tools.report.figures.svg import FAINT, ON_LIGHT, SOFT, Drawing

_SHOWN = (REGISTERS, SHARED, L1, L2, DRAM)
"""Levels of the figure, from the arithmetic on."""
_OWNERS = {REGISTERS: "a thread's", SHARED: "a block's", L1: "a multiprocessor's", L2: "the GPU's", DRAM: "the GPU's"}
_WIDTH, _ROW, _BAR, _NAME = 868.0, 64.0, 400.0, 190.0


def table(machine: Machine) -> str:
    """Each level: latency, bandwidth of the GPU and of a multiprocessor, memory that was read."""
    return block("worklog/machine.md.j2", "machine", machine=machine, rows=machine.rows, size=binary_bytes)


def value(machine: Machine, level: str, what: str) -> str:
    """One number of a level, without its unit: `what` is a name of `MachineRow`, as 'latency_cycles' and 'gbs'.

    Raises:
        LookupError: nothing was measured of the level, or not this.
    """
    number = getattr(machine.row(level), what, None)
    if number is None:
        raise LookupError(f"{level} has no {what!r}: there is one of {', '.join(MachineRow._fields[1:])}")
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def figure(machine: Machine) -> str:
    """The levels below each other, as SVG: whose each is, how long a load takes, and a bar for its bandwidth."""
    drawing = Drawing()
    rows = [one for one in machine.rows if one.level in _SHOWN and one.gbs]
    most = max(one.gbs or 0 for one in rows)
    least = min(one.gbs or 0 for one in rows) / 3
    drawing.text(_NAME + 16, 14, "a load takes", 14, fill=SOFT)
    drawing.text(_WIDTH - _BAR, 14, "all multiprocessors read (from line to line: ten times)", 14, fill=SOFT)
    for power in range(math.ceil(math.log10(least)), math.floor(math.log10(most)) + 1):
        x = _WIDTH - _BAR + _BAR * math.log(10**power / least) / math.log(most / least)
        drawing.line(x, 24, x, 24 + _ROW * len(rows), FAINT)
    for number, one in enumerate(rows):
        y = 24 + number * _ROW
        drawing.rect(0, y + 4, _NAME, _ROW - 8, owner_color(number), radius=4)
        drawing.text(10, y + 28, one.level, 17, fill=ON_LIGHT, bold=True)
        drawing.text(10, y + 48, _OWNERS[one.level], 14, fill=ON_LIGHT)
        waits = f"{one.latency_cycles:.0f} cycles" if one.latency_cycles else "no wait"
        nanoseconds = f"{one.latency_ns:,.0f} ns" if one.latency_ns else "(operands of FMAs)"
        drawing.text(_NAME + 16, y + 28, waits, 17)
        drawing.text(_NAME + 16, y + 48, nanoseconds, 14, fill=SOFT)
        speed = one.gbs or least
        length = _BAR * math.log(speed / least) / math.log(most / least)
        drawing.rect(_WIDTH - _BAR, y + 8, length, 26, owner_color(number))
        drawing.text(_WIDTH - _BAR, y + 52, f"{speed:,.0f} GB/s, {one.bytes_per_clock:,.1f} bytes a clock each", 14)
    return drawing.render(f"Memories of {machine.environment['gpu']['name']}, measured")
