"""Files of records that are committed, by the studies that read them. No other module knows where they are."""

import contextlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tilewright.core.errors import RecordsError
from tilewright.core.gpus import Gpu
from tilewright.tools.bench.records import Run

FOLDER = Path("results")
H200 = FOLDER / "h200"
COURSE = next((one for one in ("h200", "h100") if (FOLDER / one / "machine.json").exists()), "h200")
"""Folder of the GPU that the worklog quotes: the one that was measured for it."""


def _in(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}.json" for name in names)


RECORDS: Mapping[str, tuple[str, ...]] = {
    # Runs of `tilewright bench`: of the rungs, ...
    "ladder": _in(COURSE, "ladder"),
    "machine": _in(COURSE, "machine"),
    "occupancy": _in(COURSE, "occupancy"),
    "casts": _in(COURSE, "casts"),
    "cublas": _in(COURSE, "cublas"),
    "emulated": _in("emulator", "ladder"),
    # ... and of what matmul picks: on the GPU of the ladder, in each precision of float32, and of all cases.
    "picks": _in("h200", "best"),
    "orders": _in("h200", "orders"),
    "precisions of matmul": _in("h100", "best", "best_fp16x3", "best_bf16x3"),
    "cases": (
        *_in("h200", "best", "best_fp16x3", "best_bf16x3", "orders", "batched", "decode", "epilogues", "best_bf16"),
        *_in("h200", "best_bf16_column", "best_f16", "batched_bf16", "epilogues_bf16", "decode_bf16"),
        *_in("h200", "batch_invariant", "best_tf32"),
        *_in("h100", "decode", "best_bf16", "best_bf16_column", "batched_bf16", "epilogues_bf16", "decode_bf16"),
        *_in("h100", "best_f16", "best_tf32", "best_tf32_nt", "best_tf32_tn", "best_tf32_tt"),
        *_in("h100", "best_fp8", "best_fp8_across", "best_fp8_blocks"),
    ),
    "end_to_end": (
        *_in("h200", "end_to_end", "end_to_end_llm", "end_to_end_bf16"),
        *_in("h100", "end_to_end_bf16"),
    ),
    "prepared": (*_in("h200", "prepared"), *_in("h100", "prepared_fp16x3")),
    "variations": _in(COURSE, "variations"),
    # A rung that was measured later than the others, in a run of its own; the files may be missing.
    "wgmma_int8": _in(COURSE, "wgmma_int8", "wgmma_int8_in_a_row"),
    # Measurements of studies.
    "clients": _in("h200", "clients"),
    "first_calls": _in("h200", "first_calls"),
    "steps": _in("h200", "steps"),
    "judged": ("h200/unseen/judged.jsonl.xz",),
    "surveyed": ("h200/unseen/survey_bfloat16.jsonl.xz",),
    "heuristics": ("h200/unseen/heuristics.jsonl.xz",),
    "float32_way": _in("h100", "float32_way"),
    "frameworks": (*_in("h200", "frameworks"), *_in("h100", "frameworks_bf16")),
    "grouped": _in("h200", "grouped"),
    "precisions": _in("h100", "precisions"),
    "scaling": _in("h100", "distributed", "distributed_float32", "split_bf16", "parallel_block", "out_of_core", "link"),
    "sustained": _in("h100", "sustained"),
    "changes in a row": _in("h200", "sustained_changes"),
    # What the profiler counted, of the ladder and of the library; and next to explained counters.
    "profiles": _in(f"{COURSE}/ncu", "profiles"),
    "profiles of the library": _in("h200/ncu", "library"),
    "counters": _in("h200/ncu", "comparison"),
    "bank conflicts": _in("h200/ncu", "bank_conflicts"),
    # Tuning: journals of searches.
    "searches": ("h200/tuning/exhaustive.jsonl", "h200/tuning/ranked.jsonl"),
    # What pages count and compute on the emulator and by the cost model.
    "counts": _in("emulator", "counts"),
    "errors": _in("emulator", "errors"),
    "sources": _in("emulator", "sources"),
    "predicted": _in("emulator", "predicted"),
    # What Triton compiled.
    "triton": _in("emulator", "triton"),
}


def paths(name: str) -> list[Path]:
    """The files of a study."""
    return [FOLDER / file for file in RECORDS[name]]


def path(name: str) -> Path:
    """The file of a study that has one."""
    (one,) = paths(name)
    return one


@cache
def course_gpu() -> Gpu:
    """The GPU of the worklog's records.

    Raises:
        RecordsError: there are none.
    """
    return Run.load(path("ladder")).gpu


def change(name: str) -> Path:
    """A run before or after a change of kernels."""
    return FOLDER / "changes" / f"{name}.json"


def runs(*names: str) -> list[Run]:
    """Runs of `tilewright bench`.

    Raises:
        RecordsError: a file cannot be read, or is none of records.
    """
    return [Run.load(path) for name in names for path in paths(name)]


def every_run(folder: Path) -> dict[Path, Run]:
    """All runs of `tilewright bench` in a folder, by their files; its other files are left out."""
    found = {}
    for file in sorted(folder.glob("*.json")):
        with contextlib.suppress(RecordsError):
            found[file] = Run.load(file)
    return found
