"""The best rung known for a problem."""

from tilewright.kernels import resolve
from tilewright.kernels.spec import Config, Kernel
from tilewright.problem import Problem

_MULTIPROCESSORS = 132
"""Of an H100 or H200: with fewer blocks than this some of them idle. Other GPUs of its class have 72 to 192."""

_PREFERENCE = ("warptiled", "vectorized:fastcuda_v3")
"""Largest tile first: the larger a block's tile, the less memory traffic an operation costs."""

_SMALLEST = "coalesced"
"""One thread an element and nothing staged: no tile to fill, so nothing is wasted on a matrix smaller than one."""


def select(problem: Problem, capability: tuple[int, int] | None) -> tuple[Kernel, Config]:
    """The kernel and config to run a problem with.

    The rule: the largest tile that still gives every multiprocessor a block; where none does, the
    smaller tile, which makes the most blocks; and no tile at all for matrices smaller than that one.
    An emulated block has no multiprocessor to itself, so there a single whole tile is enough.

    Args:
        problem: the product to compute.
        capability: the GPU's compute capability, None on the emulator.
    """
    blocks_wanted = 1 if capability is None else _MULTIPROCESSORS
    for name in _PREFERENCE:
        kernel, overrides = resolve(name)
        config = kernel.config(overrides, capability=capability)
        tile = kernel.tile(config)
        if (problem.m // tile.m) * (problem.n // tile.n) >= blocks_wanted:
            return kernel, config
    if problem.m >= tile.m and problem.n >= tile.n:
        return kernel, config
    kernel, overrides = resolve(_SMALLEST)
    return kernel, kernel.config(overrides, capability=capability)
