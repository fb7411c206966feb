"""Counts of one launch by Nsight Compute, and what follows from them: times, hit rates of caches, stalls."""

from collections.abc import Mapping

from tilewright.core.hardware import SECTOR_BYTES
from tilewright.kernels.kernel import Kernel
from tilewright.tools.bench import ncu

_PARTS = 4
"""Parts of a multiprocessor, each with a tensor core, whose cycles a counter adds up."""


class Profile(ncu.ProfiledLaunch):
    """One launch of a kernel of ours, or all that cuBLAS launches for one product."""

    rung: int = 0
    launched: list[str]
    """Names of the kernels on the GPU, in their order."""
    counters: dict[str, float]
    """By the profiler's names; of several kernels, the sums, and the ratios of the one that takes longest."""

    @property
    def time_us(self) -> float | None:
        """Time on the GPU, at the clocks that the profiler found."""
        return _over(self._sum("gpu__time_duration.sum"), 1e3)

    @property
    def l1_hits(self) -> float | None:
        """Share of the sectors of global loads that the L1 cache had."""
        sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld"
        return self._share(f"{sectors}_lookup_hit.sum", f"{sectors}.sum")

    @property
    def l2_hits(self) -> float | None:
        """Share of the sectors read from the L2 cache that it had."""
        return self._share("lts__t_sectors_op_read_lookup_hit.sum", "lts__t_sectors_op_read.sum")

    @property
    def wavefronts(self) -> float | None:
        """Data wavefronts of the L1 cache and shared memory."""
        return self._sum("l1tex__data_pipe_lsu_wavefronts.sum")

    @property
    def asked_bytes(self) -> float | None:
        """Sectors of global memory that loads and stores ask for, without asynchronous copies and the copy engine."""
        sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op"
        return self._sum(f"{sectors}_ld.sum", f"{sectors}_st.sum", unit=SECTOR_BYTES)

    @property
    def l2_bytes(self) -> float | None:
        """Read from and written to the L2 cache."""
        return self._sum("lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum", unit=SECTOR_BYTES)

    @property
    def dram_bytes(self) -> float | None:
        """Read from and written to DRAM."""
        return self._sum("dram__bytes_read.sum", "dram__bytes_write.sum")

    @property
    def l2_requests(self) -> float | None:
        """Requests of loads and stores, the copy engine's too, to the L2 cache."""
        return self._sum("lts__t_requests_srcunit_tex.sum")

    @property
    def cycles(self) -> float | None:
        """Clock cycles of the multiprocessor that takes longest."""
        return self._sum("sm__cycles_elapsed.max")

    @property
    def dram_gbs(self) -> float | None:
        """Speed of that, in GB/s."""
        speed = _over(self.dram_bytes, self.time_us)
        return None if speed is None else speed / 1e3

    @property
    def issuing(self) -> float | None:
        """Share of the schedulers' cycles in which one issued an instruction."""
        return self._share("smsp__issue_active.sum", "smsp__cycles_active.sum")

    @property
    def instructions(self) -> float | None:
        """Instructions of warps that were executed."""
        return self._sum("smsp__inst_executed.sum")

    @property
    def tensor_busy(self) -> float | None:
        """Share of the cycles of multiprocessors' four parts in which their tensor cores computed."""
        either = ("sm__pipe_tensor_cycles_active.sum", "sm__pipe_tensor_op_hmma_cycles_active.sum")
        name = next((one for one in either if one in self.counters), either[0])
        share = self._share(name, "sm__cycles_active.sum")
        return None if share is None else share / _PARTS

    @property
    def conflicts(self) -> float | None:
        """Bank conflicts of loads and stores of shared memory."""
        conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op"
        return self._sum(f"{conflicts}_ld.sum", f"{conflicts}_st.sum")

    @property
    def shared_wavefronts(self) -> float | None:
        """Wavefronts of loads and stores of shared memory."""
        wavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op"
        return self._sum(f"{wavefronts}_ld.sum", f"{wavefronts}_st.sum")

    @property
    def stalls(self) -> Mapping[str, float]:
        """Share of a warp's time by what it waits for, the largest first; 'selected' is issuing."""
        found = {reason: self.counters[name] for reason, name in ncu.STALLS.items() if name in self.counters}
        total = sum(found.values())
        shares = {reason: value / total for reason, value in found.items()} if total else {}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    def _sum(self, *names: str, unit: int = 1) -> float | None:
        """Sum of counters; None where one of them is not there."""
        values = [self.counters[name] for name in names if name in self.counters]
        return unit * sum(values) if len(values) == len(names) else None

    def _share(self, part: str, whole: str) -> float | None:
        return _over(self._sum(part), self._sum(whole))


def _over(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def of_launch(kernel: Kernel, launch: ncu.ProfiledLaunch, counters: Mapping[str, float]) -> Profile:
    """Profile of a launch of one of our kernels."""
    return Profile(**dict(launch), rung=kernel.rung, launched=[kernel.source.stem], counters=dict(counters))
