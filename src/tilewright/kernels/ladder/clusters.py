"""Rung 23, clusters: blocks on neighbouring multiprocessors load a tile of B together.

Source: NVIDIA's PTX ISA manual, "cp.async.bulk.tensor" (.multicast::cluster), and CUDA C++ Programming Guide, "Thread
Block Clusters".
"""

from dataclasses import replace

from tilewright.core.hardware import ceil_div
from tilewright.core.problem import Problem
from tilewright.kernels import warpgroups
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Constraints, Kernel, Parameter, Schedule
from tilewright.kernels.ladder import persistent
from tilewright.kernels.tensor_box import TensorBox


def _boxes(config: Config, layout: str, sides: tuple[int, int]) -> tuple[TensorBox, TensorBox]:
    """Boxes of one load: a tile of A, or a block's share of 64 columns of one of B."""
    a, b = warpgroups.boxes(config, layout, sides)
    return a, b._replace(rows=b.rows // config.CLUSTER_M)


def _schedule(problem: Problem, config: Config, multiprocessors: int) -> Schedule:
    """Whole clusters, at most one block a multiprocessor."""
    tile = warpgroups.tile(config)
    tiles = ceil_div(problem.m, config.CLUSTER_M * tile.m) * ceil_div(problem.n, tile.n)
    return Schedule.of_clusters(tiles, config.CLUSTER_M, multiprocessors)


SIZES: Constraints = {
    "CLUSTER_M must be 1, 2, 4 or 8: each block loads as many whole groups of 8 rows of B": lambda c: (
        c.CLUSTER_M in (1, 2, 4, 8)
    )
}

KERNEL: Kernel = replace(
    persistent.KERNEL,
    rung=23,
    name="clusters",
    idea="clusters share loads: blocks load a tile of B together, each a part for all of them",
    parameters=(
        *persistent.KERNEL.parameters,
        Parameter("CLUSTER_M", 2, (2, 4), "blocks of a cluster, whose tiles lie one below the other"),
    ),
    constraints={
        **persistent.KERNEL.constraints,
        **SIZES,
    },
    tensor_maps=_boxes,
    cluster=lambda config: config.CLUSTER_M,
    cost=replace(warpgroups.PERSISTENT, cluster=lambda config: config.CLUSTER_M),
    schedule=_schedule,
)
