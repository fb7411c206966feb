"""What of A and B persistent blocks have in use while each computes its first tile, by the order of tiles."""

from collections.abc import Iterator, Sequence

from studies.templates import block
from studies.worklog.counted import GPU
from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.hardware import ceil_div
from tilewright.core.problem import Problem
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Warpgroups
from tilewright.kernels.kernel import Kernel


def first_round(kernel: Kernel, config: Config, problem: Problem) -> Iterator[tuple[int, int]]:
    """Row and column, in clusters' tiles, of what each cluster computes first: as tile_order.cuh counts them.

    Args:
        kernel: of warpgroups, and persistent.
        config: of it.
        problem: what is computed, on `GPU`.
    """
    assert isinstance(kernel.cost, Warpgroups) and kernel.schedule
    tile, cluster, band = kernel.tile(config), kernel.cluster(config), kernel.cost.band(config)
    down, across = ceil_div(problem.m, cluster * tile.m), ceil_div(problem.n, tile.n)
    for number in range(kernel.grid(problem, config, GPU.multiprocessors) // cluster):
        first = number // (band * across) * band
        rows = min(down - first, band)
        yield first + (number - first * across) % rows, (number - first * across) // rows


def bytes_in_use(kernel: Kernel, config: Config, problem: Problem) -> int:
    """Bytes of A and of B that the tiles of the first round are made of, each element once."""
    tile, height = kernel.tile(config), kernel.cluster(config) * kernel.tile(config).m
    found = set(first_round(kernel, config, problem))
    rows = sum(min(height, problem.m - row * height) for row in {row for row, _ in found})
    cols = sum(min(tile.n, problem.n - col * tile.n) for col in {col for _, col in found})
    return ITEM_BYTES[problem.dtype] * problem.k * (rows + cols)


def in_use(kernels: Sequence[tuple[Kernel, Config]], shapes: Sequence[str]) -> str:
    """A table of bytes in use, by shape, of several kernels."""
    problems = [
        (shape, [(of, Problem.parse(shape, arithmetic=of[0].support.arithmetic())) for of in kernels])
        for shape in shapes
    ]
    return block("worklog/tables.md.j2", "in_use", kernels=kernels, shapes=problems, bytes_in_use=bytes_in_use)
