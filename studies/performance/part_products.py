"""Float32 products in each precision that `matmul` takes, next to cuBLAS's float32.

Each cell's ratio is of its own record: precisions were measured in runs of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from studies.performance.picks import in_order
from studies.results import runs
from studies.templates import block, is_stale, places
from tilewright.core.gpus import Gpu
from tilewright.tools.bench.records import Record
from tilewright.tools.report.ratios import ratio

PRECISIONS = ("float32", "fp16x3", "bf16x3")
"""Precisions of the committed runs, in their order."""

RESULTS = (
    "256x256x256",
    "1024x1024x1024",
    "4096x4096x4096",
    "8192x8192x8192",
    "4095x4095x4095",
    "8192x50257x768",
)
"""Problems of the short table."""

LARGE = 2048
"""Rows and columns of a result from which on a product counts as large."""

CLAIMED = 2.0
"""Times cuBLAS's speed that every product reaches in the range of k that the claim is about."""

Measured = Mapping[str, Mapping[str, Record]]
"""By precision and sizes."""


class Found(NamedTuple):
    """Measurements on one GPU."""

    records: Measured
    gpu: Gpu
    stale: frozenset[tuple[str, str]] = frozenset()
    """Precision and sizes of what `matmul` picks otherwise today."""
    where: str = ""
    """GPU, date and revision of each run."""


def load() -> Found:
    """The records of all precisions: row-major, without batch or epilogue, on one GPU.

    Raises:
        RecordsError: a file is none of records.
    """
    found = dict(zip(PRECISIONS, runs("precisions of matmul"), strict=True))
    (gpu,) = {run.gpu for run in found.values()}
    stale = ((name, one.shape) for name, run in found.items() for one in run.records if is_stale(one, run))
    records = {name: {one.shape: one for one in run.records} for name, run in found.items()}
    return Found(records, gpu, frozenset(stale), places(found.values()))


def sections(found: Found) -> dict[str, str]:
    """Parts of pages, by name.

    Raises:
        RecordsError: a ratio is of another run.
    """
    measured = found.records
    split = {shape: one for name in measured if name != "float32" for shape, one in measured[name].items()}
    every = [one.shape for one in in_order(list(split.values()))]
    return {
        "claim": claim(found),
        "results": _table(found, RESULTS, [name for name in measured if name != "bf16x3"]),
        "parts": _table(found, every, list(measured)),
    }


def claim(found: Found) -> str:
    """How fast and how exact large products were, and for which k, in a few sentences.

    The range of k ends at the largest that was measured. It begins at the smallest from which on every large product
    was at least `CLAIMED` times as fast as cuBLAS; what shorter k gave, or that none was measured, is said by itself.
    """
    ours, fast = (_by_depth(found.records.get(name, {}).values()) for name in ("float32", "fp16x3"))
    return block("performance/page.md.j2", "claim", gpu=found.gpu, ours=ours, fast=fast, least=LARGE, span=_span)


def reading(found: Found, shape: str = "128x4096x14336") -> str:
    """Share of a product with few rows that reading b takes, as a sentence.

    Args:
        found: what was measured.
        shape: the product.
    """
    return block("performance/page.md.j2", "reading", gpu=found.gpu, one=found.records["float32"][shape])


def _by_depth(records: Iterable[Record]) -> Mapping[str, Sequence[Record]]:
    """Large products, whatever kernel was picked: those from a k on that keeps them all at `CLAIMED` or faster, all of
    them where there is no such k, as claimed; and those with less k as shorter."""
    large = [one for one in records if min(one.m, one.n) >= LARGE and ratio(one) is not None]
    slow = max((one.k for one in large if (ratio(one) or 0.0) < CLAIMED), default=0)
    claimed = [one for one in large if one.k > slow]
    shorter = [one for one in large if one.k <= slow]
    return {"claimed": claimed, "shorter": shorter} if claimed else {"claimed": large, "shorter": []}


def _span(values: Iterable[float | None], form: str) -> str:
    """The least and the largest of what is known, as in '2.12 to 2.51'; one number where they are written alike."""
    known = [value for value in values if value is not None]
    least, most = format(min(known), form), format(max(known), form)
    return least if least == most else f"{least} to {most}"


def _table(found: Found, rows: Sequence[str], precisions: list[str]) -> str:
    stale = [one for one in found.stale if one[0] in precisions and one[1] in rows]
    given = {"measured": found.records, "measured_on": found.where, "rows": rows, "precisions": precisions}
    return block("performance/page.md.j2", "precisions", stale=stale, **given)
