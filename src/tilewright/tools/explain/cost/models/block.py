"""Classes that describe a block for all families, and the arithmetic that they share."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.core.gpus import Multiprocessor
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Fragment, Warpgroups, Warps
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Variant
from tilewright.tools.explain.cost.occupancy import Occupancy

FRAGMENT_WIDTH = 4
"""float32 elements of one load of fragments from shared memory."""
_SPILL_TRAFFIC = 8
"""Bytes that a register too many is spilled with: stored, and loaded again."""


@dataclass(frozen=True)
class Footprint:
    """Room and time that a block needs on a multiprocessor. Times are cycles."""

    occupancy: Occupancy
    busy: float
    """Cycles in which the multiprocessor works on one step of the block: arithmetic, issue, shared memory, staging."""
    alone: float
    """Cycles from one step of the block to its next where no other block is in its way: its latencies are not hidden
    then, and a block of few warps leaves partitions idle."""
    ends: float
    """Cycles before the block's first step and after its last."""
    store: float
    """Cycles in which the multiprocessor works on writing the block's results."""
    tensor: float = 0.0
    """Part of `busy` in which the tensor cores work at their peak."""
    once: float = 0.0
    """Cycles before the first step of a launch whose blocks compute tile after tile, and after the last one."""
    aside: float = 0.0
    """Cycles in which one of a block's warpgroups stores a tile's results while another multiplies the next tile."""
    queued: bool = False
    """Whether blocks wait for the multiprocessor in a queue (`queue`), and not as `join` has it."""

    def step(self, blocks: int) -> float:
        """Cycles from one step to the next of this many blocks on a multiprocessor."""
        if self.queued:
            return queue(blocks, self.busy, self.alone - self.busy)
        return join(blocks * self.busy, self.alone)

    def wave(self, blocks: int, steps: float) -> float:
        """Cycles of this many blocks on a multiprocessor, each with this many steps."""
        return steps * self.step(blocks) + (self.ends + blocks * self.store)


class Demand(NamedTuple):
    """Cycles that a step of a block needs of each unit of its multiprocessor."""

    multiply: float
    """Cycles of the FP32 lanes or the tensor cores."""
    issue: float
    """Cycles to issue all instructions, with all partitions busy."""
    banks: float
    """Cycles of shared memory and the L1 cache."""
    reads: float
    """How often in a step a warp waits for shared memory."""
    at_once: bool
    """Whether the loads of shared memory between two such waits all come first."""
    waits: float
    """Cycles in which a block waits for global memory and at barriers, with nothing else to do."""

    @property
    def busy(self) -> float:
        """Cycles of the multiprocessor for a step: issue and banks overlap like the sides of a right angle."""
        return math.hypot(max(self.multiply, self.issue), self.banks)


class Asked(NamedTuple):
    """A kernel with a config on a GPU, whose footprint is asked for."""

    kernel: Kernel
    config: Config
    sm: Multiprocessor
    variant: Variant
    room: Occupancy
    """Room for its blocks."""
    spill_bytes: int
    starts: tuple[int, int]
    """The bytes at multiples of which lines of A and B start."""
    demand: Demand | None
    """Demand counted for a kernel of the family `Staging`; None: it is estimated."""


class Usage(NamedTuple):
    """Registers of a thread and shared memory of a block, as estimated or as the compiler reports them."""

    registers: int
    spill_bytes: int
    static_shared_bytes: int


def fragment(kernel: Kernel, config: Config) -> Fragment:
    """Part of a tile that a thread of a kernel computes."""
    if not isinstance(kernel.cost, Warpgroups | Warps) and kernel.cost.fragment is not None:
        return kernel.cost.fragment(config)
    tile = kernel.tile(config)
    side = math.sqrt(tile.m * tile.n / kernel.threads(config))
    return Fragment(side, side)


def granted(wanted: int, kernel: Kernel, config: Config, sm: Multiprocessor) -> int:
    """Registers of a thread that wants this many, as the compiler keeps `min_blocks` blocks within a multiprocessor."""
    together = kernel.threads(config) * kernel.cost.min_blocks(config)
    return min(wanted, sm.registers_per_thread, sm.registers // together // 8 * 8)


def spilling(wanted: int, kernel: Kernel, config: Config, sm: Multiprocessor, static_shared_bytes: int) -> Usage:
    """Estimate for a kernel that spills the registers which its threads want and do not get."""
    registers = granted(wanted, kernel, config, sm)
    return Usage(registers, _SPILL_TRAFFIC * (wanted - registers), static_shared_bytes)


def join(one: float, other: float) -> float:
    """The time of two things that overlap, though not wholly: the norm of exponent 4."""
    one, other = one * one, other * other
    return math.sqrt(math.sqrt(one * one + other * other))


def queue(customers: int, service: float, think: float) -> float:
    """The time of a round of customers that take turns at one server, and spend `think` elsewhere in between.

    Source: mean value analysis of closed queueing networks, Reiser and Lavenberg, 1980: who arrives finds the others as
    if he were not there.
    """
    response = waiting = 0.0
    for number in range(1, customers + 1):
        response = service * (1 + waiting)
        waiting = number * response / (response + think) if response else 0.0
    return response + think
