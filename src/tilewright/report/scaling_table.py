"""The terminal table of what a product takes on several GPUs, by the cost model."""

from collections.abc import Sequence

from tilewright.analysis.scaling import Share
from tilewright.report.fitted import Column, FittedTable


def terminal(shares: Sequence[Share]) -> FittedTable:
    """A row for each scheme and number of GPUs."""
    heads = ("scheme", "GPUs", *(f"{name} us" for name in ("compute", "memory", "link", "network", "total")))
    columns = [Column(head, "left" if head == "scheme" else "right") for head in heads]
    more = Column("binds"), Column("speedup", "right"), Column("each GPU", "right")
    found = FittedTable(*columns, *more, title="A GPU's share, by the cost model", names=2)
    for one in shares:
        found.add_row(*cells(one))
    return found


def cells(one: Share) -> tuple[str, ...]:
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
