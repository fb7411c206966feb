"""Redraws the measured tables in docs/frameworks.md from the records (`make docs` does)."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from studies.frameworks import comparisons as kinds
from studies.frameworks.comparisons import Comparison, Comparisons
from studies.markdown import table
from studies.pages import redraw
from tilewright.bench.records import PerCall
from tilewright.errors import TilewrightError

RECORDS = (Path("results/h200/frameworks.json"), Path("results/h100/frameworks_bf16.json"))
PAGE = Path("docs/frameworks.md")

_MS = 1000.0


def main() -> int:
    """Redraw the page; returns the exit status."""
    try:
        redraw(PAGE, sections([Comparisons.load(path) for path in RECORDS]))
    except (TilewrightError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def sections(runs: Sequence[Comparisons]) -> dict[str, str]:
    """The page's tables, by name, of runs of different comparisons."""
    found = [one for run in runs for one in run.comparisons]
    return {
        "machine": "Measured "
        + "; ".join(map(_machine, runs))
        + ". Both sides of a row took turns in one run; times are medians, and float32 is not rounded to TF32.",
        "torch": "\n\n".join(
            one
            for one in (
                _table(found, "microseconds", {"host time, compiled": kinds.COMPILED_CALL}, "size"),
                _table(found, "ms", {"by enable()": kinds.LAYER, "by matmul": kinds.LAYER_BY_MATMUL}, "linear layer"),
                _table(
                    found,
                    "ms",
                    {"step": kinds.EAGER, "step, compiled": kinds.COMPILED},
                    "model",
                    {
                        "losses differ by": _losses,
                        "peak memory, MiB: alone, tilewright": lambda one: _memory(one.peak_mib),
                        "held, MiB: alone, tilewright": lambda one: _memory(one.held_mib),
                    },
                ),
                _table(
                    found,
                    "ms",
                    {"step": kinds.BF16, "step, compiled": kinds.BF16_COMPILED},
                    "model in bfloat16",
                    {"losses differ by": _losses},
                ),
                _table(
                    found,
                    "ms",
                    {"step": kinds.SHORT, "step, compiled": kinds.SHORT_COMPILED},
                    "model, one short sequence",
                ),
                _table(
                    found,
                    "ms",
                    {"step": kinds.NOTHING_GAINS},
                    "enable() where nothing gains",
                    {"alone: fastest, slowest block, ms": _control},
                ),
            )
            if one
        ),
        "jax": _table(found, "microseconds", {"one product": kinds.CALL, "in a program": kinds.PROGRAM}, "size"),
        "cupy": _table(found, "microseconds", {"back to back": kinds.WALL, "host time": kinds.HOST}, "size"),
    }


def _machine(run: Comparisons) -> str:
    """What a run was measured on and with; of bfloat16 alone, it says so."""
    versions = ", ".join(dict.fromkeys(one.framework for one in run.comparisons))
    narrow = {kinds.BF16, kinds.BF16_COMPILED} >= {one.kind for one in run.comparisons}
    what = "what is in bfloat16 " if narrow else ""
    return f"{what}on an {run.environment['gpu']['name']} with {versions} at revision {run.environment['revision']}"


def _table(
    found: Iterable[Comparison],
    unit: str,
    columns: dict[str, str],
    head: str,
    more: dict[str, Callable[[Comparison], str]] | None = None,
) -> str:
    """A row for each thing that was timed: times by the framework alone and with tilewright, and their ratio; nothing
    where nothing was.

    Args:
        found: all comparisons.
        unit: of times.
        columns: the kinds of comparison to show, by what their columns are called.
        head: what the first column is called.
        more: further columns, made of the first kind.
    """
    by_kind = {kind: {one.what: one for one in found if one.kind == kind} for kind in columns.values()}
    first, more = next(iter(by_kind.values())), more or {}
    heads = [head, *(f"{name}: {part}" for name in columns for part in (f"alone, {unit}", "tilewright", "as fast"))]
    if not first:
        return ""
    rows = []
    for what, one in first.items():
        cells = [cell for of_kind in by_kind.values() for cell in _cells(of_kind.get(what), unit)]
        rows.append([what, *cells, *(text(one) for text in more.values())])
    return table([*heads, *more], rows, "l" + "r" * (len(heads) + len(more) - 1))


def _cells(one: Comparison | None, unit: str) -> Sequence[str]:
    """Times and their ratio, which is that of the times as they are printed."""
    if one is None:
        return "", "", ""
    scale, digits = (_MS, 2) if unit == "ms" else (1.0, 1)
    ours, baseline = (round(us / scale, digits) for us in (one.us.ours, one.us.baseline))
    return f"{baseline:,.{digits}f}", f"{ours:,.{digits}f}", f"{baseline / ours:.2f}x"


def _losses(one: Comparison) -> str:
    return "" if one.loss_difference is None else f"{one.loss_difference:.0e}"


def _control(one: Comparison) -> str:
    return "" if one.control_us is None else ", ".join(f"{us / _MS:,.2f}" for us in one.control_us)


def _memory(mib: PerCall | None) -> str:
    return "" if mib is None else f"{mib.baseline:,.0f}, {mib.ours:,.0f}"
