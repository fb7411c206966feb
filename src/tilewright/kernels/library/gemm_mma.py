"""Kernels of gemm_mma.cu: products by tensor cores through mma.sync, where there is no wgmma.

They multiply 16-bit factors; float32 factors, rounded to TF32 or as 16-bit parts; 8-bit factors with scales. They are
what `gemm_sm90` and its kin are on Hopper, from compute capability 8.0 on, float8 from 8.9.

    gemm_mma                     float16, bfloat16, in either order: ldmatrix transposes what lies across k
    gemm_mma_tf32                float32 rounded to TF32, along k; threads round in registers, to nearest, ties away
                                 from zero, the only way that Ampere has
    gemm_mma_fp8, _fast, _blocks float8, mixed too, along k; scales and promotion as in gemm_fp8
    gemm_mma_int8                8-bit integers, signed or not, along k, to exact int32 sums or what scales make of them
    gemm_mma_bf16x6 and others   float32 as parts, along k

Sums of 16 bits, of TF32 and of "fast" float8 stay in the tensor cores over all of k. Sums of float8 begin again every
128 of k; by default, those of the largest products of parts every 16 of k: Ampere's tensor cores add 8 products at a
time and keep a bit less, so that the precisions are met as on Hopper. A GPU with wgmma, or of compute capability 10.0,
has no float8 instruction for warps: the compiler makes float16 of float8 in registers; results are right, and more
exact.

Lines of 16-bit factors may start at any address (shifted_copies.cuh): of small products, a copy takes longer than that.
So gemm_mma is picked on Hopper too, where factors are unaligned and few.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from tilewright.core.dtypes import FLOAT8, INT8
from tilewright.core.gpus import COMPUTE_CAPABILITIES, FLOAT8_CAPABILITY
from tilewright.core.problem import FAST, SCALED_BLOCK
from tilewright.kernels.config import Config, listed_configs
from tilewright.kernels.cost_family import Warps
from tilewright.kernels.kernel import ALL_OF_K, Constraints, Kernel, Parameter, Sums
from tilewright.kernels.library import forms, schedule, splitting
from tilewright.kernels.orders import EXACT
from tilewright.kernels.support import EVERYTHING, VECTOR_BYTES
from tilewright.kernels.tiling import block_of_warps, holds, threads_of_warps

_SOURCE = Path(__file__).with_suffix(".cu")
_LINES = (32, 64, 128)
"""Bytes along k of a tile: those of an instruction, and at most those of all banks."""
_SUMS = 128
"""Sums of a thread, with those that tensor cores begin anew: 255 registers have room for them and for fragments of both
factors."""
_SIDES = (16, 32, 64)
"""Rows and columns of D that a warp computes."""
_SHARED_BYTES = COMPUTE_CAPABILITIES[9, 0].shared_per_block


@dataclass(frozen=True, kw_only=True)
class MmaForm(forms.KernelForm):
    """A kernel of this source: for factors of 16 or 8 bits, or for float32 factors, rounded to TF32 or split."""

    bk: int = 32
    """BK by default, as the next two are WN and STAGES."""
    wn: int = 64
    stages: int = 3
    promote: int = SCALED_BLOCK
    """k after which threads take over sums that begin anew; of parts PROMOTE by default. Two additions of Ampere's
    tensor cores are 16 k, of Hopper's 32: a sum of parts has so much there for the same error."""

    @property
    def memory_orders(self) -> bool:
        """Whether it reads factors in every order."""
        return self.item_bytes == 2 and self.split is None

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Elements of a line along k."""
        if self.promotes and self.split is None:
            return (self.promote,)
        return tuple(line // self.item_bytes for line in _LINES)


_FEW_ROWS = {"BM": 16, "BN": 64, "WM": 16, "WN": 16, "STAGES": 4}
"""A preset with the least that tensor cores multiply, by four warps."""
_SMALL_FP8 = {"BM": 64, "BN": 64, "WM": 32, "WN": 32}

_OF_TERMS = partial(forms.idea_of_terms, where="tensor cores by mma.sync")

FORMS = (
    MmaForm(
        name="gemm_mma",
        idea="16-bit factors on tensor cores by mma.sync, in every order of A and B",
        factors=forms.FLOAT16S,
        presets={
            "large": {"BN": 256},
            "small": {"BM": 64, "BN": 64, "BK": 64, "WM": 32, "WN": 32},
            "few_rows": {**_FEW_ROWS, "BK": 64},
        },
        portfolio=listed_configs(
            "BM BN BK WM WN STAGES GROUP_M WORKERS",
            (
                (32, 64, 64, 16, 32, 4, 8, 0),
                (64, 32, 64, 32, 16, 3, 1, 4),
                (32, 128, 32, 16, 64, 2, 8, 0),
                (64, 128, 64, 32, 64, 3, 1, 2),
                (64, 128, 64, 32, 64, 3, 8, 0),
                (32, 64, 64, 16, 32, 3, 1, 4),
                (64, 128, 32, 32, 64, 2, 8, 0),
                (128, 64, 64, 64, 32, 3, 1, 2),
                (16, 128, 64, 16, 32, 4, 8, 0),
                (64, 16, 64, 16, 16, 4, 1, 4),
                (32, 64, 32, 16, 32, 2, 8, 0),
                (128, 128, 32, 64, 64, 3, 8, 0),
                (64, 64, 64, 32, 32, 3, 8, 0),
                (128, 32, 64, 32, 32, 3, 1, 3),
                (16, 64, 64, 16, 16, 4, 1, 4),
                (64, 64, 32, 32, 32, 2, 8, 0),
            ),
        ),
    ),
    MmaForm(
        name="gemm_mma_tf32",
        idea="float32 factors rounded to TF32, on tensor cores by mma.sync",
        precision="tf32",
        bk=16,
        presets={
            "large": {"BN": 256},
            "small": {"BM": 64, "BN": 64, "BK": 32, "WM": 32, "WN": 32},
            "few_rows": {**_FEW_ROWS, "BK": 32},
        },
    ),
    MmaForm(
        name="gemm_mma_fp8",
        idea="float8 factors on tensor cores by mma.sync, sums promoted to float32",
        factors=FLOAT8,
        bk=128,
        wn=32,
        presets={"small": _SMALL_FP8, "few_rows": _FEW_ROWS},
    ),
    MmaForm(
        name="gemm_mma_fp8_fast",
        idea="float8 factors on tensor cores by mma.sync, sums of 13 bits",
        factors=FLOAT8,
        precision=FAST,
        bk=64,
        presets={"large": {"BN": 256}, "small": {**_SMALL_FP8, "BK": 128}},
    ),
    MmaForm(
        name="gemm_mma_fp8_blocks",
        idea="float8 factors with a scale of each 128 of k and row, or 128 rows or columns, "
        "on tensor cores by mma.sync",
        factors=FLOAT8,
        block_scales=True,
        bk=128,
        wn=32,
        presets={"small": _SMALL_FP8, "few_rows": _FEW_ROWS},
    ),
    MmaForm(
        name="gemm_mma_int8",
        idea="8-bit integers on tensor cores by mma.sync, sums exact in int32",
        factors=INT8,
        bk=64,
        presets={"large": {"BN": 256}, "small": {**_SMALL_FP8, "BK": 128}, "few_rows": {**_FEW_ROWS, "BK": 128}},
        portfolio=listed_configs(
            "BM BN BK WM WN STAGES GROUP_M",
            (
                (64, 64, 128, 32, 32, 3, 8),
                (32, 32, 128, 16, 16, 4, 8),
                (64, 64, 64, 32, 32, 2, 8),
                (64, 32, 128, 32, 16, 4, 8),
                (16, 64, 128, 16, 16, 4, 8),
                (64, 128, 128, 32, 64, 3, 8),
                (128, 128, 64, 64, 64, 3, 8),
            ),
        ),
    ),
    MmaForm(
        name="gemm_mma_int8_blocks",
        idea="8-bit integers with a scale of each 128 of k and row, or 128 rows or columns, "
        "on tensor cores by mma.sync",
        factors=INT8,
        block_scales=True,
        bk=128,
        wn=32,
        presets={"small": _SMALL_FP8, "few_rows": _FEW_ROWS},
    ),
    MmaForm(name="gemm_mma_bf16x6", idea=_OF_TERMS("bf16x6"), precision="bf16x6", wn=32, stages=2, promote=16),
    MmaForm(name="gemm_mma_bf16x3", idea=_OF_TERMS("bf16x3"), precision="bf16x3", wn=32, promote=32),
    MmaForm(name="gemm_mma_fp16x3", idea=_OF_TERMS("fp16x3"), precision="fp16x3", wn=32, promote=16),
)


def _shared_bytes(form: MmaForm, config: Config) -> int:
    """Bytes of all stages, or of what splits factors and what multiplies in float32 in their place."""
    stages = config.STAGES * form.item_bytes * config.BK * (config.BM + config.BN)
    if form.memory_orders:  # and the ends of lines, along k or across
        return stages + config.STAGES * VECTOR_BYTES * sum(max(side, config.BK) for side in (config.BM, config.BN))
    if form.split is None:
        return stages
    groups = max(threads_of_warps(config) // splitting.GROUP, 1)
    fallback = splitting.float32_block_bytes(config.BM, config.BN)
    not_finite = splitting.non_finite_bytes(config.BM, config.BN)
    return max(form.parts * stages, splitting.splitter_bytes(groups), fallback, not_finite)


def _workers(config: Config) -> int:
    """Blocks of a multiprocessor that share tiles."""
    return config.get("WORKERS", 0)


def _sums(form: MmaForm, config: Config) -> Sums:
    """One chain of instructions over all of k, unless sums begin anew; float8 has a kernel for each way of its sums."""
    if form.split:
        return Sums(promote=config.PROMOTE, separate=True)
    if form.integers:
        return Sums(None if form.block_scales else EXACT)
    order = None if form.float8 or _workers(config) else f"mma {_LINES[0] // form.item_bytes}"
    return Sums(order, ALL_OF_K if form.factors == ("float32",) else None)


_TERMS_ARE_SPLIT: Constraints = {
    "PROMOTE must be 16, 32 or 64, and divide BK": lambda c: c.PROMOTE in (16, 32, 64) and c.BK % c.PROMOTE == 0,
    f"(BM/WM)*(BN/WN)*32 must be at least {splitting.GROUP}, threads that split a square of a factor": lambda c: (
        threads_of_warps(c) >= splitting.GROUP
    ),
}
_OF_MEMORY_ORDERS: Constraints = {
    "BM and BN must be powers of two: lines of a tile may lie along them": lambda c: (
        c.BM & (c.BM - 1) == 0 and c.BN & (c.BN - 1) == 0
    ),
    "GROUP_M must be 1 where WORKERS is not 0: tiles that blocks share are counted row by row": lambda c: (
        c.GROUP_M == 1 or c.WORKERS == 0
    ),
    "WORKERS*threads*(WM*WN/32+88) must be at most 65536, a multiprocessor's registers": lambda c: (
        c.WORKERS * threads_of_warps(c) * (c.WM * c.WN // 32 + 88) <= 65536
    ),
    "WORKERS times STAGES tiles of A and of B, and 16 bytes, must fit a multiprocessor's 227 KiB": lambda c: holds(
        c.WORKERS, _shared_bytes(FORMS[0], c) + VECTOR_BYTES
    ),
}


def _constraints(form: MmaForm) -> Constraints:
    item, parts, depths = form.item_bytes, form.parts, form.depths
    sums = _SUMS // 2 if form.promotes else _SUMS
    depths_in_words = " or ".join(filter(None, (", ".join(map(str, depths[:-1])), str(depths[-1]))))
    return {
        "WM must be 16, 32 or 64: fragments have 16 rows": lambda c: c.WM in _SIDES,
        "WN must be 16, 32 or 64: fragments are loaded for 16 columns": lambda c: c.WN in _SIDES,
        "BM must be a multiple of WM, at most 256": lambda c: c.BM % c.WM == 0 and c.BM <= 256,
        "BN must be a multiple of WN, at most 256": lambda c: c.BN % c.WN == 0 and c.BN <= 256,
        f"BK must be {depths_in_words}: a line is at most 128 bytes": lambda c: c.BK in depths,
        f"WM*WN/32 must be at most {sums}, a thread's registers for sums": lambda c: sums >= c.WM * c.WN // 32,
        "(BM/WM)*(BN/WN)*32 must be at most 256, threads with 255 registers each": lambda c: threads_of_warps(c) <= 256,
        f"BM*BK and BN*BK must be multiples of {VECTOR_BYTES // item}*threads: "
        "every thread copies whole pieces of 16 bytes": lambda c: all(
            side * c.BK * item % (VECTOR_BYTES * max(threads_of_warps(c), 1)) == 0 for side in (c.BM, c.BN)
        ),
        "STAGES must be at least 2: one is copied while another is multiplied": lambda c: c.STAGES >= 2,
        **(_TERMS_ARE_SPLIT if form.split else {}),
        **(_OF_MEMORY_ORDERS if form.memory_orders else {}),
        f"STAGES*{parts} tiles of A and of B must take at most {_SHARED_BYTES} bytes, a block's memory": lambda c: (
            _shared_bytes(form, c) <= _SHARED_BYTES
        ),
    }


def _parameters(form: MmaForm) -> tuple[Parameter, ...]:
    promote = Parameter("PROMOTE", form.promote, (16, 32, 64), "k after which threads add up the largest products")
    return (
        Parameter("BM", 128, (16, 32, 64, 128), "rows of D that a block computes"),
        Parameter("BN", 128, (64, 128, 256), "its columns"),
        Parameter("BK", form.bk, form.depths, "how far a block's tiles of A and B reach along k"),
        Parameter("WM", 64, _SIDES, "rows of D that a warp computes"),
        Parameter("WN", form.wn, _SIDES, "its columns"),
        Parameter("STAGES", form.stages, (2, 3, 4), "tiles of A and of B in shared memory or in flight"),
        *((promote,) if form.split else ()),
        Parameter("GROUP_M", 8, (1, 4, 8, 16), "rows of tiles whose columns are computed one after the other"),
        *((schedule.parameter(0, (0, 3, 4, 5)),) if form.memory_orders else ()),
    )


def _kernel(form: MmaForm) -> Kernel:
    promote = {} if form.split else {"PROMOTE": form.promote if form.promotes else 0}
    constants = {**form.constants, **promote, **({} if form.memory_orders else {"WORKERS": 0})}
    oldest = FLOAT8_CAPABILITY if form.float8 else EVERYTHING.least_capability
    return Kernel(
        name=form.name,
        idea=form.idea,
        source=_SOURCE,
        parameters=_parameters(form),
        constraints=_constraints(form),
        constants=lambda config: constants,
        presets=form.presets,
        portfolio=form.portfolio,
        support=replace(form.support, least_capability=oldest),
        block=block_of_warps,
        shared_bytes=lambda config, layout: _shared_bytes(form, config),
        overlaps=True,
        arguments=("sizes", "A", "B", "output", "copy_a", "copy_b", "scales", "counters", "workspace"),
        relayouts=lambda config: None if form.memory_orders else ("row", "column"),
        split=form.split,
        schedule=schedule.schedule if form.memory_orders else None,
        cost=Warps(
            part=lambda config: (config.WM, config.WN),
            anew=form.promotes,
            workers=_workers,
            min_blocks=lambda config: max(_workers(config), 1),
        ),
        sums=lambda config: _sums(form, config),
    )


KERNELS = tuple(map(_kernel, FORMS))
