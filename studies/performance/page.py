"""Redraws the measured tables and plots in README.md and docs/ from the records in results/.

Run as `python -m studies.performance write` from the root of a checkout (`make docs` does). The text between
`<!-- NAME -->` and `<!-- end NAME -->` in a page is replaced; the words around it are written by hand.
"""

import io
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from studies import published
from studies.counters import nearness, validation
from studies.performance import part_products, picks
from studies.performance.plots import float32_ladder, tensor_core_ladder
from studies.precisions import tables as precisions
from studies.profiles import tables as profiles
from studies.record import Measurements
from studies.results import H200, change, every_run, path, paths, runs
from studies.templates import block, is_stale, redraw, section
from studies.unseen import heuristics
from studies.unseen import page as unseen
from studies.worklog import alone
from studies.worklog.parts import PARTS
from tilewright.core.errors import RecordsError
from tilewright.core.files import write_whole
from tilewright.kernels import KERNELS, find, recorded
from tilewright.tools.bench.records import Record, Result, Run
from tilewright.tools.bench.suites import shapes
from tilewright.tools.report import course
from tilewright.tools.report.calls import CAPTION, FORMS, HEADS, CallRow, rows
from tilewright.tools.report.ratios import baseline_speed, quotient, ratio
from tilewright.tools.report.tables import bench_table
from tilewright.tools.report.verified import count, course_table

_RESULTS = ("results", "records", "how-measured", "lab-notebook", "worklog/measured")
_OTHERS = ("emulator", "counters", "tools/bench")
PAGES = (Path("README.md"), *(Path("docs", f"{name}.md") for name in (*_RESULTS, *_OTHERS)))
PLOT = Path("docs/ladder.svg")
TENSOR_CORE_PLOT = Path("docs/ladder_tensor_cores.svg")
HEADLINE = "4096x4096x4096"
GUARDED = "4092x4092x4092"
"""A size near that of HEADLINE which no tile divides."""

_TEMPLATE = "performance/page.md.j2"

FEWEST_RUNS = 3
"""Runs of a problem from which on the spread of cuBLAS's speed is listed."""

CHANGES = (
    ("maps of 128 bytes", "h200_maps_of_256_bytes", "h200_maps_of_128_bytes"),
    ("loads by an elected thread", "h100_loads_by_one_thread", "h100_loads_by_an_elected_thread"),
    ("steps in a loop", "h200_steps_unrolled", "h200_steps_in_a_loop"),
    ("biases ahead", "h200_biases_at_the_store", "h200_biases_ahead"),
    ("first tile ahead", "h100_first_tile_after_barriers", "h100_first_tile_ahead"),
    ("clusters without fences", "h100_clusters_with_fences", "h100_clusters_without_fences"),
    ("rows of whole pieces", "h100_pieces_with_checks", "h100_whole_pieces"),
    ("clusters of eight", "h100_clusters_of_four", "h100_clusters_of_eight"),
    ("activations in turns", "h100_gelu_together", "h100_gelu_in_turns"),
    ("blocks of 32 columns", "h100_blocks_of_64_columns", "h100_blocks_of_32_columns"),
    ("parts in eights", "h100_whole_parts", "h100_parts_in_eights"),
    ("shorter activations", "h100_longer_activations", "h100_shorter_activations"),
    ("stores by the copy engine", "h100_stored_by_threads", "h100_stored_by_the_copy_engine"),
)
"""Names of changes, and the runs of the same problems without each and with it."""

_LAST_SHOWN = 10
"""The last rung of the terminal's output that the page of `bench` shows."""

_SPEEDUPS = 2
"""Problems of each change that gained most and are shown."""

Speeds = Mapping[tuple[str, str], Sequence[float]]
"""Speeds of cuBLAS in GFLOP/s, one a run: by sizes and arithmetic."""


_STUDIES = ("clients", "first_calls", "float32_way", "grouped", "steps", "sustained")
"""Studies whose sections are on pages of results."""


def write() -> None:
    """Redraw everything.

    Raises:
        RecordsError: a file of records cannot be read, or a ratio is of another run.
        OSError: a page cannot be read or written.
    """
    rungs, (emulated,) = runs("ladder"), runs("emulated")
    best, *others = paths("precisions of matmul")[:1] + paths("cases")
    picked = {path: Run.load(path) for path in (best, *others)}
    run, records = rungs[0], own(rungs)
    squares = _squares(records)
    gpu = run.environment["gpu"]["name"]
    ladder = float32_ladder(squares, _squares(picked[path("picks")].records), published.GH200)
    write_whole(PLOT, ladder.encode())
    write_whole(TENSOR_CORE_PLOT, tensor_core_ladder(squares).encode())
    drawn = Measurements.load(path("precisions"))
    precisions.draw(drawn)
    products = part_products.load()
    drawn_shapes = unseen.judged()
    write_whole(unseen.CHART, unseen.chart(drawn_shapes).encode())
    sections = {
        "unseen": unseen.section(drawn_shapes),
        "heuristics": unseen.scoreboard(heuristics.read(path("heuristics").read_bytes())),
        "chart": chart(picked[best], drawn),
        "device": block(_TEMPLATE, "device", run=picked[best]),
        "headline": headline(records, rungs),
        "course": course_parts(records, rungs),
        "best": picks.every(picked[best]),
        "summary": picks.summary(picked),
        **{f"glance {kind}": picks.glance(picked, kind) for kind in picks.KINDS},
        "cases": picks.chosen({path: run for path, run in picked.items() if path != best}),
        "end_to_end": by_gpu(calls, runs("end_to_end")),
        "each_call": by_gpu(each_call, runs("end_to_end")),
        "emulator": verified(emulated.results),
        "bench": terminal([one for one in run.records if one.shape == HEADLINE and one.rung <= _LAST_SHOWN]),
        "sizes": sizes(rungs, gpu),
        "validation": validation.markdown(Measurements.load(path("counters"))),
        "nearness": nearness.section(),
        "counters": block(_TEMPLATE, "counters", run=Measurements.load(path("bank conflicts"))),
        "environment": block(_TEMPLATE, "environment", facts=run.environment.items()),
        "spread": spread(list(every_run(H200).values())),
        "profiles": profiles.section(Measurements.load(path("profiles"))),
        "requests": profiles.of_library(Measurements.load(path("profiles of the library"))),
        "guards": guards(records),
        "reading": part_products.reading(products),
        "changes": changes(),
        "changes in a row": block("sustained/table.md.j2", "changes", run=Measurements.load(path("changes in a row"))),
        "prepared": prepared(runs("prepared")),
        "integers": alone.table(find("wgmma_int8")),
        **{
            study: section(study)
            for study in ("clients", "first_calls", "float32_way", "grouped", "steps", "sustained")
        },
        **part_products.sections(products),
        **precisions.sections(drawn),
    }
    for page in PAGES:
        redraw(page, sections)


def chart(results: Run, drawn: Measurements) -> str:
    """The picture that the README opens with: speed over error.

    Args:
        results: the run of the speeds below it; where the picture is of another revision, a sentence says so.
        drawn: the run that the picture is of.
    """
    facts = {"described": precisions.described(drawn), "chart": precisions.CHART}
    return block(_TEMPLATE, "chart", results=results, drawn=drawn, **facts)


def own(of: Sequence[Run]) -> list[Record]:
    """Records of each rung from the first run that has it: a later run has it for others to be compared with."""
    first: dict[str, Run] = {}
    for run in of:
        for record in run.records:
            first.setdefault(record.kernel, run)
    return [record for run in of for record in run.records if first[record.kernel] is run]


def headline(records: Sequence[Record], of: Sequence[Run] = ()) -> str:
    """Every rung at 4096 next to cuBLAS in the same run and arithmetic, and next to what the sources measured.

    Args:
        records: of the rungs.
        of: the runs that have them.

    Raises:
        RecordsError: the records hold no run at 4096, or a ratio of another run.
    """
    chosen = sorted((record for record in records if record.shape == HEADLINE), key=lambda record: record.rung)
    if not chosen:
        raise RecordsError(f"the runs of rungs have no records of {HEADLINE}")
    having = [run for run in of if any(one is record for one in run.records for record in chosen)]
    return block(_TEMPLATE, "headline", records=chosen, runs=having, recorded=recorded, published=published.GH200)


def course_parts(records: Sequence[Record], of: Sequence[Run]) -> str:
    """The first and the fastest rung of each part of the course at 4096, each next to cuBLAS in the same run and
    arithmetic; arguments as of `headline`."""
    found = {
        part: [record for record in records if record.shape == HEADLINE and record.rung in part.rungs] for part in PARTS
    }
    rows = [
        (part, min(rungs, key=lambda one: one.rung), max(rungs, key=lambda one: one.gflops))
        for part, rungs in found.items()
        if rungs
    ]
    return block(_TEMPLATE, "course", rows=rows, runs=of, shape=HEADLINE)


def terminal(records: Sequence[Record]) -> str:
    """Output of `tilewright bench` for these records, as a block of text."""
    groups = groupby(records, key=lambda record: (record.shape, record.case))
    return printed(bench_table(list(group)) for _, group in groups)


def verified(results: Sequence[Result]) -> str:
    """Output of `tilewright bench` of the course without a GPU, and the number of further kernels."""
    shown = printed([course_table(results, course.measured()), "", count(results)])
    in_table = {one.kernel for one in results}
    kernels = [kernel for kernel in KERNELS if not kernel.rung or kernel.name in in_table]
    return block(_TEMPLATE, "emulator", course=shown, kernels=kernels)


def printed(parts: Iterable[RenderableType]) -> str:
    """Text on a terminal of 100 columns, as a block of text."""
    console = Console(width=100, record=True, file=io.StringIO())
    for part in parts:
        console.print(part, highlight=False)
    lines = (line.rstrip() for line in console.export_text().splitlines())
    return "\n".join(("```", *lines, "```"))


def sizes(of: Iterable[Run], gpu: str) -> str:
    """GFLOP/s and percent of cuBLAS of every rung and problem, a table for each run, arithmetic and type of results.

    Runs on another GPU than this one say on which.

    Raises:
        RecordsError: rungs of one table were measured next to different runs of cuBLAS.
    """
    tables = []
    for run in of:
        for arithmetic, result in dict.fromkeys((record.arithmetic, record.out_dtype) for record in run.records):
            records = [one for one in run.records if (one.arithmetic, one.out_dtype) == (arithmetic, result)]
            tables.append(
                {
                    "types": arithmetic if result == "float32" else f"{arithmetic} with results of {result}",
                    "gpu": run.environment.get("gpu", {}).get("name", gpu),
                    "environment": run.environment,
                    "kernels": sorted({(record.rung, record.kernel) for record in records}),
                    "rows": _by_size(records),
                }
            )
    return block(_TEMPLATE, "sizes", sizes=tables, gpu=gpu)


def _by_size(records: Sequence[Record]) -> dict[str, dict[int, Record]]:
    """Records of one run in one arithmetic by their sizes, squares first, and by rung."""
    found: dict[str, dict[int, Record]] = {}
    for record in sorted(records, key=lambda one: (one.m != one.n or one.n != one.k, one.m)):
        found.setdefault(record.shape, {})[record.rung] = record
    for shape, by_rung in found.items():
        if len(baselines := {baseline_speed(record) for record in by_rung.values()}) > 1:
            raise RecordsError(f"the rungs at {shape} were measured next to different runs of cuBLAS: {baselines}")
    return found


def guards(records: Sequence[Record]) -> str:
    """How each rung in float32 that was measured at both sizes does where accesses are guarded, next to where they are
    not, as a sentence."""
    found = {
        record.kernel: {one.shape: one.gflops for one in records if one.kernel == record.kernel}
        for record in records
        if record.rung and record.arithmetic == "float32"
    }
    shares = {
        kernel: quotient(of[GUARDED], of[HEADLINE]) for kernel, of in found.items() if {GUARDED, HEADLINE} <= of.keys()
    }
    return block(_TEMPLATE, "guards", guards=shares, guarded=GUARDED, headline=HEADLINE)


def _squares(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if picks.shape_of(record) in shapes()["squares"]]


def prepared(of: Iterable[Run]) -> str:
    """A row for each record with b prepared and the one before it, which is the same product without."""
    return block(_TEMPLATE, "prepared", prepared=of, pairwise=pairwise)


def by_gpu(section: Callable[[Sequence[Run]], str], of: Iterable[Run]) -> str:
    """A section of the runs of each GPU, one after the other."""
    found: dict[str, list[Run]] = {}
    for run in of:
        found.setdefault(run.environment["gpu"]["name"], []).append(run)
    return "\n\n".join(map(section, found.values()))


def calls(runs: Sequence[Run]) -> str:
    """Calls on one GPU as a caller sees them: means over the problems of each case. Empty where no calls were timed."""
    found = [row for run in runs for row in rows(run.records)]
    if not found:
        return ""
    by_case: dict[tuple[str, str], list[CallRow]] = {}
    for row in found:
        by_case.setdefault((row.record.case, row.form), []).append(row)
    given: dict[str, Any] = {"runs": runs, "rows": found, "cases": by_case.values(), "caption": CAPTION}
    return block(_TEMPLATE, "calls", slowest=_slowest, mean=statistics.geometric_mean, **given)


def each_call(runs: Sequence[Run]) -> str:
    """Each call on one GPU that returns a new result, of row-major operands. Empty where no calls were timed."""
    found = [(row, is_stale(row.record, run)) for run in runs for row in rows(run.records)]
    shown = [(row, stale) for row, stale in found if (row.record.layout, row.form) == ("NN", FORMS[0])]
    return block(_TEMPLATE, "each_call", runs=runs, row_major=shown, heads=HEADS, form=FORMS[0]) if shown else ""


def _slowest(found: Sequence[CallRow]) -> CallRow:
    """Where a call is slowest by wall time, next to the framework's."""
    return min(found, key=lambda row: row.wall[1] / row.wall[0])


def speeds(runs: Iterable[Run]) -> Speeds:
    """cuBLAS's speeds in each run, on row-major matrices."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        of_run = {}
        for record in run.records:
            if record.baseline and record.engine == "cuda" and record.layout == "NN":
                results = "" if record.out_dtype == "float32" else f", results {record.out_dtype}"
                of_run[record.shape, f"{record.baseline_arithmetic}{results}"] = record.baseline.gflops
        for problem, gflops in of_run.items():
            found[problem].append(gflops)
    return found


def spread(runs: Sequence[Run]) -> str:
    """A table of the problems that were measured in several runs, those with the most runs first."""
    found = sorted(speeds(runs).items(), key=lambda one: -len(one[1]))
    having = [run for run in runs if speeds([run])]
    listed = [one for one in found if len(one[1]) >= FEWEST_RUNS]
    return block(_TEMPLATE, "spread", spread=listed, runs=having)


def changes() -> str:
    """Speedups by changes of kernels: runs before and after each, every cell next to cuBLAS in its own run.

    Raises:
        RecordsError: a file is none of records, or a ratio is of another run.
    """
    found = [row for name, *files in CHANGES for row in _changed(name, *(Run.load(change(file)) for file in files))]
    return block(_TEMPLATE, "changes", changes=found)


def _changed(name: str, before: Run, after: Run) -> Iterator[tuple[str, str, Record, Record]]:
    """Problems of both runs that gained most, and the one that lost most, each by the fastest config of its run."""
    earlier, later = _fastest(before.records), _fastest(after.records)
    pairs = [(earlier[problem], later[problem]) for problem in earlier if problem in later]
    pairs.sort(key=lambda pair: (ratio(pair[1]) or 0.0) - (ratio(pair[0]) or 0.0), reverse=True)
    facts = after.environment
    measured = f"{facts['gpu']['name'].removeprefix('NVIDIA ')}, {facts['date'][:10]}, {facts['revision']}"
    for pair in (*pairs[:_SPEEDUPS], *pairs[max(_SPEEDUPS, len(pairs) - 1) :]):
        yield name, measured, *pair


def _fastest(records: Iterable[Record]) -> dict[tuple[str, str], Record]:
    """By problem, the fastest record that has a baseline."""
    having = [record for record in records if ratio(record)]
    return {(one.shape, one.case): one for one in sorted(having, key=lambda one: one.gflops)}
