"""Redraws the measured tables and plots in README.md and docs/ from the records in results/.

Run as `python -m studies.performance` from the root of a checkout (`make docs` does). The text between
`<!-- NAME -->` and `<!-- end NAME -->` in a page is replaced; the words around it are written by hand.
"""

import contextlib
import csv
import io
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from rich.console import Console, RenderableType

from studies import published
from studies.counters import nearness, validation
from studies.markdown import table
from studies.pages import redraw
from studies.performance import calls, changes, picks, prepared, spread, term_products
from studies.performance.plots import float32_ladder, tensor_core_ladder
from studies.precisions import tables as precisions
from studies.profiles import tables as profiles
from studies.record import Measurements
from studies.templates import section
from tilewright.bench.records import Record, Result, Run
from tilewright.bench.suites import Shape, shapes
from tilewright.core.errors import RecordsError, TilewrightError
from tilewright.core.files import write_whole
from tilewright.kernels import KERNELS
from tilewright.kernels.old_configs import completed
from tilewright.report import course
from tilewright.report.ratios import baseline_speed, quotient, share, speed
from tilewright.report.tables import bench_table
from tilewright.report.verified import count, course_table

RECORDS = Path("results/h200/ladder.json")
LATER_RUNGS = tuple(
    Path(f"results/h200/{name}.json")
    for name in ("rungs", "rungs_tf32", "rungs_f16", "rungs_bf16", "rungs_turns", "rungs_split")
)
ELSEWHERE = (Path("results/h100/rungs_bf16.json"),)
"""Runs of rungs on other GPUs, of which there may be some."""
LADDER_PICKS = Path("results/h200/best.json")
"""What `matmul` picks, on the GPU that the ladder was measured on."""
ORDERS = Path("results/h200/orders.json")
CASES = tuple(
    Path(f"results/h200/{name}.json")
    for name in (
        "best",
        "best_fp16x3",
        "best_bf16x3",
        "orders",
        "batched",
        "decode",
        "epilogues",
        "best_bf16",
        "best_bf16_column",
        "best_f16",
        "batched_bf16",
        "epilogues_bf16",
        "decode_bf16",
        "batch_invariant",
        "best_tf32",
    )
) + tuple(
    Path(f"results/h100/{name}.json")
    for name in (
        "decode",
        "best_bf16",
        "best_bf16_column",
        "batched_bf16",
        "epilogues_bf16",
        "decode_bf16",
        "best_f16",
        "best_tf32",
        "best_tf32_nt",
        "best_tf32_tn",
        "best_tf32_tt",
        "best_fp8",
        "best_fp8_across",
        "best_fp8_blocks",
    )
)
"""Further runs of `tilewright bench best`, of which there may be some."""
END_TO_END = tuple(
    Path(f"results/{name}.json")
    for name in ("h200/end_to_end", "h200/end_to_end_llm", "h200/end_to_end_bf16", "h100/end_to_end_bf16")
)
"""Runs with --end-to-end, of which there may be some."""
EMULATED = Path("results/emulator/ladder.json")
COUNTERS = Path("results/h200/bank_conflicts")
PAGES = tuple(map(Path, ("README.md", "docs/performance.md", "docs/emulator.md", "docs/counters.md", "docs/tools.md")))
PLOT = Path("docs/ladder.svg")
TENSOR_CORE_PLOT = Path("docs/ladder_tensor_cores.svg")
HEADLINE = "4096x4096x4096"
GUARDED = "4092x4092x4092"
"""A size near that of HEADLINE which no tile divides."""

SHARED_COUNTERS = {
    "smsp__inst_executed_op_shared_ld.sum": "load instructions",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": "load wavefronts",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": "of them conflicts",
    "smsp__inst_executed_op_shared_st.sum": "store instructions",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": "store wavefronts",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": "conflicts",
    "smsp__inst_executed.sum": "all instructions",
}


def main() -> int:
    """Redraw everything; returns the exit status."""
    try:
        runs, emulated = load((RECORDS, *LATER_RUNGS)), Run.load(EMULATED)
        best = term_products.RUNS["float32"]
        picked_by_path = {path: Run.load(path) for path in (best, *filter(Path.exists, CASES))}
        run, picked = runs[0], picked_by_path[best].records
        records = own(runs)
        squares = _squares(records)
        gpu = run.environment["gpu"]["name"]
        ladder = float32_ladder(squares, _squares(picked_by_path[LADDER_PICKS].records), published.GH200)
        write_whole(PLOT, ladder.render(f"The ladder in float32 on one {gpu}").encode())
        others = tensor_core_ladder(squares).render(f"The ladder on tensor cores on one {gpu}")
        write_whole(TENSOR_CORE_PLOT, others.encode())
        drawn = precisions.load()
        precisions.draw(drawn)
        sections = {
            "chart": chart(picked_by_path[best], drawn),
            "device": device(picked_by_path[best]),
            "headline": headline(records),
            "best": picks.every(picked),
            "glance": picks.glance(picked_by_path),
            "cases": picks.chosen({path: run for path, run in picked_by_path.items() if path != best}),
            "end_to_end": end_to_end(load(filter(Path.exists, END_TO_END))),
            "first_calls": section("first_calls"),
            "emulator": verified(emulated.results),
            "bench": terminal([record for record in run.records if record.shape == HEADLINE]),
            "sizes": sizes([*runs, *load(filter(Path.exists, ELSEWHERE))], gpu),
            "validation": validation.markdown(validation.load(validation.COMPARISON)),
            "nearness": nearness.section(),
            "counters": counters(sorted(COUNTERS.glob("*.csv"))),
            "environment": environment(run),
            "spread": spread.markdown(spread.speeds(every_run(RECORDS.parent))),
            "profiles": profiles.section(profiles.load()),
            "requests": profiles.of_library(profiles.load(profiles.LIBRARY)),
            "guards": guards(records),
            "reading": term_products.reading(term_products.load()),
            "changes": changes.section(),
            **term_products.sections(term_products.load()),
            **precisions.sections(drawn),
            "float32_way": section("float32_way"),
            "prepared": prepared.section(),
            "sustained": section("sustained"),
            "grouped": section("grouped"),
            "clients": section("clients"),
        }
        for page in PAGES:
            redraw(page, sections)
    except (TilewrightError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def chart(results: Run, drawn: Measurements) -> str:
    """The picture that the README opens with: speed over error.

    Args:
        results: the run of the speeds below it; where the picture is of another revision, a sentence says so.
        drawn: the run that the picture is of.
    """
    picture = f"![{precisions.described(drawn)}]({precisions.CHART})"
    shown, below = (run.environment for run in (drawn, results))
    if shown["revision"] == below["revision"]:
        return picture
    return (
        f"{picture}\n\nThe chart is of revision {shown['revision']} ({shown['date'][:10]}), the figures below are of "
        f"revision {below['revision']} ({below['date'][:10]}): speeds of the two differ."
    )


def load(paths: Iterable[Path]) -> list[Run]:
    """The runs in several files.

    Raises:
        RecordsError: a file is missing or is none of records.
    """
    return [Run.load(path) for path in paths]


def every_run(folder: Path) -> list[Run]:
    """All runs of `tilewright bench` in a folder; its other files are left out."""
    runs = []
    for path in sorted(folder.glob("*.json")):
        with contextlib.suppress(RecordsError):
            runs.append(Run.load(path))
    return runs


def own(runs: Sequence[Run]) -> list[Record]:
    """Of each rung, the records of the first run that has it: a later one has it for others to be compared with."""
    first: dict[str, Run] = {}
    for run in runs:
        for record in run.records:
            first.setdefault(record.kernel, run)
    return [record for run in runs for record in run.records if first[record.kernel] is run]


def headline(records: Sequence[Record]) -> str:
    """Every rung at 4096 next to cuBLAS in the same run and arithmetic, and next to what the sources measured.

    Raises:
        RecordsError: the records hold no run at 4096, or a ratio of another run.
    """
    chosen = sorted((record for record in records if record.shape == HEADLINE), key=lambda record: record.rung)
    if not chosen:
        raise RecordsError(f"{RECORDS} has no records of {HEADLINE}")
    rows: list[Sequence[object]] = []
    for record in chosen:
        theirs = published.GH200.get(record.rung)
        rows.append(
            (
                record.rung,
                f"`{record.kernel}`",
                record.arithmetic,
                ", ".join(f"{name}={value}" for name, value in completed(record.kernel, record.config).items()),
                speed(record.gflops),
                baseline_speed(record),
                share(record),
                f"{theirs:,.0f}" if theirs else "",
            )
        )
    rows.append(("", "cuBLAS", "", "", "", "", "", f"{published.GH200[0]:,.0f}"))
    heads = ("rung", "kernel", "in", "config", "GFLOP/s", "cuBLAS, same run", "of cuBLAS", "worklog, GH200")
    return table(heads, rows, "rlllrrrr")


def device(run: Run) -> str:
    """What a run was measured on, and when, as the beginning of a sentence."""
    gpu, libraries = run.environment["gpu"], run.environment["libraries"]
    return (
        f"Measured on one {gpu['name']} (driver {gpu['driver']}, NVRTC {gpu['nvrtc']}, cuBLAS "
        f"{libraries['nvidia-cublas']}), {run.environment['date'][:10]}."
    )


def terminal(records: Sequence[Record]) -> str:
    """What `tilewright bench` prints of these records, as a block of text."""
    groups = groupby(records, key=lambda record: (record.shape, record.case))
    return printed(bench_table(list(group)) for _, group in groups)


def verified(results: Sequence[Result]) -> str:
    """What `tilewright bench` prints of the course without a GPU, and how many kernels there are besides."""
    shown = printed([course_table(results, course.measured()), "", count(results)])
    library = sum(not kernel.rung for kernel in KERNELS)
    rungs = len({one.kernel for one in results})
    return (
        f"{shown}\n\n`tilewright bench library` verifies the {library} kernels of the library, which are no rungs, and "
        f"`tilewright bench --all` all {rungs + library}."
    )


def printed(parts: Iterable[RenderableType]) -> str:
    """What a terminal of 100 columns shows, as a block of text."""
    console = Console(width=100, record=True, file=io.StringIO())
    for part in parts:
        console.print(part, highlight=False)
    lines = (line.rstrip() for line in console.export_text().splitlines())
    return "\n".join(("```", *lines, "```"))


def sizes(runs: Iterable[Run], gpu: str) -> str:
    """GFLOP/s and percent of cuBLAS of every rung and problem, a table for each run, arithmetic and type of results.

    Runs on another GPU than this one say on which.

    Raises:
        RecordsError: rungs of one table were measured next to different runs of cuBLAS.
    """
    texts = []
    for run in runs:
        kinds = dict.fromkeys((record.arithmetic, record.out_dtype) for record in run.records)
        for kind in kinds:
            records = [record for record in run.records if (record.arithmetic, record.out_dtype) == kind]
            types = kind[0] if kind[1] == "float32" else f"{kind[0]} with results of {kind[1]}"
            on = run.environment.get("gpu", {}).get("name", gpu)
            where = "" if on == gpu else f" on one {on}"
            date = run.environment["date"][:10]
            texts += [f"In {types}{where}, run of {date}, revision {run.environment['revision']}:", _sizes(records)]
    return "\n\n".join(texts)


def _sizes(records: Sequence[Record]) -> str:
    """The table of one run in one arithmetic."""
    order = {record.shape: (record.m != record.n or record.n != record.k, record.m) for record in records}
    kernels = sorted({(record.rung, record.kernel) for record in records})
    rows = []
    for shape in sorted(order, key=order.__getitem__):
        by_rung = {record.rung: record for record in records if record.shape == shape}
        baselines = {baseline_speed(record) for record in by_rung.values()}
        if len(baselines) > 1:
            raise RecordsError(f"the rungs at {shape} were measured next to different runs of cuBLAS: {baselines}")
        rows.append((shape, *(_cell(by_rung.get(rung)) for rung, _ in kernels), *baselines))
    heads = ("m x n x k", *(f"{rung} {name}" for rung, name in kernels), "cuBLAS")
    return table(heads, rows, "l" + "r" * (len(kernels) + 1))


def _cell(record: Record | None) -> str:
    if record is None:
        return ""
    of_baseline = share(record)
    return f"{speed(record.gflops)} ({of_baseline})" if of_baseline else speed(record.gflops)


def guards(records: Sequence[Record]) -> str:
    """How each rung in float32 that was measured at both sizes does where accesses are guarded, next to where they are
    not; a sentence, empty where there is none."""
    found = {
        record.kernel: {one.shape: one.gflops for one in records if one.kernel == record.kernel}
        for record in records
        if record.rung and record.arithmetic == "float32"
    }
    shares = {
        kernel: f"{quotient(of[GUARDED], of[HEADLINE]):.2f}"
        for kernel, of in found.items()
        if {GUARDED, HEADLINE} <= of.keys()
    }
    listed = ", ".join(f"`{kernel}` {share}" for kernel, share in shares.items())
    return f"Speed at {GUARDED} over that at {HEADLINE}, of the same run: {listed}." if listed else ""


def counters(files: Iterable[Path]) -> str:
    """What Nsight Compute counted of shared memory, a row a file of its `--csv` output, in millions.

    Raises:
        RecordsError: a file lacks one of the counters.
    """
    rows = []
    for file in files:
        with file.open(encoding="utf-8", newline="") as lines:
            counted = {line["Metric Name"]: line["Metric Value"].replace(",", "") for line in csv.DictReader(lines)}
        try:
            values = [f"{int(counted[name]) / 1e6:.1f}" for name in SHARED_COUNTERS]
        except KeyError as missing:
            raise RecordsError(f"{file} does not count {missing}") from None
        rows.append((f"`{file.stem}`", *values))
    return table(("rung", *SHARED_COUNTERS.values()), rows, "l" + "r" * len(SHARED_COUNTERS))


def environment(run: Run) -> str:
    """Where and when the records were measured, as a list."""

    def lines(facts: dict[str, object], depth: int) -> Iterable[str]:
        for name, value in facts.items():
            if isinstance(value, dict):
                yield f"{'  ' * depth}- {name}:"
                yield from lines(value, depth + 1)
            else:
                yield f"{'  ' * depth}- {name}: {value}"

    return "\n".join(lines(run.environment, 0))


def _squares(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if _shape(record) in shapes()["squares"]]


def _shape(record: Record) -> Shape:
    return Shape(record.m, record.n, record.k, record.batch, record.layout)


def end_to_end(runs: Iterable[Run]) -> str:
    """What a caller sees on each GPU."""
    by_gpu: dict[str, list[Record]] = {}
    for run in runs:
        by_gpu.setdefault(run.environment["gpu"]["name"], []).extend(run.records)
    return "\n\n".join(f"On an {gpu}. {calls.markdown(records)}" for gpu, records in by_gpu.items())
