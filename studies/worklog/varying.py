"""Configs that pages compare: the sources' own, the tiles that one of them sweeps, split k, the order of tiles.

Run as `python -m studies.worklog.varying measure --out FILE` on a machine with a GPU and cuBLAS. The configs of a
problem take turns, and every record names the kernels that cuBLAS launched.
"""

import itertools
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from studies.runner import run
from tilewright.core.hardware import WARP
from tilewright.core.problem import Arithmetic, Problem
from tilewright.kernels import LADDER, find, resolve
from tilewright.kernels.kernel import Choice, Kernel, valid_configs
from tilewright.runtime.base import Engine
from tilewright.tools.bench.measure import measure
from tilewright.tools.bench.records import Record, Run
from tilewright.tools.bench.run import baseline_library

SAMPLES = 15
SWEPT_SHAPES = ("8192x8192x4096", "4096x4096x8192")
"""The sizes that the RTX 3060 notes report."""
SQUARES = ("64", "128", "256", "512", "1024", "2048", "4096", "8192")
"""Where cuBLAS's kernels are named."""
SPLIT_SHAPES = ("256x256x256", "512x512x512", "16x4096x4096")
GROUP_SHAPE = "8192x8192x8192"

_SWEPT_TILES = (16, 32, 64)
_SWEPT: Mapping[str, Sequence[tuple[int, int]]] = {
    "thread_tiled_1d": ((1, 2), (1, 4), (1, 8), (1, 16)),
    "thread_tiled_2d": ((2, 2), (4, 4), (8, 8)),
}
"""By rung, the tiles of a thread (TM, TN) of the notes' kernels, in every one of _SWEPT_TILES that they fit."""
_SPLIT = {"BM": 16, "BN": 32, "BK": 64, "TM": 4, "TN": 4, "STAGES": 3, "MIN_BLOCKS": 2}
_GROUPED = {"BM": 128, "BN": 256, "STAGES": 4}


class Task(NamedTuple):
    """A problem, and the kernels that take turns on it."""

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
        by_types.setdefault(choice.kernel.support.arithmetic(), []).append(choice)
    found += [Task(Problem.parse("4096", arithmetic=types), choices) for types, choices in by_types.items()]
    split_k = _variations(find("split_k"), _SPLIT, K_SLICES=(1, 2, 4), WORKERS=(0, 1, 2))
    found += [Task(Problem.parse(shape), split_k) for shape in SPLIT_SHAPES]
    groups = _variations(find("gemm_sm90"), _GROUPED, GROUP_M=(1, 2, 4, 8, 16, 32))
    bfloat16 = Arithmetic("bfloat16", "bfloat16")
    return [*found, Task(Problem.parse(GROUP_SHAPE, arithmetic=bfloat16), groups)]


def _variations(kernel: Kernel, fixed: Mapping[str, int], **varied: Sequence[int]) -> list[Choice]:
    """The configs of a kernel with every combination of some parameters' values that it can have."""
    combined = itertools.product(*varied.values())
    overrides = ({**fixed, **dict(zip(varied, values, strict=True))} for values in combined)
    return [Choice(kernel, config) for config in valid_configs(kernel, overrides)]


def options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--samples", type=int, default=SAMPLES, help="timed samples of each config")


def measurements(engine: Engine, samples: int) -> Iterator[Record]:
    """Every config of every problem that this GPU runs."""
    library = baseline_library(engine)
    for problem, choices in tasks():
        gpu = engine.capability
        taken = [choice for choice in choices if gpu is None or choice.kernel.support.runs_on(gpu, problem.dtype)]
        if taken:
            yield from measure(engine, taken, problem, samples=samples, library=library, name_kernels=True)


if __name__ == "__main__":
    raise SystemExit(run("worklog.varying", __doc__, measurements, options=options, kind=Run))
