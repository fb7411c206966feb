"""The roofline: how long a launch takes at the least, for its arithmetic and for what it moves, and which binds.

Source: "Roofline: An Insightful Visual Performance Model for Multicore Architectures", Williams, Waterman, Patterson,
2009. There is a line for DRAM, and one for each level nearer to the lanes: the L2 cache, which serves the sectors that
requests touch (the L1 cache keeps some of them, so that this time may be undercut) and the tiles of tensor maps, and
shared memory, which serves a wavefront a clock in each multiprocessor. Stores of tiles into shared memory are not
counted there: on an H200 a kernel whose tensor cores read all that the banks deliver took less than both together.
"""

from dataclasses import dataclass

from tilewright.analysis.traffic import SECTOR_BYTES, WAVEFRONT_BYTES, Traffic
from tilewright.gpus import Gpu
from tilewright.problem import ITEM_BYTES, Problem, Scalars

ARITHMETIC, MEMORY, L2, SHARED = "arithmetic", "memory", "L2", "shared memory"

TILE_BYTES_PER_CLOCK = 64
"""What the copy engine of a multiprocessor loads from the L2 cache, tile by tile. Reached on an H200: 57."""


@dataclass(frozen=True)
class Bytes:
    """What is moved in a launch."""

    least_read: int
    """From DRAM: A, B, and C where it is read, once each."""
    least_written: int
    """To DRAM: C."""
    requested: int
    """Sectors that requests of global memory touch, in bytes, and tiles that tensor maps move."""
    shared: int
    """What the wavefronts of shared memory could move: 128 bytes each."""
    tiles: int = 0
    """Of `requested`, the tiles."""

    @property
    def least(self) -> int:
        """Read and written."""
        return self.least_read + self.least_written


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
    """Of the GPU, in the kernel's arithmetic."""
    arithmetic_us: float
    levels: tuple[Level, ...]
    """DRAM first, which the word roofline means where it says no more; then the L2 cache and shared memory."""
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
    def slowest(self) -> str:
        """Which takes longest for this kernel, levels nearer than DRAM included."""
        times = {ARITHMETIC: self.arithmetic_us} | {level.name: level.time_us for level in self.levels}
        return max(times, key=times.__getitem__)


def least_bytes(problem: Problem, scalars: Scalars = Scalars()) -> tuple[int, int]:
    """Bytes that any implementation must read and write, each element once."""
    result = ITEM_BYTES[problem.result] * problem.batch * problem.m * problem.n
    of_a, of_b = (problem.batch if operand.batch_stride else 1 for operand in (problem.a, problem.b))
    factors = ITEM_BYTES[problem.dtype] * problem.k * (of_a * problem.m + of_b * problem.n)
    return factors + (result if scalars.beta else 0), result


def moved(problem: Problem, traffic: Traffic, scalars: Scalars = Scalars()) -> Bytes:
    """What a launch moves."""
    read, written = least_bytes(problem, scalars)
    requested = SECTOR_BYTES * traffic.global_sectors + traffic.tile_bytes
    return Bytes(read, written, requested, WAVEFRONT_BYTES * traffic.shared_wavefronts, traffic.tile_bytes)


def roofline(problem: Problem, moves: Bytes, gpu: Gpu, arithmetic: str = "float32") -> Roofline:
    """The least times of a problem on a GPU.

    Args:
        problem: what is computed.
        moves: what its kernel moves.
        gpu: where.
        arithmetic: what products are made in: an element type, or 'tf32'.
    """
    return least_times(problem.flops, moves, gpu, arithmetic)


def least_times(flops: int, moves: Bytes, gpu: Gpu, arithmetic: str = "float32") -> Roofline:
    """The same of this many floating-point operations, whatever they are for."""
    peak = gpu.peak_tflops(arithmetic)
    l2 = 1e6 * gpu.l2_bytes_per_clock * gpu.clock_mhz
    shared = 1e6 * WAVEFRONT_BYTES * gpu.multiprocessors * gpu.clock_mhz
    dram = 1e9 * gpu.dram_gbs
    tiles = 1e6 * TILE_BYTES_PER_CLOCK * gpu.multiprocessors * gpu.clock_mhz
    levels = tuple(
        Level(name, size, time, flops / size if size else 0.0)
        for name, size, time in (
            (MEMORY, moves.least, 1e6 * moves.least / dram),
            (L2, moves.requested, 1e6 * (moves.requested - moves.tiles) / l2 + 1e6 * moves.tiles / tiles),
            (SHARED, moves.shared, 1e6 * moves.shared / shared),
        )
    )
    return Roofline(peak, flops / peak / 1e6, levels, 1e12 * peak / dram)
