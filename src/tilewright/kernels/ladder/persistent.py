"""Rung 22, persistent: a block for each multiprocessor computes tile after tile.

Source: "A Study of Persistent Threads Style GPU Programming for GPGPU Workloads", Gupta and others, 2012.
"""

from dataclasses import replace

from tilewright.core.hardware import ceil_div
from tilewright.core.problem import Problem
from tilewright.kernels import warpgroups
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel, Schedule
from tilewright.kernels.ladder import specialised


def _schedule(problem: Problem, config: Config, multiprocessors: int) -> Schedule:
    """A block a multiprocessor, fewer where D has fewer tiles."""
    tile = warpgroups.tile(config)
    return Schedule(min(ceil_div(problem.m, tile.m) * ceil_div(problem.n, tile.n), multiprocessors))


KERNEL: Kernel = replace(
    specialised.KERNEL,
    rung=22,
    name="persistent",
    idea="a block a multiprocessor: it loads its next tile while it stores the last",
    schedule=_schedule,
    cost=warpgroups.PERSISTENT,
)
