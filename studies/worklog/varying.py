"""Configs that pages compare: the sources' own, the tiles that one of them sweeps, split k, the order of tiles, and
what `matmul` picks. `python -m studies.worklog measure` measures them."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tilewright.core.hardware import WARP
from tilewright.core.problem import LAYOUTS, Arithmetic, Problem, orders
from tilewright.kernels import BEST, LADDER, find, resolve
from tilewright.kernels.kernel import Choice, Kernel, valid_configs
from tilewright.runtime.base import Engine

SWEPT_SHAPES = ("8192x8192x4096", "4096x4096x8192")
"""The sizes that the RTX 3060 notes report."""
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
_RASTERED = {"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 16, "STAGES": 6, "BLOCKS": 2}
RASTER_SHAPE = "4096x4096x4096"


class Task(NamedTuple):
    """A problem, and the kernels that take turns on it, or `BEST`."""

    problem: Problem
    choices: Sequence[Choice | str]


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


def tasks(engine: Engine) -> list[Task]:
    """All that the engine's GPU runs."""
    gpu = engine.capability
    runs = [
        Task(problem, [one for one in choices if gpu is None or one.kernel.support.runs_on(gpu, problem.dtype)])
        for problem, choices in _of_configs()
    ]
    picks = [
        Task(Problem.parse(shape, **dict(zip("ab", orders(layout), strict=True))), [BEST])
        for shape in SWEPT_SHAPES
        for layout in LAYOUTS
    ]
    return [*(task for task in runs if task.choices), *picks]


def _of_configs() -> list[tuple[Problem, list[Choice]]]:
    notes = list(dict.fromkeys([*presets("rtx3060").values(), *swept()]))
    found: list[tuple[Problem, list[Choice]]] = [(Problem.parse(shape), notes) for shape in SWEPT_SHAPES]
    by_types: dict[Arithmetic, list[Choice]] = {}
    for choice in presets("fastcuda").values():
        by_types.setdefault(choice.kernel.support.arithmetic(), []).append(choice)
    found += [(Problem.parse("4096", arithmetic=types), choices) for types, choices in by_types.items()]
    split_k = _variations(find("split_k"), _SPLIT, K_SLICES=(1, 2, 4), WORKERS=(0, 1, 2))
    found += [(Problem.parse(shape), split_k) for shape in SPLIT_SHAPES]
    raster = _variations(find("tma_packed"), _RASTERED, RASTER=(1, 2, 4, 8, 16))
    found.append((Problem.parse(RASTER_SHAPE), raster))
    groups = _variations(find("gemm_sm90"), _GROUPED, GROUP_M=(1, 2, 4, 8, 16, 32))
    bfloat16 = Arithmetic("bfloat16", "bfloat16")
    return [*found, (Problem.parse(GROUP_SHAPE, arithmetic=bfloat16), groups)]


def _variations(kernel: Kernel, fixed: Mapping[str, int], **varied: Sequence[int]) -> list[Choice]:
    """The configs of a kernel with every combination of some parameters' values that it can have."""
    combined = itertools.product(*varied.values())
    overrides = ({**fixed, **dict(zip(varied, values, strict=True))} for values in combined)
    return [Choice(kernel, config) for config in valid_configs(kernel, overrides)]
