"""Configs that pages compare: the sources' own, the tiles that one of them sweeps, split k, the order of tiles.

Run as `python -m studies.worklog.varying --out PATH` on a machine with a GPU and cuBLAS. The configs of a problem
take turns, and every record names the kernels that cuBLAS launched. The file is written anew after each problem. A file
that a run left unfinished is continued: of problems that it has, nothing is measured again.
"""

import argparse
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from studies.runner import reporting
from tilewright.bench.environment import environment
from tilewright.bench.measure import measure
from tilewright.bench.records import Run
from tilewright.bench.run import baseline_library
from tilewright.core.errors import RecordsError
from tilewright.core.files import Output, check_outputs
from tilewright.core.hardware import WARP
from tilewright.core.problem import Arithmetic, Problem
from tilewright.engines.registry import resolve_engine
from tilewright.kernels import LADDER, find, resolve
from tilewright.kernels.spec import Choice, Kernel, valid_configs

SAMPLES = 15
SWEPT_SHAPES = ("8192x8192x4096", "4096x4096x8192")
"""The sizes that the RTX 3060 notes report."""
SQUARES = ("64", "128", "256", "512", "1024", "2048", "4096", "8192")
"""Where cuBLAS's kernels are named."""
SPLIT_SHAPES = ("256x256x256", "512x512x512", "16x4096x4096")
BAND_SHAPE = "8192x8192x8192"

_SWEPT_TILES = (16, 32, 64)
_SWEPT: Mapping[str, Sequence[tuple[int, int]]] = {
    "thread_tiled_1d": ((1, 2), (1, 4), (1, 8), (1, 16)),
    "thread_tiled_2d": ((2, 2), (4, 4), (8, 8)),
}
"""By rung, the tiles of a thread (TM, TN) of the notes' kernels, in every one of _SWEPT_TILES that they fit."""
_SPLIT = {"BM": 16, "BN": 32, "BK": 64, "TM": 4, "TN": 4, "STAGES": 3, "MIN_BLOCKS": 2}
_BANDS = {"BM": 128, "BN": 256, "STAGES": 4}


class Task(NamedTuple):
    """What takes turns."""

    problem: Problem
    choices: Sequence[Choice]


def swept() -> Iterator[Choice]:
    """The RTX 3060 notes' kernels with the tiles that a block of at least a warp can have."""
    for name, thread_tiles in _SWEPT.items():
        kernel, preset = resolve(f"{name}:rtx3060")
        for side, (rows, cols) in itertools.product(_SWEPT_TILES, thread_tiles):
            tile = {**preset, "BM": side, "BN": side, "BK": side, "TM": rows, "TN": cols}
            for config in valid_configs(kernel, [tile]):
                if kernel.threads(config) >= WARP:
                    yield Choice(kernel, config)


def presets(source: str) -> dict[str, Choice]:
    """The presets of rungs that a source's name begins, as in 'fastcuda': by name, as in 'naive:fastcuda_v1'."""
    return {
        f"{kernel.name}:{name}": Choice(kernel, kernel.config(values))
        for kernel in LADDER
        for name, values in kernel.presets.items()
        if name.startswith(source)
    }


def tasks() -> list[Task]:
    """All of them."""
    coalesced = Choice(find("coalesced"), find("coalesced").config())
    notes = list(dict.fromkeys([*presets("rtx3060").values(), *swept()]))
    found = [Task(Problem.parse(shape), [coalesced]) for shape in SQUARES]
    found += [Task(Problem.parse(shape), notes) for shape in SWEPT_SHAPES]
    by_types: dict[Arithmetic, list[Choice]] = {}
    for choice in presets("fastcuda").values():
        by_types.setdefault(choice.kernel.takes.arithmetic(), []).append(choice)
    found += [Task(Problem.parse("4096", arithmetic=types), choices) for types, choices in by_types.items()]
    split_k = _variations(find("split_k"), _SPLIT, K_SLICES=(1, 2, 4), WORKERS=(0, 1, 2))
    found += [Task(Problem.parse(shape), split_k) for shape in SPLIT_SHAPES]
    bands = _variations(find("gemm_sm90"), _BANDS, BAND=(1, 2, 4, 8, 16, 32))
    bfloat16 = Arithmetic("bfloat16", "bfloat16")
    return [*found, Task(Problem.parse(BAND_SHAPE, arithmetic=bfloat16), bands)]


def _variations(kernel: Kernel, fixed: Mapping[str, int], **varied: Sequence[int]) -> list[Choice]:
    """The configs of a kernel with every combination of some parameters' values that it can have."""
    combined = itertools.product(*varied.values())
    overrides = ({**fixed, **dict(zip(varied, values, strict=True))} for values in combined)
    return [Choice(kernel, config) for config in valid_configs(kernel, overrides)]


@reporting
def main() -> int:
    """Measure everything; returns the exit status: 1 where a result was wrong."""
    parser = argparse.ArgumentParser(prog="python -m studies.worklog.varying", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where the records are written")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="timed samples of each config")
    arguments = parser.parse_args()
    check_outputs([Output("--out", arguments.out, Run.kind())])
    engine = resolve_engine("cuda")
    library = baseline_library(engine)
    run = _begun(arguments.out, environment(engine))
    for problem, choices in tasks():
        taken = [choice for choice in choices if _runs(choice, problem, engine.capability)]
        if not taken or _has(run, problem, taken):
            continue
        measured = measure(engine, taken, problem, samples=arguments.samples, library=library, name_kernels=True)
        run.records.extend(measured)
        run.save(arguments.out)
        fastest = max(measured, key=lambda record: record.gflops)
        baseline = fastest.baseline
        print(
            f"{problem.shape} {problem.case}: {len(measured)} configs, fastest {fastest.kernel} "
            f"{fastest.gflops:,.0f} GFLOP/s, {baseline.name if baseline else 'no baseline'} "
            f"{baseline.gflops if baseline else 0:,.0f}",
            flush=True,
        )
    return 0 if run.verified else 1


def _begun(path: Path, facts: dict[str, Any]) -> Run:
    """What a file has of an earlier run on the same GPU, to be continued.

    Raises:
        RecordsError: its records are of another GPU.
    """
    if not path.exists() or not path.stat().st_size:
        return Run(environment=facts, records=[])
    run = Run.load(path)
    before, now = (named.get("gpu", {}).get("name") for named in (run.environment, facts))
    if before != now:
        raise RecordsError(f"--out takes records of this GPU, {now}, to continue; {path} has those of {before}")
    return Run(environment=facts, records=run.records)


def _has(run: Run, problem: Problem, choices: Sequence[Choice]) -> bool:
    """Whether a problem was measured with these configs."""
    measured = [(one.kernel, one.config) for one in run.records if one.problem == problem]
    return all((kernel.name, dict(config)) in measured for kernel, config in choices)


def _runs(choice: Choice, problem: Problem, capability: tuple[int, int] | None) -> bool:
    return capability is None or choice.kernel.runs_on(capability, problem.dtype)


if __name__ == "__main__":
    sys.exit(main())
