"""Terminal output of `tilewright explain`: the counters, occupancy and roofline of a launch."""

from collections.abc import Sequence

from rich.text import Text

from tilewright.tools.bench.profile import Profile
from tilewright.tools.explain.accuracy import error_in_order
from tilewright.tools.explain.cost.occupancy import Held, Occupancy
from tilewright.tools.explain.explanation import Explanation, Launched
from tilewright.tools.explain.launch_explanation import LaunchExplanation
from tilewright.tools.explain.roofline import ARITHMETIC, L1, L2, MEMORY, SHARED
from tilewright.tools.explain.scaling import Share
from tilewright.tools.explain.traffic import PIPES, Group
from tilewright.tools.report.fitted import Column, FittedTable

_STALLS = 6
"""Reasons why warps wait that a table shows."""
_LINES = 8
"""Source lines that a table shows."""
_LEVELS = {MEMORY: "DRAM, the least possible", L2: "L2, what L1 has not", L1: "L1, passes", SHARED: "shared memory"}

Explained = Explanation | LaunchExplanation


def heading(one: Explained) -> Text:
    """Kernel, config, problem and GPU, in a line or two; of a launch the kernel and the GPU."""
    blocks = (
        f"on one {one.gpu.name}: {one.waves.blocks:,} block{'s' * (one.waves.blocks != 1)} of {one.threads} threads"
    )
    if isinstance(one, LaunchExplanation):
        return Text.assemble((one.launch.name, "bold"), f" {blocks}")
    problem, (alpha, beta, _) = one.problem, one.scalars
    scalars = "" if alpha == 1 and beta == 0 else f", alpha {alpha:g}, beta {beta:g}"
    layout = "" if problem.layout == "NN" else f"{problem.layout} "
    return Text.assemble(
        (one.kernel.name, "bold"), f" {one.config}\n{problem.shape}, {layout}{problem.dtype}{scalars}, {blocks}"
    )


def traffic_table(explanation: Launched) -> FittedTable:
    """One row a kind of accesses: requests, and what they cost."""
    heads = ("", "requests", "sectors", "wavefronts", "a request", "conflicts")
    table = _table("What the threads ask of memory", heads)
    for kind, name in PIPES.items():
        if (group := explanation.traffic.profiled[kind]).requests:
            table.add_row(name, *_cells(group))
    return table


def lines_table(explanation: Launched) -> FittedTable:
    """The costliest lines of the source."""
    heads = ("", "", "requests", "sectors", "wavefronts", "conflicts")
    table = _table("The lines that cost most", heads, names=2)
    for line in explanation.traffic.lines[:_LINES]:
        if line.group.requests:
            place = f"{line.source.file}:{line.source.line}" if line.source else "?"
            requests, sectors, wavefronts, _, conflicts = _cells(line.group)
            table.add_row(place, PIPES[line.pipe], requests, sectors, wavefronts, conflicts)
    return table


def occupancy_table(one: Held) -> FittedTable:
    """Table of the needs of a block, and of how many blocks each resource of a multiprocessor allows."""
    held, sm = one.occupancy, one.gpu.multiprocessor
    spills = f", {one.report.spill_bytes} bytes spilled" if one.report.spill_bytes else ""
    resources = {
        "registers": (f"{one.report.registers} a thread{spills}", f"{sm.registers:,}"),
        "shared memory": (f"{one.shared_bytes:,} bytes", f"{sm.shared_bytes:,} bytes"),
        "threads": (f"{one.threads}", f"{sm.threads:,}"),
        "blocks": ("1", f"{sm.blocks}"),
    }
    table = _table("Occupancy of a multiprocessor", ("", "a block needs", "there is", "blocks that fit", ""))
    for name, blocks in held.limits.items():
        table.add_row(name, *resources[name], f"{blocks}", "binds" if name in held.limited_by else "")
    return table


def occupancy_words(explanation: Launched) -> str:
    """Occupancy, waves and tail."""
    waves, words = explanation.waves, warps_words(explanation.occupancy)
    if not waves.at_a_time:
        return words
    words += f"; {waves.number:.2f} waves of {waves.at_a_time:,} blocks"
    return words + (f", the last one {100 * waves.tail:.0f}% full" if waves.tail < 1 else "")


def warps_words(held: Occupancy) -> str:
    """Warps that a multiprocessor holds, of how many it could."""
    return f"{held.warps} of {held.most_warps} warps, {100 * held.fraction:.0f}%"


def roofline_table(one: Explained) -> FittedTable:
    """The least time of the arithmetic, of any kernel by the operations that were counted, and of each level of
    memory."""
    line, table = one.roofline, _table("Roofline: the least times", ("", "amount", "FLOP/byte", "at full speed", ""))
    if isinstance(one, LaunchExplanation):
        units, flops, issue = "float32", one.flops, None
    else:
        units, flops, issue = "tensor cores" if one.on_tensor_cores else "arithmetic", one.problem.flops, one.issue
    slowest = "binds" if one.binds == ARITHMETIC else ""
    if flops is not None:
        amount, mark = f"{flops / 1e9:,.3g} GFLOP", "" if issue else slowest
        table.add_row(f"{units}, {line.peak_tflops:.1f} TFLOP/s", amount, "", _time(line.arithmetic_us), mark)
    if issue:
        share = f"issue slots, {100 * issue.multiply_share:.0f}% multiply-adds"
        table.add_row(share, _count(issue.instructions), "", _time(issue.time_us), slowest)
    for level in line.levels:
        ratio = level.flops_per_byte
        intensity = f"{ratio:,.1f}" if ratio >= 1 else f"{ratio:.2g}" if ratio else ""
        slowest = "binds" if one.binds == level.name else ""
        table.add_row(_LEVELS[level.name], _bytes(level.bytes), intensity, _time(level.time_us), slowest)
    return table


def roofline_words(one: Explained) -> str:
    """Traffic against the least possible, and operations; of a product also caches, predicted error, and measured
    time."""
    words, counted, product = [], one.traffic.operations, isinstance(one, Explanation)
    if one.bytes.least:
        verb = "Requests and tensor maps move" if product and one.bytes.tiles else "Requests touch"
        words.append(f"{verb} {one.bytes.requested / one.bytes.least:,.1f} times the least possible bytes.")
    if isinstance(one, LaunchExplanation):
        if counted:
            words.append(
                f"Counted in float32: {_count(counted.ffma)} multiply-adds, {_count(counted.fmul)} multiplications, "
                f"{_count(counted.fadd)} additions."
            )
        return " ".join(words)
    if counted:
        useful = one.problem.m * one.problem.n * one.problem.k
        beyond = counted.ffma / useful if useful else 0
        more = f", {beyond:.2f} times what the product needs" if beyond > 1.005 else ""
        words.append(f"{_count(counted.ffma)} multiply-adds{more}.")
    if one.predicted and one.predicted.l2_bytes:
        words.append(_cache_words(one.bytes.requested, one.predicted.l2_bytes, one.predicted.dram_bytes))
    if one.error:
        usual = error_in_order(one.problem.k)
        words.append(f"On random operands it should err by {one.error:.1e}; float32 in order by {usual:.1e}.")
    if one.measured:
        took = _time(one.measured.time_us(one.problem))
        words.append(f"Measured: {took}, {one.measured.gflops:,.0f} GFLOP/s ({one.measured.source}).")
    return " ".join(words)


def _cache_words(requested: int, l2_bytes: float, dram_bytes: float) -> str:
    """Sentence on how much of the requested data each cache is expected to have."""
    of_l1 = 1 - min(l2_bytes / max(requested, 1), 1.0)
    of_l2 = 1 - min(dram_bytes / l2_bytes, 1.0)
    return f"The L1 cache should have {100 * of_l1:.0f}% of that, and the L2 cache {100 * of_l2:.0f}% of the rest."


def comparison_table(rows: Sequence[tuple[str, int | None, int | None]]) -> FittedTable:
    """Counters as explained and as Nsight Compute counts them: name, ours, theirs."""
    table = _table("Compared with Nsight Compute", ("", "explained", "Nsight Compute", "difference"))
    for name, ours, theirs in rows:
        if ours is not None and theirs is not None:
            table.add_row(name, f"{ours:,}", f"{theirs:,}", difference(ours, theirs))
    return table


def profile_table(one: Profile) -> FittedTable:
    """Table of the counters that only the profiler has: time, caches, memory, and what warps wait for."""
    table = _table("What only Nsight Compute sees", ("", "", "of the whole"))
    speeds = (
        ("time", one.time_us, "{:,.1f} us"),
        ("moved from and to DRAM", one.dram_bytes and one.dram_bytes / 1e6, "{:,.1f} MB"),
        ("speed of DRAM", one.dram_gbs, "{:,.0f} GB/s"),
        ("moved from and to L2", one.l2_bytes and one.l2_bytes / 1e6, "{:,.1f} MB"),
        ("data wavefronts of L1", one.wavefronts, "{:,.0f}"),
    )
    shares = {
        "loads that L1 had": one.l1_hits,
        "loads that L2 had": one.l2_hits,
        "cycles that issue": one.issuing,
        **{f"warps wait: {reason.replace('_', ' ')}": share for reason, share in list(one.stalls.items())[:_STALLS]},
    }
    for name, value, form in speeds:
        if value is not None:
            table.add_row(name, form.format(value), "")
    for name, share in shares.items():
        if share is not None:
            table.add_row(name, "", f"{share:.1%}")
    return table


def scaling_table(shares: Sequence[Share]) -> FittedTable:
    """Table of a product's times on several GPUs, by the cost model: a row for each scheme and number of GPUs."""
    heads = ("scheme", "GPUs", *(f"{name} us" for name in ("compute", "memory", "link", "network", "total")))
    columns = [Column(head, "left" if head == "scheme" else "right") for head in heads]
    more = Column("binds"), Column("speedup", "right"), Column("each GPU", "right")
    found = FittedTable(*columns, *more, title="A GPU's share, by the cost model", names=2)
    for one in shares:
        found.add_row(*scaling_cells(one))
    return found


def scaling_cells(one: Share) -> tuple[str, ...]:
    """The row of one scheme and number of GPUs, as text."""
    times = (one.compute_us, one.memory_us, one.link_us, one.network_us, one.us)
    return (
        one.scheme,
        str(one.devices),
        *(f"{us:,.0f}" for us in times),
        one.binds,
        f"{one.speedup:.2f}",
        f"{100 * one.efficiency:.0f}%",
    )


def difference(ours: int, theirs: int) -> str:
    """How far a count is off."""
    if ours == theirs:
        return "none"
    return f"{100 * (ours - theirs) / theirs:+.2f}%" if theirs else f"{ours - theirs:+,}"


def _cells(group: Group) -> tuple[str, ...]:
    return (
        _count(group.requests),
        _count(group.sectors) if group.sectors else "",
        _count(group.wavefronts) if group.wavefronts else "",
        f"{(group.sectors or group.wavefronts) / group.requests:.2f}" if group.requests else "",
        _count(group.bank_conflicts) if group.wavefronts else "",
    )


def _table(title: str, heads: Sequence[str], names: int = 1) -> FittedTable:
    """A table of words below empty headings, of what a block needs, and of numbers."""
    columns = [
        Column(head, "left" if head in ("", "a block needs") else "right", wraps="" if head else " ") for head in heads
    ]
    return FittedTable(*columns, title=title, names=names, most_gap=2)


def _count(number: int) -> str:
    """To the last unit up to a million, beyond that to four digits."""
    for unit, name in ((10**9, "G"), (10**6, "M")):
        if number >= unit:
            return f"{number / unit:,.{max(4 - len(str(number // unit)), 0)}f} {name}"
    return f"{number:,}"


def _time(microseconds: float) -> str:
    return f"{microseconds / 1e3:,.2f} ms" if microseconds >= 1e3 else f"{microseconds:.2f} us"


def _bytes(size: int) -> str:
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:,.3g} {name}"
    return f"{size} bytes"
