"""Tables and figures of occupancy against independent work."""

from studies.charts import Curve, Panel, curves, style
from studies.record import Measurements
from studies.templates import block
from tilewright.tools.machine.record import FMA, Machine

ENOUGH = 0.9
"""Share of the most that a number of chains reaches, for which the table says how many warps it takes."""


def table(run: Measurements, machine: Machine) -> str:
    """For each number of chains: shares of the peak by warps, warps for `ENOUGH` of the row's most, and what latency
    predicts."""
    shares = _shares(run)
    chains, warps = run.values("chains"), run.values("warps")
    latency = machine.row(FMA).latency_cycles or 0.0
    enough = {one: _enough(shares, int(one)) for one in chains}
    given = {"shares": shares, "chains": chains, "warps": [one for one in warps if one in (1, 4, 8, 16, 32, 64)]}
    return block("occupancy/table.md.j2", "table", run=run, latency=latency, enough=enough, share=ENOUGH, **given)


def _shares(run: Measurements) -> dict[tuple[int, int], float]:
    """Share of the peak by chains and warps."""
    of = (one for one in run.measurements if one.way == "FMA")
    return {(int(one.what["chains"]), int(one.what["warps"])): float(one.facts["share"]) for one in of}


def _enough(shares: dict[tuple[int, int], float], chains: int) -> int:
    """The fewest warps that reach `ENOUGH` of the most that any reach."""
    own = {warps: share for (of, warps), share in shares.items() if of == chains}
    return min(warps for warps, share in own.items() if share >= ENOUGH * max(own.values()))


def chains_figure(run: Measurements) -> str:
    """Share of the peak of FMAs over warps, a curve for each number of chains, as SVG."""
    shares = _shares(run)
    drawn = [
        Curve(
            f"{chains} independent FMA{'s' * (chains > 1)} a thread",
            [(warps, share) for (of, warps), share in shares.items() if of == chains],
            style(number),
        )
        for number, chains in enumerate(dict.fromkeys(of for of, _ in shares))
    ]
    panel = Panel("FMAs: share of the peak", drawn, linear=True)
    return curves([panel], "warps of a multiprocessor", "of the peak", "{x:.0%}")


def loads_figure(run: Measurements) -> str:
    """Bandwidth of DRAM over bytes in flight, a curve for each number of loads, as SVG."""
    found: dict[int, list[tuple[float, float]]] = {}
    for one in run.measurements:
        if one.way == "DRAM":
            in_flight = int(one.facts["bytes_in_flight"]) / 1024
            found.setdefault(int(one.what["loads"]), []).append((in_flight, float(one.facts["gbs"])))
    drawn = [
        Curve(f"{loads} load{'s' * (loads > 1)} of 16 bytes in flight a thread", points, style(number))
        for number, (loads, points) in enumerate(found.items())
    ]
    panel = Panel("DRAM: bandwidth", drawn, linear=True)
    return curves([panel], "KiB in flight, of a multiprocessor", "GB/s")
