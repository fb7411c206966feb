"""gemm_mma_bf16x6, gemm_mma_bf16x3, gemm_mma_fp16x3: float32 factors as 16-bit terms, by tensor cores through mma.sync.

What `gemm_bf16x6` and its kin are on Hopper, for GPUs that lack wgmma. Sources: theirs.
"""

from dataclasses import replace
from pathlib import Path

from tilewright.gpus import COMPUTE_CAPABILITIES
from tilewright.kernels import tiling
from tilewright.kernels.families import Warps
from tilewright.kernels.library import gemm_bf16x3, gemm_bf16x6, gemm_fp16x3, splitting
from tilewright.kernels.spec import SCALED_K, Config, Constraint, Kernel, Parameter, Split, Sums
from tilewright.kernels.takes import EVERYTHING
from tilewright.problem import ITEM_BYTES

_SOURCE = Path(__file__).with_suffix(".cu")
_PIECE = 8
"""Elements that a thread copies together: 16 bytes."""
_SUMS = 64
"""Of a thread, and as many that tensor cores begin anew: 255 registers have room for them and for fragments of both
factors."""
_SHARED_BYTES = COMPUTE_CAPABILITIES[9, 0].shared_per_block


def _threads(config: Config) -> int:
    return config.BM // config.WM * (config.BN // config.WN) * 32


def _shared_bytes(config: Config, split: Split) -> int:
    """Of all stages, or of what splits factors and what multiplies in float32 in their place."""
    stages = config.STAGES * split.terms * ITEM_BYTES[split.dtype] * config.BK * (config.BM + config.BN)
    groups = max(_threads(config) // splitting.GROUP, 1)
    return max(stages, splitting.splitter_bytes(groups), splitting.float32_block_bytes(config.BM, config.BN))


def _of_terms(idea: str, like: Kernel, *, stages: int, promote: int) -> Kernel:
    """The kernel of the terms that another has. stages, promote: what STAGES and PROMOTE are by default."""
    split = like.split
    assert split is not None
    constants = {"TERMS": split.terms, "SCALED": int(split.scaled)}
    return Kernel(
        rung=0,
        name=f"gemm_mma_{like.precision}",
        idea=idea,
        source=_SOURCE,
        parameters=(
            Parameter("BM", 128, (64, 128), "rows of D that a block computes"),
            Parameter("BN", 128, (64, 128), "its columns"),
            Parameter("BK", 32, (16, 32, 64), "how far a block's tiles of A and B reach along k"),
            Parameter("WM", 64, (32, 64), "rows of D that a warp computes"),
            Parameter("WN", 32, (32, 64), "its columns"),
            Parameter("STAGES", stages, (2, 3, 4), "tiles of A and of B in shared memory or on their way"),
            Parameter("PROMOTE", promote, (16, 32, 64), "k after which threads add up the largest products"),
            Parameter("BAND", 8, (1, 4, 8, 16), "rows of tiles whose columns are computed one after the other"),
        ),
        constraints=(
            Constraint(
                lambda c: c.WM % 16 == 0 and SCALED_K % c.WM == 0,
                "WM must be 16, 32 or 64: fragments have 16 rows, and a warp's rows one scale",
            ),
            Constraint(
                lambda c: c.WN % 16 == 0 and SCALED_K % c.WN == 0,
                "WN must be 16, 32 or 64: fragments are loaded for 16 columns, and a warp's columns have one scale",
            ),
            Constraint(lambda c: c.BM % c.WM == 0 and c.BM <= 256, "BM must be a multiple of WM, at most 256"),
            Constraint(lambda c: c.BN % c.WN == 0 and c.BN <= 256, "BN must be a multiple of WN, at most 256"),
            Constraint(lambda c: c.BK in (16, 32, 64), "BK must be 16, 32 or 64: a line is at most 128 bytes"),
            Constraint(
                lambda c: c.WM * c.WN // 32 <= _SUMS, f"WM*WN/32 must be at most {_SUMS}, a thread's registers for sums"
            ),
            Constraint(
                lambda c: c.PROMOTE in (16, 32, 64) and c.BK % c.PROMOTE == 0,
                "PROMOTE must be 16, 32 or 64, and divide BK",
            ),
            Constraint(
                lambda c: _threads(c) <= 256, "(BM/WM)*(BN/WN)*32 must be at most 256, threads with 255 registers each"
            ),
            Constraint(
                lambda c: all(side * c.BK % (_PIECE * max(_threads(c), 1)) == 0 for side in (c.BM, c.BN)),
                "BM*BK and BN*BK must be multiples of 8*threads: every thread copies whole pieces of 8 elements",
            ),
            Constraint(lambda c: c.STAGES >= 2, "STAGES must be at least 2: one is copied while another is multiplied"),
            Constraint(
                lambda c: _shared_bytes(c, split) <= _SHARED_BYTES,
                f"STAGES*{split.terms} tiles of A and of B must take at most {_SHARED_BYTES} bytes, a block's memory",
            ),
        ),
        constants=lambda config: constants,
        tile=tiling.tile,
        block=lambda config: (_threads(config), 1, 1),
        cost=Warps(part=lambda config: (config.WM, config.WN)),
        vectorized=True,
        takes=replace(EVERYTHING, factors=("float32",)),
        precision=like.precision,
        arguments=("sizes", "A", "B", "output", "copy_a", "copy_b", "tickets"),
        shared_bytes=lambda config, layout: _shared_bytes(config, split),
        relayouts=lambda config: ("row", "column"),
        split=split,
        sums=lambda config: Sums(config.PROMOTE, apart=True),
        overlaps=True,
    )


# Two additions of Ampere's tensor cores are 16 k, of Hopper's 32: so much has a sum there for the same error.
BF16X6 = _of_terms(
    "float32 factors as three bfloat16 terms each: six products on tensor cores by mma.sync",
    gemm_bf16x6.KERNEL,
    stages=2,
    promote=16,
)
BF16X3 = _of_terms(
    "float32 factors as two bfloat16 terms each: three products on tensor cores by mma.sync",
    gemm_bf16x3.KERNEL,
    stages=3,
    promote=32,
)
FP16X3 = _of_terms(
    "float32 factors as two scaled float16 terms each: three products on tensor cores by mma.sync",
    gemm_fp16x3.KERNEL,
    stages=3,
    promote=16,
)
