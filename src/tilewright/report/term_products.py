"""Float32 products in each precision that `matmul` takes, next to cuBLAS's float32, from the records in results/.

Each cell's ratio is of its own record: precisions were measured in runs of their own.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tilewright.bench.records import Record, Run
from tilewright.bench.suites import Shape, shapes
from tilewright.gpus import Gpu
from tilewright.report.markdown import table
from tilewright.report.ratios import ratio, speed

_FOLDER = Path("results/h100")
RUNS = {
    "float32": _FOLDER / "best.json",
    "fp16x3": _FOLDER / "best_fp16x3.json",
    "bf16x3": _FOLDER / "best_bf16x3.json",
}
"""By precision, the run of `tilewright bench best` that has it."""

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

Measured = Mapping[str, Mapping[str, Record]]
"""By precision and sizes."""


class Found(NamedTuple):
    """What was measured."""

    records: Measured
    gpu: Gpu | None
    """The GPU of the first run; None where there are none."""
    elsewhere: Mapping[str, str] = {}
    """By precision, the name of the GPU of a run that is on another."""


def load() -> Found:
    """The records of all runs that there are: row-major, without batch or epilogue.

    Raises:
        RecordsError: a file is none of records.
    """
    records: dict[str, dict[str, Record]] = {}
    elsewhere: dict[str, str] = {}
    gpu = None
    for precision, path in RUNS.items():
        if not path.exists():
            continue
        run = Run.load(path)
        gpu = gpu or run.gpu
        if run.gpu != gpu:
            elsewhere[precision] = run.environment["gpu"]["name"]
        records[precision] = {record.shape: record for record in run.records}
    return Found(records, gpu, elsewhere)


def sections(found: Found) -> dict[str, str]:
    """Parts of pages, by name; empty where nothing was measured.

    Raises:
        RecordsError: a ratio is of another run.
    """
    measured = found.records
    split = {shape for name in measured if name != "float32" for shape in measured[name]}
    return {
        "claim": claim(found),
        "results": _table(found, RESULTS, [name for name in measured if name != "bf16x3"]) if measured else "",
        "terms": _table(found, _ordered(split, measured), list(measured)) if split else "",
    }


def claim(found: Found) -> str:
    """How fast and how exact large products were, in a sentence or two; empty where none was measured."""
    ours, fast = (_large(found.records.get(name, {}).values()) for name in ("float32", "fp16x3"))
    if not ours or found.gpu is None:
        return ""
    text = (
        f"On an NVIDIA {found.gpu.name}, float32 products with results of {LARGE} x {LARGE} or larger are "
        f"{_range(map(ratio, ours))} times as fast as cuBLAS's, with {_range(one.error_ratio for one in ours)} times "
        "its error on random inputs: they are made of products of bfloat16 on tensor cores, and what bfloat16 cannot "
        "hold is noticed on the device and computed in float32."
    )
    if fast and "fp16x3" not in found.elsewhere:
        text += (
            f' With `precision="fp16x3"` they are {_range(map(ratio, fast))} times as fast, with '
            f"{_range(one.error_ratio for one in fast)} times cuBLAS's error."
        )
    return text


def reading(found: Found, shape: str = "128x4096x14336") -> str:
    """What share of a product with few rows reading b takes, as a sentence; empty where it was not measured.

    Args:
        found: what was measured.
        shape: the product.
    """
    record = found.records.get("float32", {}).get(shape)
    if record is None or found.gpu is None:
        return ""
    us = 4e-3 * record.k * record.n / found.gpu.dram_gbs
    return (
        f"Reading b of {shape} takes {us:.0f} us at the {found.gpu.dram_gbs:,.0f} GB/s of the memory of an "
        f"{found.gpu.name}, {100 * us / record.time_us.median:.0f}% of that product's time."
    )


def _large(records: Iterable[Record]) -> list[Record]:
    """Large products on tensor cores."""
    return [one for one in records if one.precision and min(one.m, one.n) >= LARGE]


def _range(values: Iterable[float | None]) -> str:
    """The least and the largest of what is known."""
    known = [value for value in values if value is not None]
    return f"{min(known):.2f} to {max(known):.2f}"


def _ordered(names: Iterable[str], measured: Measured) -> list[str]:
    """Sizes in the order of the suites."""
    places = {shape: place for place, shape in enumerate(chain.from_iterable(shapes().values()))}
    records = {one.shape: one for of_precision in measured.values() for one in of_precision.values()}

    def place(name: str) -> int:
        one = records[name]
        return places.get(Shape(one.m, one.n, one.k), len(places))

    return sorted(names, key=place)


def _table(found: Found, rows: Iterable[str], precisions: list[str]) -> str:
    heads = ["m x n x k"]
    for name in precisions:
        on = f" on an {found.elsewhere[name]}" if name in found.elsewhere else ""
        heads += [f"{name}{on}: GFLOP/s / cuBLAS's", "error"]
    lines = [
        (shape, *(cell for name in precisions for cell in _cells(found.records[name].get(shape)))) for shape in rows
    ]
    return table(heads, lines, "l" + "rr" * len(precisions))


def _cells(record: Record | None) -> tuple[str, str]:
    """Speed over cuBLAS's with the quotient, and the error over cuBLAS's."""
    if record is None or record.baseline is None:
        return "", ""
    on_cuda_cores = "" if record.precision else "*"
    error = f"{record.error_ratio:.2f}" if record.error_ratio else ""
    return f"{speed(record.gflops)} / {speed(record.baseline.gflops)} = {ratio(record):.2f}{on_cuda_cores}", error
