"""Occupancy: how many blocks of a kernel a multiprocessor holds at a time, and what keeps it from holding more."""

from dataclasses import dataclass
from functools import cached_property

from tilewright.core.gpus import Gpu, Multiprocessor
from tilewright.core.hardware import WARP, ceil_div, round_up
from tilewright.runtime.executable import CompileReport


@dataclass(frozen=True)
class Occupancy:
    """Resident blocks that each resource of a multiprocessor allows."""

    warps_per_block: int
    most_warps: int
    """Warps that the multiprocessor can hold."""
    by_registers: int
    by_shared: int
    by_threads: int
    by_blocks: int

    @cached_property
    def blocks(self) -> int:
        """Blocks resident at a time; 0 where not even one fits."""
        return min(self.by_registers, self.by_shared, self.by_threads, self.by_blocks)

    @property
    def warps(self) -> int:
        """Warps resident at a time."""
        return self.blocks * self.warps_per_block

    @property
    def fraction(self) -> float:
        """Resident warps of those that the multiprocessor can hold."""
        return self.warps / self.most_warps

    @property
    def limits(self) -> dict[str, int]:
        """Blocks that each resource allows, by its name."""
        return {
            "registers": self.by_registers,
            "shared memory": self.by_shared,
            "threads": self.by_threads,
            "blocks": self.by_blocks,
        }

    @property
    def limited_by(self) -> tuple[str, ...]:
        """The resources that allow no further block."""
        return tuple(name for name, blocks in self.limits.items() if blocks == self.blocks)


@dataclass(frozen=True, kw_only=True)
class Held:
    """Blocks of a kernel on a GPU's multiprocessor."""

    gpu: Gpu
    report: CompileReport
    shared_bytes: int
    """Bytes of a block, static and dynamic."""
    threads: int
    """Threads of a block."""
    occupancy: Occupancy


def occupancy(sm: Multiprocessor, threads: int, registers: int, shared_bytes: int, bundle: int = 1) -> Occupancy:
    """Occupancy of blocks of this many threads and registers a thread.

    The rules are those of NVIDIA's cuda_occupancy.h: a warp's registers are rounded up to whole allocation units and
    come from one of the multiprocessor's partitions; a launch is refused where they do not fit all partitions evenly.

    Args:
        sm: where.
        threads, registers: of a block, and of a thread.
        shared_bytes: of a bundle.
        bundle: blocks that are held together or not at all.
    """
    warps = ceil_div(threads, WARP)
    together = bundle * warps
    per_warp = max(round_up(registers * WARP, sm.register_granularity), sm.register_granularity)
    by_registers = sm.registers // sm.partitions // per_warp * sm.partitions // together
    if registers > sm.registers_per_thread or per_warp * round_up(together, sm.partitions) > sm.registers:
        by_registers = 0
    per_bundle = round_up(shared_bytes + sm.reserved_shared_bytes, sm.shared_granularity)
    return Occupancy(
        warps_per_block=warps,
        most_warps=sm.threads // WARP,
        by_registers=bundle * by_registers,
        by_shared=bundle * (sm.shared_bytes // per_bundle if per_bundle else sm.blocks),
        by_threads=bundle * (sm.threads // WARP // together),
        by_blocks=bundle * sm.blocks,
    )


def held(report: CompileReport, gpu: Gpu, threads: int, dynamic_shared_bytes: int = 0, bundle: int = 1) -> Held:
    """Blocks of a compiled kernel that a multiprocessor of a GPU holds.

    Args:
        report: the compiler's.
        gpu: where.
        threads, dynamic_shared_bytes: of a block.
        bundle: as of `occupancy`; its blocks share static memory.
    """
    static = report.shared_bytes or 0
    shared = bundle * dynamic_shared_bytes + static
    room = occupancy(gpu.multiprocessor, threads, report.registers or 0, shared, bundle)
    shared_bytes = dynamic_shared_bytes + static // bundle
    return Held(gpu=gpu, report=report, shared_bytes=shared_bytes, threads=threads, occupancy=room)
