"""Triton's ways to compute a float32 product: `tl.dot` with parts of TF32 or bfloat16, in a plain tiled kernel."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl

from studies.precisions.ways import Way, of_products

_NAME = f"Triton {triton.__version__}"
_CONFIGS = [
    triton.Config({"BM": bm, "BN": bn, "BK": bk}, num_warps=warps, num_stages=stages)
    for bm, bn, bk, warps, stages in (
        (128, 128, 32, 8, 3),
        (128, 128, 32, 4, 3),
        (128, 64, 32, 4, 4),
        (64, 128, 32, 4, 4),
        (64, 64, 32, 4, 4),
        (128, 256, 32, 8, 2),
    )
]


def ways() -> Iterator[Way]:
    """Three products of TF32 parts, and six of bfloat16 parts."""
    for precision in ("tf32x3", "bf16x6"):
        yield of_products(f"Triton {precision}", _NAME, partial(_multiply, precision=precision))


def _multiply(a: Any, b: Any, precision: str) -> Any:
    """The product of row-major matrices."""
    (m, k), n = a.shape, b.shape[1]
    result = torch.empty(m, n, device=a.device)

    def grid(config: Any) -> tuple[int]:
        return (triton.cdiv(m, config["BM"]) * triton.cdiv(n, config["BN"]),)

    _product[grid](a, b, result, m, n, k, PRECISION=precision)
    return result


@triton.autotune(configs=_CONFIGS, key=["m", "n", "k", "PRECISION"])
@triton.jit
def _product(
    a,
    b,
    d,
    m,
    n,
    k,
    PRECISION: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr = 8,
):
    """One block computes one tile; blocks that run together lie in a group of GROUP_M rows of tiles."""
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    tile = tl.program_id(0)
    tile_m, tile_n = tl.swizzle2d(tile // tiles_n, tile % tiles_n, tiles_m, tiles_n, GROUP_M)
    rows, cols, depth = tile_m * BM + tl.arange(0, BM), tile_n * BN + tl.arange(0, BN), tl.arange(0, BK)
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        at = start + depth
        x = tl.load(a + rows[:, None] * k + at[None, :], mask=(rows[:, None] < m) & (at[None, :] < k), other=0.0)
        y = tl.load(b + at[:, None] * n + cols[None, :], mask=(at[:, None] < k) & (cols[None, :] < n), other=0.0)
        sums = tl.dot(x, y, sums, input_precision=PRECISION)
    inside = (rows[:, None] < m) & (cols[None, :] < n)
    tl.store(d + rows[:, None] * n + cols[None, :], sums, mask=inside)
