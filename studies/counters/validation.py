"""Explained counters next to those of Nsight Compute, for rungs 1 to 12.

Run as `python -m studies.counters.validation --out PATH` on a machine with a GPU and the profiler: it profiles every
rung on every shape, then explains each and writes PATH as it goes. With `--explain-only` it explains anew what PATH
has, on any machine.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from studies.results import path
from studies.runner import reporting
from studies.templates import block
from tilewright.analysis.explanation import explain, to_json
from tilewright.bench import ncu
from tilewright.bench.environment import environment
from tilewright.core.errors import RecordsError
from tilewright.core.files import Output, check_outputs, save_json
from tilewright.core.gpus import Gpu, capability_of, find_gpu
from tilewright.core.problem import Problem
from tilewright.engines.registry import resolve_engine
from tilewright.kernels import LADDER, find
from tilewright.report.explain_tables import difference
from tilewright.report.kinds import COUNTERS

SHAPES = ("256x256x256", "197x131x67")
"""One that all tiles divide, one that nothing does."""
LAST_RUNG = 12

_SHARED = (
    "shared load wavefronts",
    "shared load bank conflicts",
    "shared store wavefronts",
    "shared store bank conflicts",
)
"""Counters that may be off by 5%; by instruction where the profiler has them so."""
_EXACT = (
    "global load requests",
    "global load sectors",
    "global store requests",
    "global store sectors",
    "ffma of threads",
)
"""Counters that must be equal to the last unit."""


def launches(capability: tuple[int, int], shapes: Sequence[str] = SHAPES) -> list[ncu.ProfiledLaunch]:
    """What is compared: the ladder's configs for GPUs of a compute capability."""
    return [
        ncu.ProfiledLaunch.of(
            kernel,
            kernel.config(capability=capability),
            Problem.parse(shape, arithmetic=kernel.takes.arithmetic()),
        )
        for kernel in LADDER
        if kernel.rung <= LAST_RUNG
        for shape in shapes
    ]


def compare(file: Path, shapes: Sequence[str], explain_only: bool = False) -> dict[str, Any]:
    """Profile and explain; the file is written anew after each launch.

    Raises:
        EngineUnavailableError: there is no GPU or profiler, or with explain_only no C++ compiler.
        RecordsError: the file cannot be read or written.
    """
    if explain_only:
        facts = load(file)
    else:
        ncu.check_available()
        engine = resolve_engine("cuda")
        assert engine.capability is not None
        listed = launches(engine.capability, shapes)
        counted = ncu.profile(listed)
        rows = [
            {"launch": one.model_dump(), "ncu": counts, "explained": None}
            for one, counts in zip(listed, counted, strict=True)
        ]
        facts = {"environment": environment(engine), "rows": rows}
        _save(file, facts)
    device = facts["environment"]["gpu"]
    gpu = find_gpu(device["name"], capability_of(device["compute_capability"]))
    for row in facts["rows"]:
        row["explained"] = explained(ncu.ProfiledLaunch(**row["launch"]), gpu)
        _save(file, facts)
        print(_summary(row), flush=True)
    return facts


def explained(launch: ncu.ProfiledLaunch, gpu: Gpu) -> dict[str, Any]:
    """The counters of a launch that the comparison keeps."""
    kernel = find(launch.kernel)
    facts = to_json(explain(kernel, kernel.config(launch.config), launch.problem, gpu))
    return {name: facts[name] for name in (*dict.fromkeys(metric.path[0] for metric in ncu.METRICS), "notes")}


def _summary(row: dict[str, Any]) -> str:
    """A launch and the counters in which the two differ."""
    apart = [
        f"{one.name} {difference(one.ours, one.theirs)}"
        for one in _rows(row)
        if one.ours is not None and one.theirs is not None and one.ours != one.theirs
    ]
    return f"{row['launch']['kernel']} {row['launch']['shape']}: {', '.join(apart) or 'equal'}"


def _rows(row: dict[str, Any]) -> list[ncu.Row]:
    return ncu.compare(row["explained"], row["ncu"]) if row["explained"] else []


def load(file: Path) -> dict[str, Any]:
    """A comparison.

    Raises:
        RecordsError: the file cannot be read, or is none.
    """
    try:
        facts: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(facts["environment"], dict) or not all(
            "ncu" in row and "launch" in row for row in facts["rows"]
        ):
            raise KeyError("rows")
    except OSError as error:
        raise RecordsError(f"cannot read the comparison in {file}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise RecordsError(f"{file} is not a comparison of counters: {error}") from error
    return facts


def markdown(facts: dict[str, Any]) -> str:
    """One row a launch: what the profiler counted, and how far the explained counters are off."""
    rows = [(row["launch"], _judged(row)) for row in facts["rows"]]
    return block("counters/tables.md.j2", "validation", rows=rows, names=(*_EXACT, *_SHARED), difference=difference)


def failures(facts: dict[str, Any], within: float = 0.05) -> Iterator[str]:
    """Where the two differ by more than they may: global memory and multiply-adds at all, shared memory by 5%."""
    for row in facts["rows"]:
        for name, one in _judged(row).items():
            if one.ours is None or one.theirs is None:
                continue
            if abs(one.ours - one.theirs) > (within * one.theirs if name in _SHARED else 0):
                yield f"{row['launch']['kernel']} {row['launch']['shape']}: {name} {one.ours:,}, not {one.theirs:,}"


def _judged(row: dict[str, Any]) -> dict[str, ncu.Row]:
    """The counters that must agree."""
    named = {one.name: one for one in _rows(row)}
    found = {name: named[name] for name in _EXACT if name in named}
    for name in _SHARED:
        if name in named:
            without_waits = named.get(f"{name}{ncu.BY_INSTRUCTION}")
            found[name] = without_waits if without_waits and without_waits.theirs is not None else named[name]
    return found


def _save(file: Path, facts: dict[str, Any]) -> None:
    save_json(file, facts, f"the comparison to {file}")


@reporting
def main() -> int:
    """Compare; returns the exit status: 0 where all counters agree as they must."""
    parser = argparse.ArgumentParser(prog="python -m studies.counters.validation", description=__doc__)
    parser.add_argument("--out", type=Path, default=path("counters"), help="where the comparison is written")
    parser.add_argument("--shape", action="append", help=f"MxNxK; {' and '.join(SHAPES)} if left out")
    parser.add_argument("--explain-only", action="store_true", help="explain anew what the file has, without a GPU")
    arguments = parser.parse_args()
    check_outputs([Output("--out", arguments.out, COUNTERS)])
    facts = compare(arguments.out, arguments.shape or SHAPES, arguments.explain_only)
    failed = list(failures(facts))
    print("\n".join(failed) or "all counters agree as they must")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
