"""Entries of tables, of what a bench or a tuning run measured."""

from collections.abc import Iterable

from tilewright.core.errors import TilewrightError
from tilewright.kernels import find, recorded
from tilewright.kernels.support import PROMISES
from tilewright.select.tables.cases import timed_case
from tilewright.select.tables.entry import Entry
from tilewright.tools.bench.records import Baseline, Record


def of_records(records: Iterable[Record], revision: str | None) -> list[Entry]:
    """Entries of what a GPU ran right, alpha and beta aside; of kernels that keep no promise there are none, nor of
    products with b prepared.

    Of records that are one problem and config in today's parameters, the fastest counts.
    """
    entries: dict[object, Entry] = {}
    for record in records:
        kernel = record.picked or record.kernel
        plain = record.engine == "cuda" and (record.alpha, record.beta) == (1.0, 0.0)
        if record.prepared or not (record.verified and plain and record.gflops and is_promising(kernel)):
            continue
        config = recorded(kernel, record.config)
        if config is None:
            continue
        entry = Entry(
            **{name: getattr(record, name) for name in ("m", "n", "k", "batch")},
            case=timed_case(record.problem),
            kernel=kernel,
            config=dict(config),
            gflops=_usual_gflops(record),
            baseline_gflops=_usual_gflops(record.baseline) if record.baseline and record.baseline.gflops else None,
            error_ratio=record.error_ratio,
            revision=revision,
            after_other_work=record.after_other_work_us is not None,
        )
        before = entries.get(entry.identity)
        if before is None or entry.gflops > before.gflops:
            entries[entry.identity] = entry
    return list(entries.values())


def _usual_gflops(one: Record | Baseline) -> float:
    """By `Timed.usual_us`."""
    return one.gflops if one.after_other_work_us is None else one.gflops * one.time_us.median / one.usual_us


def is_promising(kernel: str) -> bool:
    """Whether a kernel is there today, is one of the package, and meets the least of the precisions."""
    try:
        found = find(kernel)
    except TilewrightError:  # it is gone, or a source file that says something else today
        return False
    return not found.is_user_kernel and found.meets(PROMISES[-1])
