"""Facts about each rung that need no GPU: counts of the emulator, and the compiler's own report."""

from tilewright.core.gpus import Gpu, find_gpu
from tilewright.core.hardware import WARP
from tilewright.core.problem import Problem
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.tools.bench.records import Facts, RunFile
from tilewright.tools.explain import instruction_mix
from tilewright.tools.explain.explanation import explain
from tilewright.tools.explain.machine_code import machine_code
from tilewright.tools.explain.roofline import ARITHMETIC

GPU: Gpu = find_gpu("NVIDIA H200", (9, 0))
"""Whose records the worklog shows, and for which it compiles."""


class Group(Facts):
    """Accesses of one kind, summed over the launch: see `traffic.Group`."""

    requests: int
    sectors: int
    wavefronts: int
    bank_conflicts: int


class Counted(Facts):
    """Counts of a rung at one shape."""

    kernel: str
    shape: str
    dtype: str
    config: dict[str, int]
    groups: dict[str, Group]
    """By kind, as global_load; kinds that the kernel does not have are missing."""
    ffma: int | None
    """Multiply-adds of threads; None for kernels that compute in tensor cores."""
    least_bytes: int
    """Bytes that must be moved from and to DRAM."""
    requested_bytes: int
    """Bytes asked of global memory by all requests: whole sectors, and the copy engine's tiles."""
    registers: int
    """Registers of a thread."""
    shared_bytes: int
    """Bytes of shared memory of a block."""
    warps: int
    """Warps that a multiprocessor holds."""
    times_us: dict[str, float]
    """The least that the launch takes for its arithmetic, and at each level of memory (see `roofline`)."""
    loop: dict[str, int]
    """Instructions of the main loop, by purpose."""

    @property
    def wavefronts(self) -> int:
        """Wavefronts of shared memory, whoever asks."""
        return sum(group.wavefronts for group in self.groups.values())

    @property
    def intensity(self) -> float:
        """Operations for each byte that is asked of global memory."""
        return Problem.parse(self.shape).flops / self.requested_bytes

    @property
    def warp_ffmas(self) -> float | None:
        """Multiply-add instructions of warps."""
        return None if self.ffma is None else self.ffma / WARP


def counted(kernel: Kernel, config: Config, problem: Problem, gpu: Gpu = GPU) -> Counted:
    """Count one rung on the emulator and compile it for the GPU.

    Raises:
        EngineUnavailableError: there is no C++ compiler, no NVRTC or no disassembler.
    """
    one = explain(kernel, config, problem, gpu)
    code = machine_code(kernel, config, one.variant, one.arch)
    return Counted(
        kernel=kernel.name,
        shape=problem.shape,
        dtype=problem.dtype,
        config=dict(config),
        groups={
            name: Group.model_validate(group, from_attributes=True)
            for name, group in one.traffic.groups.items()
            if group.requests
        },
        ffma=one.traffic.operations.ffma if one.traffic.operations else None,
        least_bytes=one.bytes.least,
        requested_bytes=one.bytes.requested,
        registers=one.report.registers or 0,
        shared_bytes=one.shared_bytes,
        warps=one.occupancy.warps,
        times_us={
            ARITHMETIC: one.roofline.arithmetic_us,
            **{level.name: level.time_us for level in one.roofline.levels},
        },
        loop={purpose: sum(found.values()) for purpose, found in instruction_mix.count(code.main_loop).items()},
    )


class Counts(RunFile):
    """Counts of rungs."""

    counts: list[Counted]
