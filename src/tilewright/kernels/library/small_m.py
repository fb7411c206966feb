"""Kernels of small_m.cu: float32 products of few rows, whose large factor is read once and split in registers.

Of `small_m_fp16x3` each 16 columns of B, and each 16 rows of A, have a scale of their own for each 32 of k.

gemm_bf16x6 reads 4 bytes of each element of B, writes 6 of parts, waits for the grid and reads them: for a product that
uses each m times, that is most of its time. Here B is read once, with no pass before, no copy, and no wait across the
grid. With 128 rows the issue of instructions limits it, most of them for splitting: each block splits A again, and each
64 rows B. Two warpgroups load where one would have no registers to load the next rows ahead.

Sources: as of `forms` for the parts; "FlashAttention-3: Fast and Accurate Attention with Asynchrony and
Low-precision", Shah et al., 2024, for a factor of wgmma that is made in registers while others are multiplied.
"""

from dataclasses import replace
from pathlib import Path

from tilewright.core.gpus import MULTIPROCESSORS
from tilewright.core.hardware import ceil_div, round_up
from tilewright.core.problem import Problem
from tilewright.kernels import warpgroups
from tilewright.kernels.config import Config, listed_configs
from tilewright.kernels.cost_family import SmallM
from tilewright.kernels.kernel import Constraints, Kernel, Parameter, Schedule, Sums
from tilewright.kernels.library import splitting
from tilewright.kernels.library.forms import KernelForm
from tilewright.kernels.split import RANGE_WORDS
from tilewright.kernels.tensor_box import TensorBox

_SOURCE = Path(__file__).with_suffix(".cu")
_SM = MULTIPROCESSORS[9, 0]
_K = 32
"""Floats of a line of 128 bytes, and so k of a tile in shared memory."""
_COLUMNS = 64
"""Columns of B of one consumer: wgmma's rows."""
_PADDING = 4
"""Floats behind each line of sums in shared memory."""
_GROUP_M = 4
"""Rows of tiles that are computed column by column."""
_PROMOTE = 32
"""k after which threads add up what tensor cores have made."""
_SCALED_ROWS = 16
"""Rows of A that have a scale in common."""
_CHECK_WORDS = 3
"""Words that say what a block knows of sums that may have lost too much."""


def _consumers(config: Config) -> int:
    """Warpgroups that multiply."""
    return config.BN // _COLUMNS * config.K_SLICES


def _producers(config: Config) -> int:
    """Warpgroups that load: two where one would have no registers to load the next step's rows of A ahead."""
    return 2 if config.BM * config.BK == 4096 and config.MIN_BLOCKS == config.K_SLICES == 1 and config.BN <= 128 else 1


def _boxes(config: Config, layout: str, sides: tuple[int, int]) -> tuple[None, TensorBox]:
    """Box of one load, of B: lines along k of its columns, or 32 columns at each of 32 k."""
    return None, TensorBox(config.BN if layout[1] == "T" else _K, _K, warpgroups.LINE_BYTES)


def _shared_bytes(form: KernelForm, config: Config) -> int:
    """Bytes of a block: its stages, or sums, or what multiplies in float32 in their place; barriers, scales, what is
    seen."""
    stages = config.STAGES * config.BK * (4 * config.BN + form.parts * form.item_bytes * config.BM)
    sums = 4 * config.K_SLICES * config.BM * (config.BN + _PADDING)
    fallback = splitting.float32_block_bytes(min(config.BM, 64), max(_COLUMNS // config.SPLITS, 16))
    side_by_side = config.BN // _COLUMNS
    barriers = 2 * config.STAGES + 2 + side_by_side
    scales = config.STAGES * config.BK // _K * (max(config.BM // _SCALED_ROWS, 1) if form.constants["SCALED"] else 1)
    seen = 4 * (scales + 2 * RANGE_WORDS + _CHECK_WORDS)
    end = max(stages, sums, side_by_side * fallback) + barriers * warpgroups.BARRIER_BYTES + seen
    return round_up(end, 1024)  # the alignment of what the copy engine writes


def _schedule(problem: Problem, config: Config, multiprocessors: int) -> Schedule:
    """A block for each part of a tile's k."""
    return Schedule(problem.batch * ceil_div(problem.m, config.BM) * ceil_div(problem.n, config.BN) * config.SPLITS)


_PARAMETERS = (
    Parameter("BM", 128, (8, 16, 32, 64, 128), "rows of D that a block computes"),
    Parameter("BN", 128, (64, 128, 192), "its columns"),
    Parameter("BK", 32, (32, 64, 128), "how far along k a stage reaches"),
    Parameter("K_SLICES", 1, (1, 2), "steps that are multiplied at the same time, by warpgroups of their own"),
    Parameter("STAGES", 4, (2, 3, 4, 5, 6, 8), "tiles of A and of B in shared memory or in flight"),
    Parameter("SPLITS", 1, (1, 2, 4, 8), "blocks that share the k of a tile"),
    Parameter("MIN_BLOCKS", 1, (1, 2), "blocks that a multiprocessor must hold, which bounds the registers"),
)

_CONSTRAINTS: Constraints = {
    "BM must be 128, or a multiple of 8 up to 64: the columns of one instruction": lambda c: (
        c.BM % 8 == 0 and (c.BM <= 64 or c.BM == 128)
    ),
    "BN must be 64, 128 or 192: 64 columns for each of up to three warpgroups that multiply": lambda c: (
        c.BN in (64, 128, 192)
    ),
    "BK must be 32, 64 or 128, at most 4096/BM: lines of 128 bytes, and a thread's registers for rows of A": lambda c: (
        c.BK in (32, 64, 128) and c.BM * c.BK <= 4096
    ),
    "STAGES must be more than K_SLICES: one is loaded while others are multiplied": lambda c: c.STAGES > c.K_SLICES,
    "SPLITS must be 1, 2, 4 or 8, the most of a cluster": lambda c: c.SPLITS in (1, 2, 4, 8),
    "BN/64*K_SLICES, the warpgroups that multiply, must be 1 or 2, or with BM up to 32 and BK up to 64 "
    "be 3": lambda c: _consumers(c) <= 2 or (_consumers(c) == 3 and c.BM <= 32 and c.BK <= 64),
    "MIN_BLOCKS must be 1, or with one warpgroup that multiplies and BM at most 32 be 2": lambda c: (
        c.MIN_BLOCKS == 1 or (c.MIN_BLOCKS == 2 and _consumers(c) == 1 and c.BM <= 32)
    ),
}
"""Constraints of both forms, but that stages fit into shared memory."""

_PRESETS = {
    "rows_8": {"BM": 8, "BN": 64, "BK": 128, "STAGES": 5, "SPLITS": 2},
    "rows_16": {"BM": 16, "BN": 64, "BK": 128, "STAGES": 5, "SPLITS": 2},
    "rows_32": {"BM": 32, "BN": 64, "BK": 64, "STAGES": 8, "SPLITS": 2},
    "rows_64": {"BM": 64, "STAGES": 8, "SPLITS": 2},
    "rows_128": {"BN": 64, "K_SLICES": 2, "STAGES": 7, "SPLITS": 2},
}

_PORTFOLIO = listed_configs(
    "BM BN BK K_SLICES STAGES SPLITS MIN_BLOCKS",
    (
        (64, 128, 64, 1, 3, 2, 1),
        (128, 128, 32, 1, 4, 1, 1),
        (64, 128, 64, 1, 3, 4, 1),
        (64, 128, 64, 1, 3, 1, 1),
        (64, 64, 64, 1, 5, 2, 1),
        (32, 128, 64, 1, 4, 1, 1),
        (128, 64, 32, 2, 7, 2, 1),
        (32, 64, 128, 2, 4, 2, 1),
    ),
)

FORMS = (
    KernelForm(
        name="small_m_bf16x6",
        idea="few rows of float32: the large factor is read once and split in registers, six products on tensor cores",
        precision="bf16x6",
    ),
    KernelForm(
        name="small_m_fp16x3",
        idea="few rows of float32: the large factor is read once, scaled and split in registers, "
        "three products on tensor cores",
        precision="fp16x3",
    ),
)


def _kernel(form: KernelForm) -> Kernel:
    constants = {"SPLIT_PARTS": form.parts, "SCALED": form.constants["SCALED"], "GROUP_M": _GROUP_M}
    fits = "STAGES tiles of A and of B must fit into a multiprocessor's shared memory MIN_BLOCKS times"
    return Kernel(
        name=form.name,
        idea=form.idea,
        source=_SOURCE,
        parameters=_PARAMETERS,
        constraints={
            **_CONSTRAINTS,
            fits: lambda c: c.MIN_BLOCKS * (_shared_bytes(form, c) + _SM.reserved_shared_bytes) <= _SM.shared_bytes,
        },
        constants=lambda config: {**constants, "PRODUCERS": _producers(config)},
        presets=_PRESETS,
        portfolio=_PORTFOLIO,
        support=replace(form.support, least_capability=(9, 0), architectures=("sm_90a",)),
        block=lambda config: ((_producers(config) + _consumers(config)) * warpgroups.THREADS, 1, 1),
        shared_bytes=lambda config, layout: _shared_bytes(form, config),
        cluster=lambda config: config.SPLITS,
        schedule=_schedule,
        overlaps=True,
        arguments=("sizes", "A", "B_map", "B", "output"),
        relayouts=lambda config: ("row", None),
        tensor_maps=_boxes,
        cost=SmallM(
            splits=lambda config: config.SPLITS,
            group_m=lambda config: _GROUP_M,
            min_blocks=lambda config: config.MIN_BLOCKS,
            parts=form.parts,
            consumers=_consumers,
            slices=lambda config: config.K_SLICES,
        ),
        sums=lambda config: Sums(promote=_PROMOTE, separate=True),
    )


KERNELS = tuple(map(_kernel, FORMS))
