"""Batch invariance: the order in which a GPU adds up products along k, for every m, and configs that keep it.

A row has the same bits whatever m is where all configs that may be picked have one `Sums.order`. Which that is
follows from element types, precision and GPU alone. It is one that some kernel keeps for every problem: in all orders
of A and B, batches, with any epilogue and alignment. So it does not matter either whether factors are swapped, copied
or prepared, or whether a batch is one tall product.

Products of parts have none: whether parts represent the factors depends on all of their rows. Nor have blocks that
share the k of a tile, where their number depends on how many tiles there are.
"""

from collections.abc import Iterator
from functools import lru_cache

from tilewright.core.dtypes import INT8
from tilewright.core.errors import ProblemError
from tilewright.core.problem import Arithmetic
from tilewright.kernels import KERNELS, orders
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel

_OF_WARPGROUPS = (
    {"BM": 64, "BN": 32, "STAGES": 14, "GROUP_M": 4, "CONSUMERS": 1},
    {"BM": 64, "BN": 64, "STAGES": 7, "PINGPONG": 1},
)

CONFIGS: dict[str, tuple[dict[str, int], ...]] = {
    "split_k": (
        {"BM": 16, "BN": 32, "BK": 64, "TN": 4, "K_SLICES": 4, "MIN_BLOCKS": 4},
        {"BM": 16, "BN": 64, "BK": 64, "K_SLICES": 4},
        {"BM": 32, "BN": 64, "BK": 64, "TM": 8, "K_SLICES": 4},
    ),
    "tma_transposed": (
        {"BM": 32, "BN": 64, "K_SLICES": 4, "UNROLL": 16, "WORKERS": 0, "A_BUFFERS": 1, "MIN_BLOCKS": 4},
        {"BM": 32, "K_SLICES": 4, "UNROLL": 16, "WORKERS": 0},
        {"BM": 64, "BN": 64, "K_SLICES": 4, "UNROLL": 16, "WORKERS": 0, "A_BUFFERS": 1, "MIN_BLOCKS": 1},
    ),
    **dict.fromkeys(("gemm_sm90", "gemm_tf32", "gemm_tf32_nn"), _OF_WARPGROUPS),
}
"""Overrides of defaults, besides presets: for GPUs without tables, and problems far from what these have."""


def order_of(arithmetic: Arithmetic, capability: tuple[int, int] | None) -> str | None:
    """The order of batch-invariant products; None of others.

    Args:
        arithmetic: of the product.
        capability: the GPU's compute capability; None on the emulator, which runs every kernel.

    Raises:
        ProblemError: the GPU runs no kernel that keeps such an order.
    """
    return _order_of(arithmetic, capability) if arithmetic.batch_invariant else None


@lru_cache
def _order_of(arithmetic: Arithmetic, capability: tuple[int, int] | None) -> str:
    narrow, rounds = arithmetic.factors != "float32", arithmetic.precision == "tf32"
    exact = arithmetic.factors in INT8
    for order in (orders.EXACT,) if exact else orders.NARROW if narrow else orders.TF32 if rounds else orders.FLOAT32:
        for kernel in keeping(order):
            if capability is None or kernel.support.runs_on(capability, arithmetic.factors):
                return order
    assert capability is not None
    raise ProblemError(
        f"no kernel for compute capability {capability[0]}.{capability[1]} adds up products of "
        f"{arithmetic.factors} in the same order for every m: leave out batch_invariant"
    )


@lru_cache
def keeping(order: str) -> dict[Kernel, tuple[Config, ...]]:
    """The kernels whose own configs, or those of this page, have an order, and these."""
    found = {one: tuple(c for c in dict.fromkeys(own(one)) if one.sums(c).order == order) for one in KERNELS}
    return {kernel: configs for kernel, configs in found.items() if configs}


def own(kernel: Kernel) -> Iterator[Config]:
    """A kernel's configs that come with it: its defaults, its presets, and those of this page."""
    for overrides in ({}, *kernel.presets.values(), *CONFIGS.get(kernel.name, ())):
        yield kernel.config(overrides)
