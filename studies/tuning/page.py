"""Redraws the tables and plots of docs/tuning.md: `python -m studies.tuning`, from the root of a checkout.

The tables of winners come from the shipped table. The plots come from two journals of one kernel on one problem, one of
`tilewright tune --exhaustive` and one of the usual search. How good the picks are was measured by `tuning.regret`.
Sections of which there is no data yet stay empty.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from studies.markdown import table
from studies.pages import redraw
from studies.results import paths
from studies.tuning.plots import Curve, plot_landscape, plot_search
from studies.tuning.regret import Regret, load, words
from tilewright.bench.suites import shapes
from tilewright.core.errors import RecordsError
from tilewright.core.gpus import capability_of
from tilewright.kernels.spec import Choice
from tilewright.report.ratios import quotient, speed
from tilewright.select.selector import select
from tilewright.tables.entry import Entry, best_by_problem
from tilewright.tables.store import SHIPPED
from tilewright.tables.table import Table, file_name
from tilewright.tuning.journal import Trial, read

TABLE = SHIPPED / file_name("NVIDIA H200")
TABLE_16_BITS = SHIPPED / file_name("NVIDIA H100 80GB HBM3")
PAGE = Path("docs/tuning.md")
LANDSCAPE = Path("docs/tuning-landscape.svg")
SEARCH = Path("docs/tuning-search.svg")

WITHIN = 1.03
"""How many times longer than the fastest a pick is to take at most."""

SHOWN = ("NN float32", "NN bfloat16->bfloat16")
"""Cases whose configs the page shows."""

PAIRS = (("BM", "BN"), ("TM", "TN"))
"""Parameters that maps are drawn over, where a kernel has them."""


def write() -> None:
    """Redraw everything.

    Raises:
        RecordsError: a file of records or the table cannot be read.
        OSError: the page or a plot cannot be read or written.
    """
    tabled = Table.load(TABLE)
    exhaustive, ranked = (of_one_problem(read(path)) for path in paths("searches"))
    sections = {
        "kernels": kernels(tabled.entries),
        "winners": winners(tabled.entries),
        "regret": regret(map(load, paths("regrets")), tabled),
        "regret of 16 bits": regret(map(load, paths("regrets of 16 bits")), Table.load(TABLE_16_BITS)),
        **_plots(exhaustive, ranked),
    }
    redraw(PAGE, sections)


def kernels(entries: Sequence[Entry]) -> str:
    """Which kernels win in each case, on how many problems, and how they do next to cuBLAS."""
    won: dict[tuple[str, str], list[Entry]] = {}
    for entry in fastest(entries):
        won.setdefault((entry.case, entry.kernel), []).append(entry)
    rows: list[Sequence[object]] = []
    for (case, kernel), of in won.items():
        ratios = [entry.gflops / entry.baseline_gflops for entry in of if entry.baseline_gflops]
        mean = f"{statistics.geometric_mean(ratios):.2f}x" if ratios else ""
        rows.append((case, f"`{kernel}`", len(of), of[0].shape, of[-1].shape, mean))
    return table(("case", "kernel", "problems", "least work", "most work", "ratio"), rows, "llrllr")


def winners(entries: Sequence[Entry]) -> str:
    """The fastest configs on the suites' problems, in the cases of SHOWN, next to cuBLAS, by case and work."""
    rows: list[Sequence[object]] = []
    for entry in fastest(entries):
        baseline = entry.baseline_gflops
        if entry.case in SHOWN and _in_suite(entry):
            rows.append(
                (
                    entry.shape,
                    entry.case,
                    f"`{entry.kernel}`",
                    _config(entry),
                    speed(entry.gflops),
                    speed(baseline) if baseline else "",
                    f"{quotient(entry.gflops, baseline):.2f}x" if baseline else "",
                    f"{entry.error_ratio:.2f}x" if entry.error_ratio is not None else "",
                )
            )
    heads = ("m x n x k", "case", "kernel", "config", "GFLOP/s", "cuBLAS", "ratio", "error")
    return table(heads, rows, "llllrrrr")


def fastest(entries: Iterable[Entry]) -> list[Entry]:
    """Of each problem the fastest entry that keeps float32's promise, of those that err little; by case and work."""
    best = best_by_problem(entry for entry in entries if entry.keeps(None)).values()
    return sorted(best, key=lambda entry: (entry.case, entry.work, entry.problem))


def _in_suite(entry: Entry) -> bool:
    sizes = (entry.m, entry.n, entry.k, entry.batch)
    return any(sizes == (*shape[:3], shape.batch) for members in shapes().values() for shape in members)


def _config(entry: Entry) -> str:
    return ", ".join(f"{name}={value}" for name, value in entry.config.items())


def regret(runs: Iterable[tuple[Mapping[str, Any], Sequence[Regret]]], tabled: Table) -> str:
    """How much longer what was picked took than the fastest known, on problems that were in no table, by draw; and what
    is picked now, where they still are in none."""
    draws, rows = [], []
    then: list[float] = []
    now: list[float] = []
    ratios: dict[str, float] = {}
    for environment, found in runs:
        factors = [one.factor for one in found]
        then += factors
        of_draw = []
        for one in found:
            if one.ratio:
                ratios[one.shape] = one.ratio
            if tabled.holds(one.problem):
                continue
            longer = picked_now(environment["gpu"], one)
            if longer is not None:
                of_draw.append(longer)
            kernel, _, config = one.picked.partition(":")
            rows.append(
                (
                    one.shape,
                    f"`{kernel}`",
                    config.replace(",", ", "),
                    f"{100 * (one.factor - 1):.1f}%",
                    "" if longer is None else f"{100 * (longer - 1):.1f}%",
                )
            )
        now += of_draw
        draws.append(
            (
                environment["revision"],
                len(found),
                sum(factor <= WITHIN for factor in factors),
                f"{100 * (max(factors) - 1):.1f}%",
                f"{100 * (statistics.geometric_mean(factors) - 1):.1f}%",
                f"{100 * (statistics.geometric_mean(of_draw) - 1):.1f}%" if of_draw else "",
            )
        )
    told = f"{len(then)} problems that were in no table: {_longer(then)}."
    if now:
        told += (
            f" What is picked now took, in the same runs, {_longer(now)} on the {len(now)} that still are in none "
            "and on which it was measured."
        )
    if ratios:
        slower = [f"{shape} ({ratio:.2f}x)" for shape, ratio in ratios.items() if ratio < 1]
        mean = statistics.geometric_mean(ratios.values())
        told += (
            f" {len(ratios)} picks ran next to cuBLAS: {mean:.2f}x as fast in the geometric mean, slower on "
            f"{', '.join(slower) or 'none'}."
        )
    heads = ("revision", "problems", f"within {100 * (WITHIN - 1):.0f}%", "at worst", "longer by", "now")
    text = told + "\n\n" + table(heads, draws, "lrrrrr")
    if rows:
        text += "\n\nThose that still are in no table:\n\n"
        text += table(("m x n x k", "picked then", "config", "longer by", "now"), rows, "lllrr")
    return text


def picked_now(gpu: Mapping[str, Any], one: Regret) -> float | None:
    """How many times longer than the fastest known the present selector's pick took; None if it was not measured."""
    capability = capability_of(gpu["compute_capability"])
    pick = words(Choice(*select(one.problem, capability, gpu["name"])))
    times_us = one.times_us or {}
    return times_us[pick] / min(times_us.values()) if pick in times_us else None


def _longer(factors: Sequence[float]) -> str:
    return f"{100 * (statistics.geometric_mean(factors) - 1):.1f}% longer in the geometric mean"


def of_one_problem(trials: Sequence[Trial]) -> list[Trial]:
    """The trials in the order of their ends.

    Raises:
        RecordsError: there are none, or they are of several kernels, problems or GPUs.
    """
    subjects = {(trial.device, trial.kernel, *trial.problem, trial.scalars) for trial in trials}
    if len(subjects) != 1:
        raise RecordsError(f"a journal to be drawn must be of one kernel on one problem and GPU, got {len(subjects)}")
    return sorted(trials, key=lambda trial: trial.at_s)


def best_so_far(trials: Sequence[Trial]) -> Curve:
    """Each improvement: seconds of searching, and the speed from then on.

    Raises:
        RecordsError: nothing was timed.
    """
    curve: list[tuple[float, float]] = []
    for trial in trials:
        speed = trial.gflops if trial.outcome == "timed" else None
        if speed and (not curve or speed > curve[-1][1]):
            curve.append((trial.at_s, speed))
    if not curve:
        raise RecordsError("the journal holds no config that was timed")
    return curve


def found_by(curve: Curve, seconds: float) -> float:
    """Speed of the best config after this many seconds, 0 where there was none yet."""
    return max((speed for at, speed in curve if at <= seconds), default=0.0)


def _plots(exhaustive: list[Trial], ranked: list[Trial]) -> dict[str, str]:
    """The sections with plots, after drawing these."""
    first = exhaustive[0]
    subject = f"{first.kernel}, {first.m}x{first.n}x{first.k}, {first.device}"
    pairs = [pair for pair in PAIRS if set(pair) <= set(first.config)]
    if pairs:
        plot_landscape(exhaustive, pairs, LANDSCAPE, f"Best of each pair of sizes: {subject}")
    curves = {"as enumerated, all in full": best_so_far(exhaustive), "ranked, stopped early": best_so_far(ranked)}
    plot_search(curves, SEARCH, subject)
    total, best = exhaustive[-1].at_s, best_so_far(exhaustive)[-1][1]
    shares = [100 * found_by(curve, total / 10) / best for curve in curves.values()]
    # Both measure anew, so the ranked search's best may come out above the exhaustive one's.
    text = (
        f"![Two curves of the best GFLOP/s so far against seconds of searching {subject}: in the order of the configs, "
        f"and ranked by the cost model.]({SEARCH.name})\n\n"
        f"Of {subject}: the exhaustive search tried {len(exhaustive)} configs in {total:,.0f} s and found "
        f"{best:,.0f} GFLOP/s. In a tenth of that time it had found {shares[0]:.1f}% of it, the ranked search "
        f"{shares[1]:.1f}%. The ranked search tried {len(ranked)} configs in {ranked[-1].at_s:,.0f} s."
    )
    seen = f"Maps of GFLOP/s, one for each pair of parameters, of the best config with each pair of values: {subject}."
    return {"landscape": f"![{seen}]({LANDSCAPE.name})" if pairs else "", "search": text}
