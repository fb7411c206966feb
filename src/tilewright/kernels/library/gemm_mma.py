"""gemm_mma and its kin: products by tensor cores through mma.sync, where there is no wgmma.

Of 16-bit factors; of float32 factors rounded to TF32, or as 16-bit terms; of float8 factors with scales. What
`gemm_sm90` and its kin are on Hopper, from compute capability 8.0 on, float8 from 8.9. Sources: theirs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tilewright.core.dtypes import FLOAT8, ITEM_BYTES, RESULTS
from tilewright.core.gpus import COMPUTE_CAPABILITIES, FLOAT8_CAPABILITY
from tilewright.core.problem import FAST, SCALED_BLOCK
from tilewright.kernels.config import Config, listed_configs
from tilewright.kernels.families import Warps
from tilewright.kernels.library import gemm_terms, splitting
from tilewright.kernels.spec import Kernel, Parameter, Split, Sums
from tilewright.kernels.takes import EVERYTHING, VECTOR_BYTES
from tilewright.kernels.tiling import block_of_warps, threads_of_warps

_SOURCE = Path(__file__).with_suffix(".cu")
_LINES = (32, 64, 128)
"""Bytes along k of a tile: those of an instruction, and at most those of all banks."""
_SUMS = 128
"""Of a thread, with those that tensor cores begin anew: 255 registers have room for them and for fragments of both
factors."""
_SHARED_BYTES = COMPUTE_CAPABILITIES[9, 0].shared_per_block
_FEW_ROWS = {"BM": 16, "BN": 64, "WM": 16, "WN": 16, "STAGES": 4}
"""Of a preset: the least that tensor cores multiply, by four warps."""


def _shared_bytes(config: Config, item: int, split: Split | None) -> int:
    """Of all stages, or of what splits factors and what multiplies in float32 in their place."""
    stages = config.STAGES * item * config.BK * (config.BM + config.BN)
    if split is None:
        return stages
    groups = max(threads_of_warps(config) // splitting.GROUP, 1)
    wide = splitting.float32_block_bytes(config.BM, config.BN)
    not_finite = splitting.non_finite_bytes(config.BM, config.BN)
    return max(split.terms * stages, splitting.splitter_bytes(groups), wide, not_finite)


def _of_type(
    name: str,
    idea: str,
    *,
    factors: tuple[str, ...] = ("float32",),
    split: Split | None = None,
    precision: str | None = None,
    anew: bool = False,
    blocks: bool = False,
    bk: int = 32,
    wn: int = 64,
    stages: int = 3,
    promote: int = SCALED_BLOCK,
    presets: dict[str, dict[str, int]] | None = None,
    portfolio: Sequence[Mapping[str, int]] = (),
) -> Kernel:
    """A kernel of this source: for 16-bit or float8 factors, or for float32 factors, rounded to TF32 or split so.

    anew: whether sums of tensor cores begin anew, those of terms and of float8 every `promote` of k.
    blocks: whether float8 factors have scales of blocks, which threads multiply by then.
    bk, wn, stages, promote: what BK, WN, STAGES and, of terms, PROMOTE are by default.
    presets, portfolio: see `Kernel`.
    """
    terms = split.terms if split else 1
    item = ITEM_BYTES[split.dtype if split else factors[0]]
    sums = _SUMS // 2 if anew else _SUMS
    float8 = factors == FLOAT8
    depths = tuple(line // item for line in _LINES)
    sides = (16, 32, 64)
    more_parameters: list[Parameter] = []
    more_constraints: dict[str, Callable[[Config], bool]] = {}
    constants = {"TERMS": terms, "SCALED": int(split is not None and split.scaled)}
    constants["FACTOR_SCALES"] = 0 if not float8 else 2 if blocks else 1
    if split:
        promoting = Parameter("PROMOTE", promote, (16, 32, 64), "k after which threads add up the largest products")
        more_parameters.append(promoting)
        more_constraints |= {
            "PROMOTE must be 16, 32 or 64, and divide BK": lambda c: (
                c.PROMOTE in (16, 32, 64) and c.BK % c.PROMOTE == 0
            ),
            f"(BM/WM)*(BN/WN)*32 must be at least {splitting.GROUP}, "
            "threads that split a square of a factor": lambda c: threads_of_warps(c) >= splitting.GROUP,
        }
    else:
        constants["PROMOTE"] = promote if anew else 0
    if anew and float8:
        depths = (promote,)
    if item == 2 and not split:
        of_lines = "BM and BN must be powers of two: lines of a tile may lie along them"
        more_constraints[of_lines] = lambda c: c.BM & (c.BM - 1) == 0 and c.BN & (c.BN - 1) == 0
    depths_in_words = f"{', '.join(map(str, depths[:-1]))} or {depths[-1]}" if len(depths) > 1 else str(depths[0])
    return Kernel(
        name=name,
        idea=idea,
        source=_SOURCE,
        parameters=(
            Parameter("BM", 128, (16, 32, 64, 128), "rows of D that a block computes"),
            Parameter("BN", 128, (64, 128, 256), "its columns"),
            Parameter("BK", bk, depths, "how far a block's tiles of A and B reach along k"),
            Parameter("WM", 64, sides, "rows of D that a warp computes"),
            Parameter("WN", wn, sides, "its columns"),
            Parameter("STAGES", stages, (2, 3, 4), "tiles of A and of B in shared memory or on their way"),
            *more_parameters,
            Parameter("BAND", 8, (1, 4, 8, 16), "rows of tiles whose columns are computed one after the other"),
        ),
        constraints={
            "WM must be 16, 32 or 64: fragments have 16 rows": lambda c: c.WM in sides,
            "WN must be 16, 32 or 64: fragments are loaded for 16 columns": lambda c: c.WN in sides,
            "BM must be a multiple of WM, at most 256": lambda c: c.BM % c.WM == 0 and c.BM <= 256,
            "BN must be a multiple of WN, at most 256": lambda c: c.BN % c.WN == 0 and c.BN <= 256,
            f"BK must be {depths_in_words}: a line is at most 128 bytes": lambda c: c.BK in depths,
            f"WM*WN/32 must be at most {sums}, a thread's registers for sums": lambda c: sums >= c.WM * c.WN // 32,
            "(BM/WM)*(BN/WN)*32 must be at most 256, threads with 255 registers each": lambda c: (
                threads_of_warps(c) <= 256
            ),
            f"BM*BK and BN*BK must be multiples of {VECTOR_BYTES // item}*threads: "
            "every thread copies whole pieces of 16 bytes": lambda c: all(
                side * c.BK * item % (VECTOR_BYTES * max(threads_of_warps(c), 1)) == 0 for side in (c.BM, c.BN)
            ),
            "STAGES must be at least 2: one is copied while another is multiplied": lambda c: c.STAGES >= 2,
            **more_constraints,
            f"STAGES*{terms} tiles of A and of B must take at most {_SHARED_BYTES} bytes, a block's memory": lambda c: (
                _shared_bytes(c, item, split) <= _SHARED_BYTES
            ),
        },
        constants=lambda config: constants,
        block=block_of_warps,
        cost=Warps(part=lambda config: (config.WM, config.WN), anew=anew),
        takes=replace(
            EVERYTHING,
            factors=factors,
            results=(*RESULTS, FLOAT8[0]) if float8 else RESULTS,
            block_scales=blocks,
            least_capability=FLOAT8_CAPABILITY if float8 else EVERYTHING.least_capability,
        ),
        precision=precision,
        arguments=("sizes", "A", "B", "output", "copy_a", "copy_b", "scales", "tickets"),
        shared_bytes=lambda config, layout: _shared_bytes(config, item, split),
        relayouts=lambda config: (None, None) if item == 2 and not split else ("row", "column"),
        split=split,
        sums=(lambda config: Sums(config.PROMOTE, apart=True) if split else Sums(None))
        if factors == ("float32",)
        else None,
        sum_order=lambda config: None if anew or float8 else f"mma {_LINES[0] // item}",
        overlaps=True,
        presets=presets or {},
        portfolio=portfolio,
    )


def _of_terms(like: Kernel, *, stages: int, promote: int) -> Kernel:
    """The kernel of the terms that another has."""
    idea = like.idea.replace("Hopper's tensor cores", "tensor cores by mma.sync")
    name, split, precision = f"gemm_mma_{like.precision}", like.split, like.precision
    return _of_type(name, idea, split=split, precision=precision, anew=True, wn=32, stages=stages, promote=promote)


KERNEL = _of_type(
    "gemm_mma",
    "16-bit factors on tensor cores by mma.sync, in every order of A and B",
    factors=("float16", "bfloat16"),
    presets={
        "large": {"BN": 256},
        "small": {"BM": 64, "BN": 64, "BK": 64, "WM": 32, "WN": 32},
        "few_rows": {**_FEW_ROWS, "BK": 64},
    },
    portfolio=listed_configs(
        "BM BN BK WM WN STAGES BAND",
        (
            (32, 64, 64, 16, 32, 4, 8),
            (16, 64, 64, 16, 16, 4, 8),
            (64, 64, 64, 32, 32, 3, 8),
            (128, 128, 32, 64, 64, 3, 8),
            (16, 128, 64, 16, 32, 4, 8),
            (64, 128, 64, 32, 64, 3, 8),
        ),
    ),
)

TF32 = _of_type(
    "gemm_mma_tf32",
    "float32 factors rounded to TF32, on tensor cores by mma.sync",
    precision="tf32",
    bk=16,
    presets={
        "large": {"BN": 256},
        "small": {"BM": 64, "BN": 64, "BK": 32, "WM": 32, "WN": 32},
        "few_rows": {**_FEW_ROWS, "BK": 32},
    },
)

_SMALL_FP8 = {"BM": 64, "BN": 64, "WM": 32, "WN": 32}

FP8 = _of_type(
    "gemm_mma_fp8",
    "float8 factors on tensor cores by mma.sync, sums promoted to float32",
    factors=FLOAT8,
    anew=True,
    bk=128,
    wn=32,
    presets={"small": _SMALL_FP8, "few_rows": _FEW_ROWS},
)

FP8_FAST = _of_type(
    "gemm_mma_fp8_fast",
    "float8 factors on tensor cores by mma.sync, sums of 13 bits",
    factors=FLOAT8,
    precision=FAST,
    bk=64,
    presets={"large": {"BN": 256}, "small": {**_SMALL_FP8, "BK": 128}},
)

FP8_BLOCKS = _of_type(
    "gemm_mma_fp8_blocks",
    "float8 factors with a scale of each 128 of k and row, or 128 rows or columns, on tensor cores by mma.sync",
    factors=FLOAT8,
    anew=True,
    blocks=True,
    bk=128,
    wn=32,
    presets={"small": _SMALL_FP8, "few_rows": _FEW_ROWS},
)

# Two additions of Ampere's tensor cores are 16 k, of Hopper's 32: so much has a sum there for the same error.
BF16X6 = _of_terms(gemm_terms.BF16X6, stages=2, promote=16)
BF16X3 = _of_terms(gemm_terms.BF16X3, stages=3, promote=32)
FP16X3 = _of_terms(gemm_terms.FP16X3, stages=3, promote=16)
