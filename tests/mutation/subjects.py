"""Files that are mutated, and the kernels that each mutant of one is checked in."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tilewright.kernels import GROUPED, KERNELS, find
from tilewright.kernels.kernel import Kernel
from tilewright.runtime.included import included

from .operators import Mutant, mutants_of

RECORD = Path(__file__).parents[2] / "results" / "emulator" / "mutation.json"
_RECORD = json.loads(RECORD.read_text())
_RECORDED = {one["of"] for one in _RECORD["mutants"]} | _RECORD["not_run"].keys()

RUNGS = tuple(
    one.name
    for folder in ("ladder", "library")
    for one in (*KERNELS, *GROUPED)
    if one.source.parent.name == folder and one.name in _RECORDED
)
"""Kernels whose sources are mutated: those that the record has. `python -m tests.mutation NAME` adds one to it."""

HEADERS = {
    "tile_io.cuh": ("vectorized", "thread_tiled_1d"),
    "epilogue/ladder.cuh": ("vectorized", "thread_tiled_1d"),
    "pipeline/async_tile_io.cuh": ("async_copy",),
    "epilogue/ladder_wmma.cuh": ("wmma_f16",),
    "epilogue/ladder_wgmma.cuh": ("wgmma",),
    "pipeline/block_sums.cuh": ("skinny",),
    "pipeline/slices.cuh": ("tma_transposed", "split_k"),
    "pipeline/schedule.cuh": ("split_k", "tma_packed"),
    "pipeline/stage_barriers.cuh": ("gemm_sm90",),
    "pipeline/stage_products.cuh": ("gemm_sm90", "gemm_bf16x6", "gemm_fp16x3", "gemm_fp8", "gemm_fp8_blocks"),
    "pipeline/stage_turn.cuh": ("pingpong",),
    "pipeline/consumers.cuh": ("gemm_sm90",),
    "pipeline/swizzled_tile.cuh": ("gemm_sm90",),
    "pipeline/register_operand.cuh": ("gemm_tf32_nn", "gemm_fp8_nn"),
    "epilogue/stored_tiles.cuh": ("gemm_sm90",),
    "epilogue/transposed_tiles.cuh": ("gemm_sm90",),
    "epilogue/result.cuh": ("gemm_wmma", "gemm_mma", "split_k", "gemm_sm90"),
    "epilogue/activations.cuh": ("gemm_wmma",),
    "epilogue/warpgroup.cuh": ("gemm_mma",),
    "epilogue/swap_ab.cuh": ("gemm_tf32_nn", "gemm_tf32_tt"),
    "epilogue/warp_biases.cuh": ("gemm_mma",),
    "epilogue/tile.cuh": ("split_k",),
    "epilogue/fragments.cuh": ("gemm_wmma",),
    "pipeline/factor_scales.cuh": ("skinny_fp8", "gemm_mma_fp8", "gemm_mma_fp8_blocks", "gemm_fp8_blocks"),
    "ptx/matrix_descriptor.cuh": ("wgmma",),
    "operands.cuh": ("gemm_fp8_nn",),
    "pipeline/direct_load.cuh": ("skinny",),
    "pipeline/fragment_tile.cuh": ("gemm_mma",),
    "pipeline/shifted_copies.cuh": ("gemm_mma",),
    "float32_parts/part_range.cuh": ("gemm_mma_fp16x3",),
    "pipeline/tile_order.cuh": ("gemm_sm90",),
    "pipeline/grouped_order.cuh": ("grouped_sm90",),
    "pipeline/stage_tiles.cuh": ("gemm_sm90",),
    "float32_parts/small_m_stages.cuh": ("small_m_bf16x6",),
    "float32_parts/small_m_fallback.cuh": ("small_m_fp16x3",),
    "float32_parts/non_finite.cuh": ("gemm_bf16x6", "gemm_mma_fp16x3"),
    "float32_parts/tile_sums.cuh": ("small_m_bf16x6", "small_m_fp16x3"),
}
"""Headers that are mutated, and the kernels that are checked with each mutant: what one of them shows is found."""

OTHERS = {
    "gemm_mma": ("gemm_mma_fp8", "gemm_mma_bf16x3"),
    "gemm_bf16x3": ("gemm_fp8", "gemm_tf32_nn"),
    "grouped_sm90": ("grouped_fp8", "grouped_int8"),
}
"""Kernels of the same source that are checked with each mutant too."""

SUBJECTS = (*RUNGS, *HEADERS)

_KERNELS = find("naive").source.parents[1]
INCLUDE = _KERNELS / "include"
STAND_INS = _KERNELS.parent / "emulator" / "include"


class Subject(NamedTuple):
    """A file that is mutated."""

    name: str
    """Name of the kernel, or of the header."""
    path: Path
    kernels: tuple[str, ...]
    """That are checked with each mutant."""

    @property
    def file(self) -> str:
        """Its name, a header's with the folder."""
        return self.name if self.name in HEADERS else self.path.name

    @property
    def mutants(self) -> list[Mutant]:
        return list(mutants_of(self.path.read_text(), self.file))


def subject(name: str) -> Subject:
    """By its name."""
    if name in HEADERS:
        return Subject(name, INCLUDE / name, HEADERS[name])
    return Subject(name, find(name).source, (name, *OTHERS.get(name, ())))


def mutated(name: str, mutant: Mutant, folder: Path) -> Kernel:
    """A kernel with a mutant in the place of one of its files, in this folder."""
    kernel = find(name)
    folder.mkdir()
    shutil.copy(kernel.source, folder)
    for header, _ in included(kernel.source.read_text(), INCLUDE):
        if not (STAND_INS / header).exists():
            (folder / header).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(INCLUDE / header, folder / header)
    path = folder / mutant.file
    path.write_text(mutant.apply(path.read_text()))
    return replace(kernel, source=folder / kernel.source.name)
