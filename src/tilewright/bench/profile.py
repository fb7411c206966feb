"""Counts of one launch by Nsight Compute, and what follows from them: times, hit rates of caches, stalls."""

from collections.abc import Mapping

from tilewright.bench import ncu
from tilewright.bench.records import Facts
from tilewright.core.hardware import SECTOR_BYTES
from tilewright.core.problem import Problem
from tilewright.kernels.spec import Kernel


class Profile(Facts):
    """One launch of a kernel of ours, or all that cuBLAS launches for one product."""

    kernel: str
    """`ncu.CUBLAS` for the library."""
    rung: int = 0
    config: dict[str, int]
    shape: str
    dtype: str
    out_dtype: str
    layout: str = "NN"
    launched: list[str]
    """Names of the kernels on the GPU, in their order."""
    counters: dict[str, float]
    """By the profiler's names; of several kernels, the sums, and the ratios of the one that takes longest."""

    @property
    def problem(self) -> Problem:
        """What is computed."""
        return ncu.posed(self.shape, self.layout, self.dtype, self.out_dtype)

    @property
    def time_us(self) -> float | None:
        """Time on the GPU, at the clocks that the profiler found."""
        return _over(self._one("gpu__time_duration.sum"), 1e3)

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
        return self._one("l1tex__data_pipe_lsu_wavefronts.sum")

    @property
    def asked_bytes(self) -> float | None:
        """Sectors of global memory that loads and stores ask for, asynchronous copies and the copy engine apart."""
        sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op"
        found = self._sum(f"{sectors}_ld.sum", f"{sectors}_st.sum")
        return None if found is None else SECTOR_BYTES * found

    @property
    def l2_bytes(self) -> float | None:
        """Read from and written to the L2 cache."""
        sectors = self._sum("lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum")
        return None if sectors is None else SECTOR_BYTES * sectors

    @property
    def dram_bytes(self) -> float | None:
        """Read from and written to DRAM."""
        return self._sum("dram__bytes_read.sum", "dram__bytes_write.sum")

    @property
    def l2_requests(self) -> float | None:
        """Of loads and stores, the copy engine's too, to the L2 cache."""
        return self._one("lts__t_requests_srcunit_tex.sum")

    @property
    def cycles(self) -> float | None:
        """Of the multiprocessor that takes longest."""
        return self._one("sm__cycles_elapsed.max")

    @property
    def dram_gbs(self) -> float | None:
        """Speed of that, in GB/s."""
        size, time = self.dram_bytes, self.time_us
        return size / time / 1e3 if size is not None and time else None

    @property
    def issuing(self) -> float | None:
        """Share of the schedulers' cycles in which one issued an instruction."""
        return self._share("smsp__issue_active.sum", "smsp__cycles_active.sum")

    @property
    def stalls(self) -> Mapping[str, float]:
        """Share of a warp's time by what it waits for, the largest first; 'selected' is issuing."""
        found = {reason: self.counters[name] for reason, name in ncu.STALLS.items() if name in self.counters}
        total = sum(found.values())
        shares = {reason: value / total for reason, value in found.items()} if total else {}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    def _one(self, name: str) -> float | None:
        return self.counters.get(name)

    def _sum(self, *names: str) -> float | None:
        values = [self.counters[name] for name in names if name in self.counters]
        return sum(values) if len(values) == len(names) else None

    def _share(self, part: str, whole: str) -> float | None:
        return _over(self._one(part), self._one(whole))


def _over(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def of_launch(kernel: Kernel, launch: ncu.Launch, counters: Mapping[str, float]) -> Profile:
    """What was counted of a launch of ours."""
    return Profile(
        kernel=kernel.name,
        rung=kernel.rung,
        config=dict(launch.config),
        shape=launch.shape,
        dtype=launch.dtype,
        out_dtype=launch.out_dtype,
        layout=launch.layout,
        launched=[kernel.source.stem],
        counters=dict(counters),
    )
