"""The roofline: how long a launch takes at the least, for its arithmetic and for what it moves, and which is longest.

Source: "Roofline: An Insightful Visual Performance Model for Multicore Architectures", Williams, Waterman, Patterson,
2009. There is a line for DRAM, and one for each level nearer to the lanes: the L2 cache, the L1 cache, shared memory.
Each has what a launch cannot but move through it: DRAM each matrix once; the L2 cache what the L1 cache does not have,
if that keeps all that a block loads twice; L1 and shared memory a pass a clock over the banks that they have in common.
Stores of tiles into shared memory are not counted there: on an H200 a kernel whose tensor cores read all that the banks
deliver took less than both together.
"""

from dataclasses import dataclass
from typing import NamedTuple

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.gpus import Gpu
from tilewright.core.hardware import SECTOR_BYTES
from tilewright.core.problem import Problem, Scalars
from tilewright.tools.explain.traffic import WAVEFRONT_BYTES, Traffic

ARITHMETIC, MEMORY, L2, L1, SHARED = "arithmetic", "memory", "L2", "L1", "shared memory"


@dataclass(frozen=True)
class Bytes:
    """Bytes that a launch moves."""

    least_read: int
    """From DRAM: A, B, and C where it is read, once each."""
    least_written: int
    """To DRAM: C."""
    requested: int
    """Sectors that requests of global memory touch, in bytes, and tiles that tensor maps move."""
    shared: int
    """Bytes that the wavefronts of shared memory could move: 128 each."""
    tiles: int = 0
    """Part of `requested` that tensor maps move as tiles."""
    l1: int = 0
    """Bytes that the L1 cache's passes over its banks could move, for loads of global memory: 128 each."""

    @property
    def least(self) -> int:
        """Read and written."""
        return self.least_read + self.least_written


class Through(NamedTuple):
    """Traffic of the L2 cache."""

    bytes: float
    time_us: float


@dataclass(frozen=True)
class Level:
    """A level of memory: what a launch moves through it, and how fast it is."""

    name: str
    bytes: int
    time_us: float
    """At its full bandwidth."""
    flops_per_byte: float
    """Arithmetic intensity of the launch at this level."""


@dataclass(frozen=True)
class Roofline:
    """The least times of a launch."""

    peak_tflops: float
    """Peak of the GPU, in the kernel's arithmetic."""
    arithmetic_us: float
    levels: tuple[Level, ...]
    """DRAM first, which the word roofline means where it says no more; then L2, L1 and shared memory."""
    ridge_flops_per_byte: float
    """The intensity at which DRAM and arithmetic take equally long."""

    @property
    def memory_us(self) -> float:
        """To move the least possible bytes from and to DRAM."""
        return self.levels[0].time_us

    @property
    def time_us(self) -> float:
        """The longer of the two, which no kernel can undercut."""
        return max(self.arithmetic_us, self.memory_us)

    @property
    def binds(self) -> str:
        """Which of the two it is."""
        return ARITHMETIC if self.arithmetic_us >= self.memory_us else MEMORY

    @property
    def times_us(self) -> dict[str, float]:
        """All of them, by name."""
        return {ARITHMETIC: self.arithmetic_us} | {level.name: level.time_us for level in self.levels}

    @property
    def slowest(self) -> str:
        """Which takes longest for this kernel, levels nearer than DRAM included."""
        return max(self.times_us, key=self.times_us.__getitem__)


def least_bytes(problem: Problem, scalars: Scalars = Scalars()) -> tuple[int, int]:
    """Bytes that any implementation must read and write, each element once."""
    result = ITEM_BYTES[problem.result] * problem.batch * problem.m * problem.n
    of_a, of_b = (problem.batch if operand.batch_stride else 1 for operand in (problem.a, problem.b))
    factors = ITEM_BYTES[problem.dtype] * problem.k * (of_a * problem.m + of_b * problem.n)
    return factors + (result if scalars.beta else 0), result


def moved(least: tuple[int, int], traffic: Traffic) -> Bytes:
    """Bytes that a launch moves, of which this much must be read and written."""
    requested = SECTOR_BYTES * traffic.global_sectors + traffic.tile_bytes
    passes, wavefronts = traffic.groups["global_load"].passes, traffic.shared_wavefronts
    return Bytes(*least, requested, WAVEFRONT_BYTES * wavefronts, traffic.tile_bytes, WAVEFRONT_BYTES * passes)


def roofline(
    flops: int, moves: Bytes, through_l2: Through, gpu: Gpu, arithmetic: str = "float32", blocks: int | None = None
) -> Roofline:
    """The least times of a launch on a GPU.

    Args:
        flops: floating-point operations, whatever they are for.
        moves: what the launch moves.
        through_l2: of that, what the L1 cache does not have.
        gpu: where.
        arithmetic: what products are made in: an element type, or 'tf32'.
        blocks: of the launch, where times are to be those of the multiprocessors that have one; None: of all.
    """
    peak = gpu.peak_tflops(arithmetic)
    at_work = gpu.multiprocessors if blocks is None else min(max(blocks, 1), gpu.multiprocessors)
    banks = 1e6 * WAVEFRONT_BYTES * at_work * gpu.clock_mhz
    dram = 1e9 * gpu.dram_gbs
    levels = tuple(
        Level(name, round(size), time, flops / size if size else 0.0)
        for name, size, time in (
            (MEMORY, moves.least, 1e6 * moves.least / dram),
            (L2, *through_l2),
            (L1, moves.l1, 1e6 * moves.l1 / banks),
            (SHARED, moves.shared, 1e6 * moves.shared / banks),
        )
    )
    arithmetic_us = flops / peak / 1e6 * gpu.multiprocessors / at_work
    return Roofline(peak, arithmetic_us, levels, 1e12 * peak / dram)
