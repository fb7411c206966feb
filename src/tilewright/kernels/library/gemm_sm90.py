"""Kernels of gemm_sm90.cu: products by Hopper's warpgroups, of 16-bit factors in either order, parts, TF32, 8 bits.

Parts are those of float32 factors, see `forms`. TF32 has 10 bits of mantissa: the copy engine rounds elements to the
nearest as it loads them. Infinity and NaN stay as they are; numbers from 2^128 - 2^116 on become infinite.

wgmma multiplies TF32 and 8 bits from shared memory along k alone, and its A from registers too. So `gemm_tf32`,
`gemm_fp8` and `gemm_int8` read a row-major A and a column-major B in place, `gemm_tf32_tt` a column-major A too, and
`gemm_tf32_nn`, `gemm_fp8_nn` and `gemm_int8_nn` row-major factors, as those of D^T = B^T A^T. Others are transposed by
`relayout` first.

Tensor cores keep 13 bits of mantissa of sums of float8 products. So of `gemm_fp8` threads add what they made to float32
sums every 128 of k, `gemm_fp8_blocks` times the scales of these blocks; of `gemm_fp8_fast` tensor cores add up all.

Parameters are ways to use one loop:

    PINGPONG           each consumer computes tiles of its own; one stores while the other multiplies. Most problems
                       with more tiles than multiprocessors.
    CONSUMERS 1, 3     1: small tiles, alone or with SPLITS (512, few rows of A). 3: 192 rows, with up to 200 columns in
                       registers (2056, where these tiles fill the GPU once).
    CLUSTER_M 2, 4, 8    blocks one below the other load parts of a tile of B for all of them (multicast): equal ones in
                       eights, of more than its columns where BN is no multiple of them. Large tiles, and rows that
                       straddle lines of the L2 cache (1000).
    CLUSTER_N 2, 4     blocks side by side load parts of A; with CLUSTER_M, a grid of up to eight blocks loads both.
                       Rows that straddle lines of the L2 cache (2056); few rows, which all blocks load.
    TMA_STORE_STAGES   16-bit results go through shared memory, and the copy engine stores them: the next tile is
                       multiplied meanwhile. Most problems with tiles of whole lines.
    SPLITS             blocks of a cluster, or of several grids of blocks that load for each other, share the k of one
                       tile and add up their sums. Few tiles, long k.
    SWAP_AB            D^T = B^T A^T is computed, of 16 or 8 bits: BM and CLUSTER_M are of columns of D, BN and
                       CLUSTER_N of rows, and GROUP_M of columns of tiles. A few hundred rows: tiles have any multiple
                       of 8.

A and B are read in place in every order; operands whose rows are not aligned are copied first. A row-major B lies in
blocks of 64 columns, the last of which is loaded whole where BN is no multiple of 64 (of 32, where BN is a multiple of
that alone). An operand with fewer lines along k than its tile has is loaded in boxes of its lines alone, in eights, and
stages wait for these bytes; where blocks load for each other, boxes are whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

from tilewright.core.dtypes import FLOAT8, INT8
from tilewright.core.hardware import ceil_div, round_up
from tilewright.core.problem import FAST, SCALED_BLOCK, Order, Problem
from tilewright.kernels import warpgroups
from tilewright.kernels.config import Config, listed_configs
from tilewright.kernels.cost_family import Warpgroups
from tilewright.kernels.kernel import ALL_OF_K, Constraints, Kernel, Parameter, Schedule, Sums, Tile
from tilewright.kernels.library import forms, splitting
from tilewright.kernels.orders import EXACT
from tilewright.kernels.split import SCALED_K
from tilewright.kernels.tensor_box import BOX_SIDE, TensorBox

_CONSUMERS = 2
"""Warpgroups that multiply, by default."""
SUMS = {1: 192, 2: 192, 3: 100}
"""By consumers, the sums that a thread's registers have room for: NVRTC then spills none, with any epilogue."""
_SCALED_SUMS = 80
"""Sums of three consumers that are integers, with any scales."""
_REPEATS = 8
"""Lines after which the swizzle's pattern begins anew."""
_PLAIN, _PRECISIONS = Path(__file__).with_suffix(".cu"), Path(__file__).with_name("gemm_sm90_precisions.cu")
"""Sources for 16-bit factors, and for all others."""
_INSTRUCTION_BYTES = 32
"""Bytes of a line along k that one instruction multiplies."""
_TRANSPOSED = str.maketrans("NT", "TN")
_WIDTHS = (32, 48, 64, 96, 112, 128, 160, 176, 192, 208, 224, 256)


_OF_TERMS = partial(forms.idea_of_terms, where="Hopper's tensor cores")

_PORTFOLIO = listed_configs(
    "BM BN STAGES GROUP_M PINGPONG CLUSTER_M CLUSTER_N SPLITS CONSUMERS TMA_STORE_STAGES SWAP_AB",
    (
        (64, 64, 14, 8, 1, 4, 2, 1, 2, 0, 0),
        (128, 128, 6, 8, 0, 1, 2, 1, 2, 2, 0),
        (128, 64, 9, 4, 0, 2, 1, 4, 2, 0, 0),
        (64, 64, 14, 4, 0, 1, 1, 4, 1, 0, 0),
        (64, 128, 8, 8, 1, 4, 2, 1, 2, 2, 0),
        (64, 64, 14, 4, 0, 1, 1, 1, 1, 0, 0),
        (128, 192, 5, 8, 1, 2, 1, 1, 2, 0, 0),
        (64, 56, 14, 8, 0, 1, 4, 1, 1, 0, 0),
        (64, 64, 14, 4, 0, 1, 1, 8, 1, 0, 0),
        (64, 192, 6, 8, 1, 4, 1, 1, 2, 1, 0),
        (64, 32, 8, 4, 0, 1, 1, 1, 1, 0, 0),
        (192, 176, 4, 8, 0, 1, 2, 1, 3, 0, 0),
        (64, 160, 7, 8, 1, 4, 1, 1, 2, 1, 1),
        (64, 128, 9, 4, 0, 1, 1, 4, 1, 0, 0),
        (64, 96, 7, 16, 1, 2, 1, 1, 2, 0, 0),
        (128, 160, 5, 8, 0, 2, 1, 1, 2, 0, 0),
        (64, 64, 7, 16, 1, 2, 1, 1, 2, 0, 0),
        (128, 128, 6, 1, 0, 2, 1, 1, 2, 2, 0),
        (64, 32, 12, 4, 0, 1, 1, 4, 1, 0, 0),
        (64, 64, 13, 8, 1, 4, 2, 1, 2, 1, 1),
        (128, 128, 6, 8, 0, 4, 2, 1, 2, 2, 0),
        (64, 32, 7, 4, 1, 1, 1, 1, 2, 0, 0),
        (128, 256, 4, 8, 0, 2, 1, 1, 2, 0, 0),
        (64, 88, 9, 8, 0, 4, 2, 1, 1, 1, 1),
    ),
)
"""Configs that together are near the fastest, those first that most problems need."""

_OF_OTHER_TYPES = listed_configs(
    "BM BN STAGES GROUP_M PINGPONG CLUSTER_M CLUSTER_N SPLITS CONSUMERS",
    (
        (64, 64, 7, 16, 1, 2, 1, 1, 2),
        (64, 64, 14, 4, 0, 1, 1, 8, 1),
        (128, 192, 5, 8, 1, 2, 1, 1, 2),
        (64, 128, 7, 16, 1, 1, 1, 1, 2),
        (64, 32, 8, 4, 0, 1, 1, 1, 1),
        (64, 64, 14, 4, 0, 1, 1, 4, 1),
        (128, 256, 4, 8, 0, 2, 1, 1, 2),
        (64, 192, 7, 4, 0, 1, 1, 4, 1),
        (64, 96, 7, 16, 1, 2, 1, 1, 2),
        (64, 64, 7, 16, 1, 1, 1, 1, 2),
        (64, 128, 9, 4, 0, 1, 1, 4, 1),
        (64, 144, 6, 4, 0, 4, 1, 1, 1),
        (192, 176, 4, 8, 0, 1, 2, 1, 3),
        (64, 64, 14, 4, 0, 1, 1, 1, 1),
        (64, 32, 12, 4, 0, 1, 1, 4, 1),
        (128, 160, 5, 8, 0, 2, 1, 1, 2),
    ),
)
"""The portfolio of TF32 and float8, as far as registers and memory allow."""

_OF_INTEGERS = listed_configs(
    "BM BN STAGES GROUP_M PINGPONG CLUSTER_M CLUSTER_N SPLITS CONSUMERS SWAP_AB",
    (
        (128, 192, 5, 8, 1, 2, 1, 1, 2, 0),
        (128, 128, 6, 8, 1, 2, 1, 1, 2, 0),
        (64, 32, 8, 4, 0, 1, 1, 1, 1, 0),
        (64, 32, 12, 4, 0, 1, 1, 4, 1, 0),
        (64, 96, 7, 16, 1, 2, 1, 1, 2, 0),
        (128, 128, 6, 8, 0, 4, 2, 1, 2, 0),
        (64, 64, 14, 4, 0, 1, 1, 1, 1, 0),
        (64, 32, 7, 4, 1, 1, 1, 1, 2, 0),
        (64, 64, 7, 16, 1, 2, 1, 1, 2, 0),
        (64, 32, 14, 4, 0, 1, 1, 4, 1, 1),
        (64, 96, 9, 8, 0, 4, 2, 1, 1, 1),
        (128, 160, 5, 8, 0, 2, 1, 1, 2, 0),
        (64, 64, 14, 4, 0, 1, 1, 4, 1, 1),
        (64, 16, 12, 4, 0, 1, 1, 1, 1, 0),
        (128, 112, 6, 8, 0, 1, 1, 1, 2, 1),
        (64, 64, 14, 4, 0, 1, 1, 8, 1, 0),
    ),
)
_OF_INTEGERS_ACROSS_K = listed_configs(
    "BM BN STAGES GROUP_M PINGPONG CLUSTER_M SPLITS CONSUMERS",
    (
        (128, 128, 6, 8, 0, 2, 1, 2),
        (64, 32, 8, 4, 0, 1, 1, 1),
        (128, 192, 4, 8, 0, 2, 1, 2),
        (64, 64, 7, 16, 1, 1, 1, 2),
        (64, 64, 12, 4, 0, 1, 4, 1),
        (128, 128, 6, 8, 0, 1, 1, 2),
        (64, 32, 12, 4, 0, 1, 4, 1),
        (64, 64, 8, 8, 1, 2, 1, 2),
    ),
)

_OF_THREE_PARTS = listed_configs(
    "BM BN STAGES GROUP_M PINGPONG CLUSTER_M CLUSTER_N SPLITS",
    (
        (64, 128, 3, 8, 1, 1, 1, 1),
        (128, 96, 2, 8, 0, 1, 1, 1),
        (128, 96, 2, 8, 0, 1, 1, 2),
        (128, 128, 2, 16, 0, 1, 1, 1),
        (128, 112, 2, 8, 0, 1, 1, 1),
        (64, 96, 3, 8, 1, 1, 1, 1),
        (128, 80, 2, 8, 0, 1, 1, 1),
        (128, 128, 2, 8, 0, 2, 1, 1),
        (64, 64, 4, 8, 1, 1, 1, 1),
        (128, 64, 3, 8, 0, 1, 1, 1),
    ),
)
_OF_TWO_PARTS = tuple(one | {"STAGES": one["STAGES"] + 1} for one in _OF_THREE_PARTS if one["BN"] not in (80, 112))
"""Two parts leave memory for more stages."""


@dataclass(frozen=True, kw_only=True)
class WgmmaForm(forms.KernelForm):
    """A kernel of this source: for factors of 16 or 8 bits, or for float32 factors, rounded to TF32 or split."""

    bn: int = 256
    """BN by default."""
    stages: int = 4
    """STAGES by default."""
    portfolio: Sequence[Mapping[str, int]] = _OF_OTHER_TYPES
    across_k: Literal["A", "B"] | None = None
    """The factor, of TF32 or 8 bits, that lies across k and is multiplied from registers. With 'B' the kernel computes
    D^T = B^T A^T, and parameters are those of this product."""

    @cached_property
    def in_registers(self) -> bool:
        """Whether threads hand the tensor cores their first factor in registers."""
        return self.across_k is not None

    @cached_property
    def swap_ab(self) -> bool:
        """Whether it computes D^T."""
        return self.across_k == "B"

    @cached_property
    def may_swap(self) -> bool:
        """Whether a config says if it computes D^T."""
        eight = (self.float8 or self.integers) and not self.in_registers and not self.block_scales
        return self.factors == forms.FLOAT16S or eight

    def swaps(self, config: Config) -> bool:
        """Whether it computes D^T with a config."""
        return getattr(config, "SWAP_AB", 0) == 1 if self.may_swap else self.swap_ab

    @cached_property
    def line(self) -> int:
        """Elements of a line of 128 bytes: a tile's k."""
        return warpgroups.LINE_BYTES // self.item_bytes

    @cached_property
    def along_k(self) -> bool:
        """Whether wgmma multiplies such elements along k alone."""
        return self.item_bytes != warpgroups.ITEM_BYTES

    @cached_property
    def orders(self) -> tuple[Order | None, Order | None]:
        """The orders in which it reads A and B."""
        if not self.along_k:
            return None, None
        return "column" if self.across_k == "A" else "row", "row" if self.swap_ab else "column"

    def in_stages(self, config: Config, layout: str) -> str:
        """The orders of tiles in shared memory, of factors in these orders: of what is multiplied."""
        if self.along_k:
            return "TT" if self.in_registers else "NT"
        return layout[::-1].translate(_TRANSPOSED) if self.swaps(config) else layout

    @cached_property
    def stores(self) -> bool:
        """Whether the copy engine stores results, where a config says so."""
        return self.factors != ("float32",) and not self.swap_ab


FORMS = (
    WgmmaForm(
        name="gemm_sm90",
        idea="16-bit factors on Hopper's tensor cores by warpgroups, in every order of A and B",
        factors=forms.FLOAT16S,
        presets={"few_rows": {"BN": 104, "STAGES": 6, "TMA_STORE_STAGES": 1, "SWAP_AB": 1}},
        portfolio=_PORTFOLIO,
    ),
    WgmmaForm(
        name="gemm_bf16x6", idea=_OF_TERMS("bf16x6"), precision="bf16x6", bn=128, stages=2, portfolio=_OF_THREE_PARTS
    ),
    WgmmaForm(
        name="gemm_bf16x3", idea=_OF_TERMS("bf16x3"), precision="bf16x3", bn=128, stages=3, portfolio=_OF_TWO_PARTS
    ),
    WgmmaForm(
        name="gemm_fp16x3", idea=_OF_TERMS("fp16x3"), precision="fp16x3", bn=128, stages=3, portfolio=_OF_TWO_PARTS
    ),
    WgmmaForm(
        name="gemm_tf32",
        idea="float32 factors rounded to TF32 on Hopper's tensor cores by warpgroups",
        precision="tf32",
        presets={"narrow": {"BN": 64, "STAGES": 6}},
    ),
    WgmmaForm(
        name="gemm_tf32_nn",
        idea="row-major float32 factors rounded to TF32, of which threads hand the tensor cores B in registers",
        precision="tf32",
        across_k="B",
        presets={
            "narrow": {"BN": 64, "STAGES": 8},
            "few_tiles": {"BN": 128, "STAGES": 7, "SPLITS": 2},
            "few_rows": {"BN": 128, "STAGES": 7, "SPLITS": 4},
            "fewest_rows": {"BN": 16, "STAGES": 12, "SPLITS": 2},
        },
    ),
    WgmmaForm(
        name="gemm_tf32_tt",
        idea="column-major float32 factors rounded to TF32, of which threads hand the tensor cores A in registers",
        precision="tf32",
        across_k="A",
        presets={"narrow": {"BN": 64, "STAGES": 8}},
    ),
    WgmmaForm(
        name="gemm_fp8",
        idea="float8 factors on Hopper's tensor cores by warpgroups, sums promoted to float32",
        factors=FLOAT8,
        bn=128,
        stages=6,
        presets={
            "large": {"BM": 256, "STAGES": 4, "CLUSTER_M": 2},
            "narrow": {"BN": 64, "STAGES": 8},
            "split": {"BN": 64, "SPLITS": 4},
            "few_rows": {"BN": 104, "TMA_STORE_STAGES": 1, "SWAP_AB": 1},
        },
    ),
    WgmmaForm(
        name="gemm_fp8_nn",
        idea="row-major float8 factors, of which threads hand the tensor cores B in registers, "
        "sums promoted to float32",
        factors=FLOAT8,
        bn=128,
        stages=6,
        across_k="B",
        presets={
            "large": {"BM": 256, "STAGES": 4},
            "narrow": {"BN": 64, "STAGES": 8},
            "few_rows": {"BN": 16, "STAGES": 10},
        },
    ),
    WgmmaForm(
        name="gemm_fp8_fast",
        idea="float8 factors on Hopper's tensor cores by warpgroups, sums of 13 bits",
        factors=FLOAT8,
        precision=FAST,
    ),
    WgmmaForm(
        name="gemm_fp8_blocks",
        idea="float8 factors with a scale of each 128 of k and row, or 128 rows or columns, on Hopper's tensor cores",
        factors=FLOAT8,
        block_scales=True,
        bn=128,
        stages=6,
        presets={"large": {"BM": 256, "STAGES": 4, "CLUSTER_M": 2}},
    ),
    WgmmaForm(
        name="gemm_int8",
        idea="8-bit integers on Hopper's tensor cores by warpgroups, sums exact in int32",
        factors=INT8,
        presets={
            "large": {"CLUSTER_M": 2},
            "narrow": {"BN": 64, "STAGES": 6},
            "split": {"BN": 64, "STAGES": 7, "SPLITS": 4},
            "few_rows": {"BN": 112, "STAGES": 6, "SWAP_AB": 1},
        },
        portfolio=_OF_INTEGERS,
    ),
    WgmmaForm(
        name="gemm_int8_nn",
        idea="row-major 8-bit integers, of which threads hand the tensor cores B in registers, sums exact in int32",
        factors=INT8,
        across_k="B",
        bn=128,
        stages=6,
        presets={"narrow": {"BN": 64, "STAGES": 8}, "few_rows": {"BN": 16, "STAGES": 10}},
        portfolio=_OF_INTEGERS_ACROSS_K,
    ),
    WgmmaForm(
        name="gemm_int8_blocks",
        idea="8-bit integers with a scale of each 128 of k and row, or 128 rows or columns, on Hopper's tensor cores",
        factors=INT8,
        block_scales=True,
        bn=128,
        stages=6,
        presets={"large": {"BM": 256, "STAGES": 4, "CLUSTER_M": 2}},
    ),
)


def _in_parts(lines: int, blocks: int) -> int:
    """Lines that are loaded of this many, so that blocks load equal parts of whole patterns: `StageTiles::LOADED`."""
    return round_up(lines, blocks * _REPEATS)


def _boxes(form: WgmmaForm, config: Config, layout: str, sides: tuple[int, int]) -> tuple[TensorBox, TensorBox]:
    """Boxes of one load: lines along k of a tile; or of a block of it lines of rows of A, or of columns of B, one for
    each element of a line along k.

    Where blocks load for each other, it is a part of these lines; else lines along k are no more than the factor has,
    in eights, after which the swizzle repeats (`SwizzledTile::bytes`).
    """
    line, item_bytes, layout = form.line, form.item_bytes, form.in_stages(config, layout)

    def box(of_tile: int, of_factor: int, along_k: bool, sharing: int) -> TensorBox:
        if not along_k:
            width = warpgroups.block_width(of_tile, item_bytes)
            return TensorBox(line // sharing, width, width * item_bytes)
        if sharing == 1:
            of_tile = min(of_tile, _in_parts(of_factor, 1))
        return TensorBox(_in_parts(of_tile, sharing) // sharing, line, warpgroups.LINE_BYTES)

    m, n = reversed(sides) if form.swaps(config) else sides
    first = box(config.BM, m, layout[0] == "N", config.CLUSTER_N)
    second = box(config.BN, n, layout[1] == "T", config.CLUSTER_M)
    return (second, first) if form.swaps(config) else (first, second)


def _consumers(config: Config) -> int:
    """Warpgroups that multiply."""
    return config.get("CONSUMERS", _CONSUMERS)


def together(config: Config) -> int:
    """Consumers of a tile."""
    return 1 if config.PINGPONG else _consumers(config)


def _tiles_bytes(form: WgmmaForm, config: Config, layout: str) -> int:
    """Bytes of the tiles of all stages, in these orders."""
    item_bytes = form.item_bytes
    rows = config.BM if layout[0] == "N" else warpgroups.in_blocks(config.BM, item_bytes)
    columns = (
        _in_parts(config.BN, config.CLUSTER_M) if layout[1] == "T" else warpgroups.in_blocks(config.BN, item_bytes)
    )
    return form.parts * config.STAGES * warpgroups.LINE_BYTES * (rows + columns)


def _stored_box(config: Config, item_bytes: int) -> TensorBox | None:
    """Results of 16 bits that one store moves: 16 rows, or 8 where tiles of D^T end within 16."""
    if not config.TMA_STORE_STAGES or item_bytes != warpgroups.ITEM_BYTES:
        return None
    box = warpgroups.STORED_BOX
    return box._replace(rows=_REPEATS) if config.BN // config.SPLITS % box.rows and config.get("SWAP_AB") else box


def _stores_evenly(config: Config) -> bool:
    """Whether results of a consumer's tile, a line of each row at a time, fill the memory for them evenly."""
    columns, parts = config.BN // config.SPLITS, config.BM // (warpgroups.ROWS * together(config))
    if config.get("SWAP_AB"):
        columns = round_up(columns, warpgroups.LINE)
    lines, rest = divmod(columns, warpgroups.LINE)
    return config.TMA_STORE_STAGES == 0 or (rest == 0 and parts * lines % config.TMA_STORE_STAGES == 0)


def _shared_bytes(form: WgmmaForm, config: Config, layout: str) -> int:
    """Bytes of a block: results that wait; its stages, or what splits factors and what multiplies in float32 in their
    place; for each stage two barriers; for each consumer one; those of the float32 way, and four numbers.
    """
    stages, consumers = _tiles_bytes(form, config, form.in_stages(config, layout)), _consumers(config)
    if form.split:
        fallback = splitting.float32_warpgroups_bytes(config.BM, config.BN // config.SPLITS)
        not_finite = splitting.non_finite_bytes(config.BM, config.BN // config.SPLITS)
        stages = max(stages, splitting.splitter_bytes(1 + consumers), fallback, not_finite)
    barriers = 2 * config.STAGES + consumers + splitting.PART_BARRIERS
    stored = config.get("TMA_STORE_STAGES", 0) * consumers * warpgroups.ROWS * warpgroups.LINE_BYTES
    return stored + stages + barriers * warpgroups.BARRIER_BYTES + 16


def _schedule(form: WgmmaForm, problem: Problem, config: Config, multiprocessors: int) -> Schedule:
    """A block a multiprocessor, whose registers hold no second, in whole clusters; or one for each part of k of a
    tile."""
    batch, m, n = problem.batch, problem.m, problem.n
    if form.swaps(config):
        m, n = n, m
    sharing = config.CLUSTER_M * config.CLUSTER_N
    tiles = batch * ceil_div(m, config.BM * config.CLUSTER_M) * ceil_div(n, config.BN * config.CLUSTER_N)
    if config.SPLITS > 1:
        return Schedule(tiles * sharing * config.SPLITS)
    return Schedule.of_clusters(tiles, sharing, multiprocessors)


def registers(form: WgmmaForm, config: Config) -> int:
    """Registers of a thread for its sums, and for those that tensor cores begin anew, or for A, if in registers."""
    rows = config.BM // together(config)
    sums = rows * config.BN // warpgroups.THREADS
    if form.promotes:
        return sums + warpgroups.ROWS * config.BN // warpgroups.THREADS
    return sums + (rows * warpgroups.LINE_BYTES // 4 // warpgroups.THREADS if form.in_registers else 0)


def _most_sums(form: WgmmaForm, consumers: int) -> int:
    """Registers of a thread that sums may take: fewer where three consumers hold scales for them too."""
    return _SCALED_SUMS if form.integers and consumers == max(SUMS) else SUMS.get(consumers, 0)


def _partial_buffers(form: WgmmaForm, config: Config) -> int:
    """Steps whose sums, begun anew, a thread holds at a time: two where registers have room, so that it adds up one
    while tensor cores make the other."""
    begun = warpgroups.ROWS * config.BN // warpgroups.THREADS
    alone = warpgroups.ROWS * together(config) == config.BM  # an instruction has all rows of a consumer
    promotes = form.promotes and not form.split and not form.in_registers
    return 2 if promotes and alone and 3 * begun <= SUMS[_consumers(config)] else 1


def _sums(form: WgmmaForm, config: Config) -> Sums:
    """One chain of instructions over all of k, for whatever tile, unless blocks share k: they are as many as there is
    room for. Whether parts represent the factors is decided for all of them together, and float8 has a kernel for each
    way
    of its sums, and of its scales: none has an order for all."""
    if form.split:
        return Sums(promote=form.line, separate=True)
    if form.float8:
        return Sums()
    if form.integers:
        return Sums(None if form.block_scales else EXACT)
    order = None if config.SPLITS > 1 else f"wgmma {_INSTRUCTION_BYTES // form.item_bytes}"
    return Sums(order, ALL_OF_K if form.precision else None)


TILES: Constraints = {
    "BM must be a multiple of 64 rows for each consumer of a tile, at most 256, the rows of a tensor box": lambda c: (
        c.BM % (64 * together(c)) == 0 and c.BM <= BOX_SIDE
    ),
    "BN must be a multiple of 8, at most 256, the columns of one instruction": lambda c: (
        c.BN % _REPEATS == 0 and c.BN <= BOX_SIDE
    ),
    **warpgroups.TWO_STAGES,
    "CLUSTER_M must be 1, 2, 4 or 8 and CLUSTER_N 1, 2 or 4": lambda c: (
        c.CLUSTER_M in (1, 2, 4, 8) and c.CLUSTER_N in (1, 2, 4)
    ),
}
"""Constraints of tiles, stages and clusters, whoever computes them."""


_OF_CONSUMERS: Constraints = {
    "CONSUMERS must be 2, or with PINGPONG=0 be 1 or 3": lambda c: (
        c.CONSUMERS in SUMS and (c.CONSUMERS == 2 or c.PINGPONG == 0)
    )
}
_OF_STORES: Constraints = {
    "with TMA_STORE_STAGES above 0, BN/SPLITS must be a multiple of 64 (with SWAP_AB=1 the next one counts), and "
    "TMA_STORE_STAGES a divisor of BN/SPLITS/64 times BM/64, over the consumers of a tile": _stores_evenly
}
_OF_SWAPS: Constraints = {"SWAP_AB must be 0 or 1": lambda c: c.SWAP_AB <= 1}
_OF_BLOCK_SCALES: Constraints = {
    f"BN must divide {SCALED_BLOCK}, the columns of a scale of B": lambda c: SCALED_BLOCK % c.BN == 0
}
OF_INTEGERS: Constraints = {
    "BN must be at most 24 or a multiple of 16, the columns of an instruction for integers": lambda c: (
        c.BN <= 24 or c.BN % 16 == 0
    )
}
_OF_SCALED_TERMS: Constraints = {
    f"BN must be a multiple of {SCALED_K}: columns of a scale": lambda c: c.BN % SCALED_K == 0
}


def sums_fit(form: WgmmaForm, limits: str = str(SUMS[_CONSUMERS])) -> Constraints:
    """A thread's registers hold its sums; limits: how many they are, in words."""
    more = " and BN/2 together" if form.promotes else " and BM/4, of A, together" if form.in_registers else ""
    sentence = f"BM*BN/128 over the consumers of a tile{more} must be at most {limits}, a thread's registers for sums"
    return {sentence: lambda c: registers(form, c) <= _most_sums(form, _consumers(c))}


def _constraints(form: WgmmaForm) -> Constraints:
    most = f"{SUMS[_CONSUMERS]} (with CONSUMERS=3 {_most_sums(form, 3)})"
    fits = sums_fit(form) if form.split else sums_fit(form, most)
    return {
        **TILES,
        **fits,
        "SPLITS must be 1, or with PINGPONG=0 be 2, 4 or 8": lambda c: (
            c.SPLITS == 1 or (c.SPLITS in (2, 4, 8) and c.PINGPONG == 0)
        ),
        "with SPLITS above 1, BM must be 64 rows for each consumer: the sums of one instruction are "
        "exchanged": lambda c: c.SPLITS == 1 or warpgroups.ROWS * together(c) == c.BM,
        "with SPLITS above 1, BN must be a multiple of 8*SPLITS, "
        "and BM*BN float32 sums fit into STAGES tiles": lambda c: (
            c.SPLITS == 1 or (c.BN % (8 * c.SPLITS) == 0 and _tiles_bytes(form, c, "NT") >= 4 * c.BM * c.BN)
        ),
        **({} if form.split else _OF_CONSUMERS),
        **(OF_INTEGERS if form.integers and not form.block_scales else {}),
        **(_OF_STORES if form.stores else {}),
        **(_OF_SWAPS if form.may_swap else {}),
        **(_OF_BLOCK_SCALES if form.block_scales else {}),
        **(_OF_SCALED_TERMS if form.split and form.split.scaled else {}),
        **warpgroups.shared_memory_fits(lambda c: _shared_bytes(form, c, "TT" if form.swaps(c) else "NN")),
    }


def _parameters(form: WgmmaForm) -> tuple[Parameter, ...]:
    consumers = Parameter("CONSUMERS", _CONSUMERS, (1, 2, 3), "warpgroups that multiply")
    stored = Parameter(
        "TMA_STORE_STAGES", 0, (0, 1, 2), "128 bytes of each row of results that wait to be stored", least=0
    )
    swapped = Parameter("SWAP_AB", 0, (0, 1), "whether D^T is computed: BM are columns of D, and BN rows", least=0)
    return (
        Parameter("BM", 128, (64, 128, 192, 256), "rows of D that a block computes at a time"),
        Parameter("BN", form.bn, _WIDTHS, "its columns"),
        Parameter("STAGES", form.stages, tuple(range(2, 8)), "tiles of A and of B in shared memory or in flight"),
        Parameter("GROUP_M", 16, (1, 2, 4, 8, 16, 32), "rows of tiles whose columns are computed one after the other"),
        Parameter("PINGPONG", 0, (0, 1), "whether each consumer computes tiles of its own", least=0),
        Parameter("CLUSTER_M", 1, (1, 2), "blocks one below the other that load tiles of B for each other"),
        Parameter("CLUSTER_N", 1, (1, 2), "blocks side by side that load tiles of A for each other"),
        Parameter("SPLITS", 1, (1, 2, 4, 8), "blocks that share the k of a tile"),
        *(() if form.split else (consumers,)),
        *((stored,) if form.stores else ()),
        *((swapped,) if form.may_swap else ()),
    )


def _constants(form: WgmmaForm) -> dict[str, int]:
    """Macros of a form, whatever the config."""
    stored, consumers = {} if form.stores else {"TMA_STORE_STAGES": 0}, {"CONSUMERS": _CONSUMERS} if form.split else {}
    ways = {"A_IN_REGISTERS": int(form.in_registers), "PROMOTE": form.line if form.promotes else 0}
    if not form.may_swap:
        ways["SWAP_AB"] = int(form.swap_ab)
    return {**form.constants, **ways, **stored, **consumers}


def _cost(form: WgmmaForm) -> Warpgroups:
    return replace(
        warpgroups.PERSISTENT,
        group_m=lambda config: config.GROUP_M,
        cluster=lambda config: config.CLUSTER_N if form.swaps(config) else config.CLUSTER_M,
        across=lambda config: config.CLUSTER_M if form.swaps(config) else config.CLUSTER_N,
        alternates=lambda config: bool(config.PINGPONG),
        splits=lambda config: config.SPLITS,
        run=lambda config: 32,
        realigns=not form.in_registers,
        in_registers=form.in_registers,
    )


def _kernel(form: WgmmaForm) -> Kernel:
    constants, line, plain = _constants(form), form.line, form.factors == forms.FLOAT16S
    more_arguments = () if plain else ("copy_a", "copy_b", "scales", "counters")
    return Kernel(
        name=form.name,
        idea=form.idea,
        source=_PLAIN if plain else _PRECISIONS,
        parameters=_parameters(form),
        constraints=_constraints(form),
        constants=lambda config: {**constants, "PARTIAL_BUFFERS": _partial_buffers(form, config)},
        presets=form.presets,
        portfolio=form.portfolio,
        support=replace(form.support, least_capability=(9, 0), architectures=("sm_90a",)),
        tile=lambda c: Tile(c.BN, c.BM, line) if form.swaps(c) else Tile(c.BM, c.BN, line),
        block=lambda config: ((1 + _consumers(config)) * warpgroups.THREADS, 1, 1),
        shared_bytes=partial(_shared_bytes, form),
        cluster=lambda config: config.CLUSTER_M * config.CLUSTER_N * config.SPLITS,
        schedule=partial(_schedule, form),
        overlaps=True,
        arguments=("sizes", "A_map", "B_map", "output", *more_arguments, "D_map"),
        relayouts=lambda config: form.orders,
        split=form.split,
        swap_ab=form.swaps,
        tensor_maps=partial(_boxes, form),
        stored_box=_stored_box if form.stores else None,
        cost=_cost(form),
        sums=partial(_sums, form),
    )


KERNELS = tuple(map(_kernel, FORMS))
