"""Redraws the tables and plots of docs/tuning.md: `python -m studies.tuning write`, from the root of a checkout.

The tables of winners come from the shipped table. The plots come from two journals of one kernel on one problem, one of
`tilewright tune --exhaustive` and one of the usual search. `studies.unseen` measures how good picks are.
Sections of which there is no data yet stay empty.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from studies.charts import Curve, Map, Panel, curves, maps, style
from studies.results import paths
from studies.templates import block, redraw
from tilewright.core.errors import RecordsError
from tilewright.core.files import write_whole
from tilewright.select.tables.entry import Entry, rank
from tilewright.select.tables.store import SHIPPED
from tilewright.select.tables.table import Table, file_name
from tilewright.tools.bench.suites import shapes
from tilewright.tools.tune.journal import Trial, read

TABLE = SHIPPED / file_name("NVIDIA H200")
PAGE = Path("docs/tuning.md")
LANDSCAPE = Path("docs/tuning-landscape.svg")
SEARCH = Path("docs/tuning-search.svg")

_TEMPLATE = "tuning/page.md.j2"

Seconds = Sequence[tuple[float, float]]
"""Seconds of searching, and the fastest config's GFLOP/s by then."""

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
    tables = {"kernels": kernels(tabled.entries), "winners": winners(tabled.entries)}
    redraw(PAGE, tables | _plots(exhaustive, ranked))


def kernels(entries: Sequence[Entry]) -> str:
    """Which kernels win in each case, on how many problems, and how they do next to cuBLAS."""
    won: dict[tuple[str, str], list[Entry]] = {}
    for entry in fastest(entries):
        won.setdefault((entry.case, entry.kernel), []).append(entry)

    def mean(of: Sequence[Entry]) -> float | None:
        ratios = [entry.gflops / entry.baseline_gflops for entry in of if entry.baseline_gflops]
        return statistics.geometric_mean(ratios) if ratios else None

    return block(_TEMPLATE, "kernels", won=won, mean=mean)


def winners(entries: Sequence[Entry]) -> str:
    """The fastest configs on the suites' problems, in the cases of SHOWN, next to cuBLAS, by case and work."""
    listed = [entry for entry in fastest(entries) if entry.case in SHOWN and _in_suite(entry)]
    return block(_TEMPLATE, "winners", winners=listed)


def fastest(entries: Iterable[Entry]) -> list[Entry]:
    """Fastest entries of each problem that keep float32's promise, of those that err little; by case and work."""
    best: dict[object, Entry] = {}
    for one in sorted((entry for entry in entries if entry.meets(None)), key=rank):
        best.setdefault(one.problem, one)
    return sorted(best.values(), key=lambda entry: (entry.case, entry.work, entry.problem))


def _in_suite(entry: Entry) -> bool:
    sizes = (entry.m, entry.n, entry.k, entry.batch)
    return any(sizes == (*shape[:3], shape.batch) for members in shapes().values() for shape in members)


def of_one_problem(trials: Sequence[Trial]) -> list[Trial]:
    """The trials in the order of their ends.

    Raises:
        RecordsError: there are none, or they are of several kernels, problems or GPUs.
    """
    subjects = {(trial.device, trial.kernel, *trial.problem, trial.scalars) for trial in trials}
    if len(subjects) != 1:
        raise RecordsError(f"a journal to be drawn must be of one kernel on one problem and GPU, got {len(subjects)}")
    return sorted(trials, key=lambda trial: trial.at_s)


def landscape(trials: Sequence[Trial], across: str, down: str) -> Map:
    """The best speed by two parameters, whatever the others are; None where nothing was measured."""
    best: dict[tuple[int, int], float] = {}
    for trial in trials:
        if trial.gflops:
            place = trial.config[across], trial.config[down]
            best[place] = max(best.get(place, 0.0), trial.gflops)
    columns, rows = (sorted({place[axis] for place in best}) for axis in (0, 1))
    return Map(across, down, columns, rows, [[best.get((column, row)) for column in columns] for row in rows])


def best_so_far(trials: Sequence[Trial]) -> Seconds:
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


def found_by(curve: Seconds, seconds: float) -> float:
    """Speed of the best config after this many seconds, 0 where there was none yet."""
    return max((speed for at, speed in curve if at <= seconds), default=0.0)


def search_chart(found: Mapping[str, Seconds], title: str) -> str:
    """The speed of the best config so far against the seconds of searching, a line a search, as SVG."""
    end = max(curve[-1][0] for curve in found.values())
    drawn = [
        Curve(name, [*curve, (end, curve[-1][1])], style(number)) for number, (name, curve) in enumerate(found.items())
    ]
    tenth = [(end / 10, 0.0), (end / 10, drawn[0].points[-1][1])]
    drawn.append(Curve("a tenth of the time", tenth, {"linestyle": ":"}))
    panel = Panel(title, drawn, linear=True)
    return curves(
        [panel], "seconds of searching", "GFLOP/s of the best so far", base=10, drawstyle="steps-post", marker=""
    )


def _plots(exhaustive: list[Trial], ranked: list[Trial]) -> dict[str, str]:
    """The sections with plots, after drawing these."""
    first = exhaustive[0]
    subject = f"{first.kernel}, {first.m}x{first.n}x{first.k}, {first.device}"
    pairs = [pair for pair in PAIRS if set(pair) <= set(first.config)]
    if pairs:
        drawn = [landscape(exhaustive, *pair) for pair in pairs]
        title = f"Best of each pair of sizes: {subject}"
        write_whole(LANDSCAPE, maps(drawn, title, "GFLOP/s of the best config").encode())
    found = {"as enumerated, all in full": best_so_far(exhaustive), "ranked, stopped early": best_so_far(ranked)}
    write_whole(SEARCH, search_chart(found, subject).encode())
    total, best = exhaustive[-1].at_s, best_so_far(exhaustive)[-1][1]
    shares = [100 * found_by(curve, total / 10) / best for curve in found.values()]
    # Both measure anew, so the ranked search's best may come out above the exhaustive one's.
    given = {"subject": subject, "exhaustive": exhaustive, "ranked": ranked, "best": best, "shares": shares}
    text = block(_TEMPLATE, "search", plot=SEARCH.name, **given)
    seen = f"Maps of GFLOP/s, one for each pair of parameters, of the best config with each pair of values: {subject}."
    return {"landscape": f"![{seen}]({LANDSCAPE.name})" if pairs else "", "search": text}
