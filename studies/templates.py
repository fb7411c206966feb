"""Sections of pages, made by templates of what was measured, and the pages of docs/ that they are filled into.

A section is the text between `<!-- NAME -->` and `<!-- end NAME -->`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from studies.record import Measurements
from studies.results import paths
from tilewright.core.files import write_whole
from tilewright.core.gpus import capability_of
from tilewright.kernels import recorded
from tilewright.select.selector import select
from tilewright.tools.bench.records import Record, Run, RunFile
from tilewright.tools.report.ratios import baseline_speed, quotient, ratio, share, speed


def shown(value: float | None, form: str, scale: float = 1) -> str:
    """A number, multiplied by a scale, in a format of Python's, as in ',.1f'; empty where there is none."""
    return "" if value is None else format(scale * value, form)


def where(run: RunFile) -> str:
    """GPU, date and revision of a run."""
    facts = run.environment
    return f"{facts['gpu']['name']}, {facts['date'][:10]}, revision {facts['revision']}"


def places(runs: Iterable[RunFile]) -> str:
    """GPU, date and revision of each of several runs, but for those of which they are not known."""
    return "; ".join(dict.fromkeys(where(run) for run in runs if "gpu" in run.environment))


def is_stale(record: Record, run: Run) -> bool:
    """Whether `matmul` picks another kernel or config today than when it picked what a record is of, on that GPU."""
    if not record.picked or "gpu" not in run.environment:
        return False
    gpu = run.environment["gpu"]
    cached = "B" if record.prepared else None
    kernel, config = select(record.problem, capability_of(gpu["compute_capability"]), gpu["name"], cached=cached)
    return (kernel.name, config) != (record.picked, recorded(record.picked, record.config))


def mark(record: Record, run: Run) -> str:
    """Mark behind a pick that is not today's."""
    return " †" if is_stale(record, run) else ""


STALE = "†: today `matmul` picks another kernel or config."


def next_to_cublas(record: Record) -> str:
    """A speed over that of cuBLAS in the same run, with the quotient; alone where cuBLAS has no such product."""
    if record.baseline is None:
        return speed(record.gflops)
    return f"{speed(record.gflops)} / {speed(record.baseline.gflops)} = {ratio(record):.2f}"


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent), trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
)
_ENVIRONMENT.filters |= {"shown": shown, "speed": speed, "stale_in": is_stale, "ratio": ratio}
_ENVIRONMENT.globals |= {
    "baseline_speed": baseline_speed,
    "STALE": STALE,
    "is_stale": is_stale,
    "mark": mark,
    "next_to_cublas": next_to_cublas,
    "places": places,
    "quotient": quotient,
    "ratio": ratio,
    "share": share,
    "where": where,
}


def section(study: str) -> str:
    """The section of a study, of each of its runs one after the other; empty where nothing was measured.

    Raises:
        RecordsError: a file is none of measurements.
    """
    runs = [Measurements.load(path) for path in paths(study) if path.exists()]
    return "\n\n".join(block(f"{study}/table.md.j2", "table", run=run) for run in runs)


def block(template: str, name: str, **given: Any) -> str:
    """Text that one block of a template makes, without lines at its ends that hold nothing.

    Args:
        template: its path in the folder of studies.
        name: the block's.
        given: what the template's names stand for.
    """
    loaded = _ENVIRONMENT.get_template(template)
    return "".join(loaded.blocks[name](loaded.new_context(given))).strip()


def redraw(page: Path, sections: dict[str, str]) -> None:
    """Fill a page's sections in, and replace its file as a whole.

    Raises:
        OSError: the page cannot be read or written; it is left as it was.
    """
    write_whole(page, fill(page.read_text(encoding="utf-8"), sections).encode())


def fill(page: str, sections: dict[str, str]) -> str:
    """The page with the text between its markers replaced by the sections of their names."""
    for name, text in sections.items():
        before, found, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- end {name} -->")
        if found and end:
            body = f"\n{text}\n\n" if text else "\n"
            page = f"{before}{found}{body}{end}{after}"
    return page
