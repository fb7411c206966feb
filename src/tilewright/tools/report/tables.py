"""Terminal tables: the ladder, and the records of a bench run."""

from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from tilewright.kernels.kernel import Kernel
from tilewright.tools.bench.records import Record
from tilewright.tools.machine.record import Machine, binary_bytes
from tilewright.tools.report.fitted import Column, FittedTable
from tilewright.tools.report.ratios import share, speed


def ladder_table(kernels: Iterable[Kernel]) -> FittedTable:
    """One row a rung: its idea, its parameters with their defaults, its presets."""
    idea = Column("idea, parameters with their defaults", wraps=" ")
    table = FittedTable(Column("rung", "right"), Column("kernel", style="bold"), idea, names=2)
    for kernel in kernels:
        defaults = ", ".join(f"{parameter.name}={parameter.default}" for parameter in kernel.parameters)
        presets = f"\npresets: {', '.join(kernel.presets)}" if kernel.presets else ""
        about = Text.assemble(f"{kernel.idea}\n{defaults}", (presets, "dim"))
        table.add_row(str(kernel.rung or ""), kernel.name, about)
    return table


def kernel_table(kernel: Kernel) -> FittedTable:
    """One row a parameter of a kernel: default, meaning, values that a search tries."""
    number = f"{kernel.rung}. " if kernel.rung else ""
    table = FittedTable(
        Column("parameter"),
        Column("default", "right"),
        Column("meaning", wraps=" "),
        Column("values tried", wraps=" "),
        title=f"{number}{kernel.name}: {kernel.idea}",
    )
    for parameter in kernel.parameters:
        values = " ".join(map(str, parameter.values))
        table.add_row(parameter.name, str(parameter.default), parameter.meaning, values)
    return table


def info_table(facts: Mapping[str, str]) -> Table:
    """Two columns: what, and what it is."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, Text(value))
    return table


def machine_table(machine: Machine) -> FittedTable:
    """One row a level of a GPU: latency, bandwidth, and how much memory was read."""
    table = FittedTable(
        Column("level", style="bold", wraps=" "),
        *(Column(heading, "right") for heading in ("cycles", "ns", "GB/s", "bytes/clock/SM", "read")),
        title=f"{machine.environment['gpu']['name']}, {machine.clock_mhz:,.0f} MHz while it computes",
        caption="cycles, ns: latency. SM: multiprocessor. read: memory that is read. registers: operands of FMAs, 12 "
        "bytes each, from the rate of FMAs.",
    )
    for level, cycles, ns, gbs, bytes_per_clock, size in machine.rows:
        table.add_row(
            level,
            *("" if one is None else f"{one:,.1f}" for one in (cycles, ns)),
            "" if gbs is None else f"{gbs:,.0f}",
            "" if bytes_per_clock is None else f"{bytes_per_clock:,.1f}",
            binary_bytes(size) if size else "",
        )
    return table


def bench_table(records: Sequence[Record]) -> FittedTable:
    """One row a record, all of one problem, and a last one for the baseline."""
    first = records[0]
    real = first.engine != "emulator"
    baselines = {record.baseline.name: record.baseline for record in records if record.baseline}
    name_of_baseline = next(iter(baselines)) if len(baselines) == 1 else "baseline"
    table = FittedTable(
        Column("rung", "right"),
        Column("kernel", style="bold", wraps=" "),
        Column("config", wraps=" "),
        Column("error", "right"),
        Column("time" if real else "emulator time", "right"),
        *[Column("GFLOP/s", "right")] * real,
        *[Column(f"of {name_of_baseline}", "right", wraps=" ")] * (real and bool(baselines)),
        title=f"{first.shape}, {first.case.removeprefix('NN ')}",
        caption=_caption(records),
        names=2,
    )
    for record in records:
        took, rung = duration(record.time_us.median), str(record.rung or "")
        speeds = [speed(record.gflops), *[_ratio(record, named=len(baselines) > 1)] * bool(baselines)] if real else []
        table.add_row(rung, record.title, pairs(record.config), _verdict(record), took, *speeds)
    for baseline in baselines.values():
        error = f"{baseline.error:.1e}" if baseline.error is not None else ""
        cells = [baseline.name, f"version {baseline.version}", error, duration(baseline.time_us.median)]
        table.add_row("", *cells, *[speed(baseline.gflops), "100.0%"] * real, style="cyan")
    return table


def baseline_kernels_table(records: Sequence[Record]) -> FittedTable | None:
    """One row a kernel that a baseline of these records launched; None where none is known."""
    baselines = {record.baseline.name: record.baseline for record in records if record.baseline}
    if not any(baseline.kernels for baseline in baselines.values()):
        return None
    table = FittedTable(
        Column("baseline", style="cyan"),
        Column("kernel that it runs", wraps=" "),
        Column("grid", "right"),
        Column("block", "right"),
    )
    for baseline in baselines.values():
        for number, kernel in enumerate(baseline.kernels or ()):
            sizes = ("x".join(map(str, extent)) for extent in (kernel.grid, kernel.block))
            table.add_row("" if number else baseline.name, Text(kernel.name), *sizes)
    return table


def _caption(records: Sequence[Record]) -> str:
    common = min(record.error.limit for record in records)
    others = {record.kernel: record.error.limit for record in records if record.error.limit > common}
    verified = f"error: relative Frobenius norm against float64; right up to {common:.1e}"
    verified += "".join(f", of {kernel} up to {limit:.1e}" for kernel, limit in others.items())
    if records[0].engine == "emulator":
        return f"{verified}.\nEmulator times are how long this CPU took to imitate a GPU. They are not GPU times."
    return verified


def _ratio(record: Record, named: bool) -> str:
    """The share of the baseline's speed; with the baseline's name where a table has several."""
    text = share(record)
    return f"{text} ({record.baseline.name})" if text and named and record.baseline else text


def _verdict(record: Record) -> Text:
    return Text(f"{record.error} ok", "green") if record.verified else Text(f"{record.error} WRONG", "bold red")


def pairs(config: Mapping[str, int]) -> str:
    """A config in words, as in 'BM=64 BN=64'."""
    return " ".join(f"{name}={value}" for name, value in config.items())


def duration(microseconds: float) -> str:
    """A time in the unit that suits it, as in '2.50 ms'."""
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.2f} s"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.2f} ms"
    return f"{microseconds:.2f} us"
