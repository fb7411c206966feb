"""A GPU as it was measured: times of probes as they came, and the latencies and bandwidths that follow from them."""

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.tools.bench.records import Facts, RunFile

FMA, REGISTERS, SHARED, L1, L2, DRAM = "FMA", "registers", "shared memory", "L1 cache", "L2 cache", "DRAM"
FAR = "DRAM, far apart"
LEVELS = (FMA, REGISTERS, SHARED, L1, L2, DRAM, FAR)
"""In the order of tables. REGISTERS are the operands of FMAs; in FAR, DRAM, each load is from another page."""


def binary_bytes(size: int) -> str:
    """A size of memory as text, as in '16 KiB'."""
    unit = max(size.bit_length() - 1, 0) // 10
    return f"{size / (1 << 10 * unit):.3g} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"


class ProbeTime(Facts):
    """Time that a probe took."""

    level: str
    """One of LEVELS."""
    work: int
    """Steps of the chain, of a latency; bytes that all threads read, of a bandwidth."""
    footprint_bytes: int
    """Memory that is read, again and again; 0 of arithmetic."""
    cycles: int
    """Clock cycles, of the block that takes longest; the median of samples, as the next."""
    ns: int
    """Nanoseconds from the begin of the first block to the end of the last."""

    @property
    def clock_mhz(self) -> float:
        """Clock of the multiprocessors while the probe ran."""
        return 1e3 * self.cycles / self.ns


class MachineRow(NamedTuple):
    """One level of a machine; None for what was not measured."""

    level: str
    latency_cycles: float | None
    latency_ns: float | None
    gbs: float | None
    """Bandwidth of the whole GPU, 10^9 bytes a second."""
    bytes_per_clock: float | None
    """Bandwidth of a multiprocessor, bytes a clock cycle."""
    footprint_bytes: int
    """Memory that was read for the bandwidth, else for the latency."""


class Machine(RunFile):
    """Latencies and bandwidths of a GPU, and the environment that they were measured in."""

    multiprocessors: int
    latencies: list[ProbeTime]
    bandwidths: list[ProbeTime]

    @property
    def clock_mhz(self) -> float:
        """Clock of the multiprocessors while all of them computed."""
        return next(one.clock_mhz for one in self.bandwidths if one.level == REGISTERS)

    @property
    def rows(self) -> Sequence[MachineRow]:
        """A row for each level that was measured, in the order of LEVELS."""
        latencies, bandwidths = ({one.level: one for one in of} for of in (self.latencies, self.bandwidths))
        return [
            self._row(level, latencies.get(level), bandwidths.get(level))
            for level in LEVELS
            if level in latencies or level in bandwidths
        ]

    def row(self, level: str) -> MachineRow:
        """The row of one of LEVELS.

        Raises:
            LookupError: nothing was.
        """
        for one in self.rows:
            if one.level == level:
                return one
        raise LookupError(f"nothing was measured of {level!r}: there are {', '.join(one.level for one in self.rows)}")

    def _row(self, level: str, latency: ProbeTime | None, bandwidth: ProbeTime | None) -> MachineRow:
        read = bandwidth or latency
        return MachineRow(
            level,
            latency.cycles / latency.work if latency else None,
            latency.ns / latency.work if latency else None,
            bandwidth.work / bandwidth.ns if bandwidth else None,
            bandwidth.work / bandwidth.cycles / self.multiprocessors if bandwidth else None,
            read.footprint_bytes if read else 0,
        )
