"""Facts about each rung that need no GPU: counts of the emulator, and the compiler's own report.

And how often kernels access memory for each result, as their sources make the accesses.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from studies.results import course_gpu
from studies.templates import block
from tilewright.core.gpus import Gpu
from tilewright.core.hardware import WARP
from tilewright.core.problem import Problem, Scalars
from tilewright.kernels import find
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.tools.bench.records import Facts, RunFile
from tilewright.tools.explain import instruction_mix, traffic
from tilewright.tools.explain.explanation import explain
from tilewright.tools.explain.machine_code import machine_code
from tilewright.tools.explain.roofline import ARITHMETIC

_RUNGS_AT = "512x256x384"
"""Which the tiles of RUNGS divide."""
RUNGS = ("shared_tiled", "thread_tiled_1d", "thread_tiled_2d")
_TOYS_AT = "4x4x7"
TOYS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "one result": ("naive", {"BLOCK_X": 4, "BLOCK_Y": 4}),
    "four in a column": ("thread_tiled_1d", {"BM": 4, "BN": 4, "BK": 7, "TM": 4, "TN": 1}),
    "four in a 2 x 2 square": ("thread_tiled_2d", {"BM": 4, "BN": 4, "BK": 7, "TM": 2, "TN": 2}),
}
"""Results that a thread computes, by name, and the kernel and config that do so."""


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


def counted(kernel: Kernel, config: Config, problem: Problem, gpu: Gpu | None = None) -> Counted:
    """Count one rung on the emulator and compile it for the GPU, that of the worklog's records if left out.

    Raises:
        EngineUnavailableError: there is no C++ compiler, no NVRTC or no disassembler.
    """
    one = explain(kernel, config, problem, gpu or course_gpu())
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


class Accesses(Facts):
    """Accesses by single threads for each element of the result."""

    kernel: str
    shape: str
    global_loads: float
    shared_loads: float
    stores: float


def accesses(name: str, shape: str, config: Mapping[str, int], beta: float = 0.0) -> Accesses:
    """Count one kernel's accesses on the emulator.

    Raises:
        EngineUnavailableError: there is no C++ compiler.
    """
    kernel, problem = find(name), Problem.parse(shape)
    groups = traffic.count(kernel, kernel.config(config), problem, scalars=Scalars(beta=beta)).groups
    loads, shared, stores = (
        groups[kind].accesses / (problem.m * problem.n) for kind in ("global_load", "shared_load", "global_store")
    )
    return Accesses(kernel=name, shape=shape, global_loads=loads, shared_loads=shared, stores=stores)


def all_accesses() -> list[Accesses]:
    """Count the accesses that pages show.

    Raises:
        EngineUnavailableError: there is no C++ compiler.
    """
    toys = [accesses(name, _TOYS_AT, config, beta=1.0) for name, config in TOYS.values()]
    return [*(accesses(name, _RUNGS_AT, {}) for name in RUNGS), *toys]


def accesses_of_rungs(found: Sequence[Accesses]) -> str:
    """A table of RUNGS: accesses a result, in multiples of k."""
    of = {one.kernel: one for one in found if one.shape == _RUNGS_AT}
    rungs = [(find(name), of[name]) for name in RUNGS]
    return block("worklog/tables.md.j2", "accesses", rungs=rungs, k=Problem.parse(_RUNGS_AT).k, of_k=_of_k)


def accesses_of_toys(found: Sequence[Accesses]) -> str:
    """A table of TOYS: what a thread loads and stores for each of its results."""
    of = {one.kernel: one for one in found if one.shape == _TOYS_AT}
    return block("worklog/tables.md.j2", "toys", toys=[(what, of[name]) for what, (name, _) in TOYS.items()])


def _of_k(accesses: float, k: int) -> str:
    """As in 'K/16', '2K' and '9K/8'."""
    share = Fraction(accesses / k).limit_denominator(1000)
    above = "K" if share.numerator == 1 else f"{share.numerator}K"
    return above if share.denominator == 1 else f"{above}/{share.denominator}"
