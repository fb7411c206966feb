"""Probes of a GPU: kernels of probes.cu, how large they are for a GPU, and how they are launched."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core.errors import EngineUnavailableError
from tilewright.core.gpus import limits
from tilewright.emulator.host import cores
from tilewright.runtime.base import Engine, Matrix
from tilewright.runtime.side_by_side import Workers
from tilewright.tools.bench.environment import environment
from tilewright.tools.machine.record import DRAM, FAR, FMA, L1, L2, REGISTERS, SHARED, Machine, ProbeTime

if TYPE_CHECKING:
    from tilewright.runtime.cuda import CudaEngine
    from tilewright.runtime.nvrtc import Cubin

SOURCE = Path(__file__).with_suffix(".cu")
SAMPLES = 5
LOAD_BYTES = 16
"""Bytes that a thread loads at a time."""
OPERAND_BYTES = 12
"""Bytes of the operands of an FMA."""
MOST_BYTES = 2 << 30
"""Bytes of memory that probes of DRAM read."""
_LINE, FAR_BYTES, PAGE_BYTES = 128, 4096, 2 << 20
"""Bytes from one line of a chain to the next, and where lines lie far apart; bytes of a page of the GPU's memory. A
chain goes through all lines of a page before the next, so that pages are looked up seldom; far apart, always."""
_SHARED_BYTES, _SHARED_CHAIN_BYTES = 16384, 4096
"""As in probes.cu."""


@dataclass(frozen=True)
class Probe:
    """A launch of a kernel of probes.cu."""

    level: str
    entry: str
    work: int
    """As of `ProbeTime`, as the next."""
    footprint_bytes: int
    numbers: tuple[int, ...]
    """The kernel's integers."""
    grid: int = 1
    block: int = 1
    macros: Mapping[str, int] = field(default_factory=dict)
    before: "tuple[Probe, ...]" = ()
    """Launches before each sample, untimed: one links a chain, one replaces in the L2 cache what the chain left."""

    def compile(self, arch: str) -> "Cubin":
        """Machine code of the kernel, as `compiled`."""
        return compiled(self.entry, self.macros, arch)


def compiled(entry: str, macros: Mapping[str, int], arch: str) -> "Cubin":
    """Machine code of a kernel of probes.cu for an architecture such as 'sm_90a'.

    Raises:
        EngineUnavailableError: NVRTC is not installed.
    """
    from tilewright.runtime import nvrtc  # noqa: PLC0415 it loads CUDA's bindings

    return nvrtc.compile_source(SOURCE.read_text(), str(SOURCE), entry, macros, arch, SOURCE.parent)


Run = Callable[[Probe], NDArray[np.int64]]
"""Runs a probe: of each block the clock at its begin and its end, in cycles, and the nanoseconds at both."""


def chase(level: str, lines: int, line_bytes: int, group: int, steps: int, warm: int) -> Probe:
    """Loads that wait for each other, along a chain of lines, which the launch links first.

    Args:
        level: who answers.
        lines, group: of the chain, and in a group, which the chain goes through before the next: powers of two.
        line_bytes: from one line to the next.
        steps, warm: along the chain: timed, and before that untimed.
    """
    macros = {"L1": int(level == L1)}
    numbers = (lines, line_bytes // 8, group, 1, warm, steps)
    return Probe(level, "chase", steps, lines * line_bytes, numbers, block=1024, macros=macros)


def cold_chase(level: str, lines: int, line_bytes: int, group: int, flush: Probe) -> Probe:
    """A chain whose lines no cache has; flush: reads much else."""
    link = chase(level, lines, line_bytes, group, 0, 0)
    steps = min(lines, 1 << 16)
    numbers = (lines, line_bytes // 8, group, 0, 0, steps)
    return replace(link, work=steps, numbers=numbers, before=(link, flush))


def reads(
    level: str, grid: int, block: int, loads: int, rounds: int, passes: int, shared_by_blocks: bool = False
) -> Probe:
    """All threads read global memory, `loads` times 16 bytes in flight each."""
    blocks = 1 if shared_by_blocks else grid
    of_a_block = block * loads * rounds * LOAD_BYTES
    macros = {"LOADS": loads, "L1": int(level == L1)}
    work = grid * of_a_block * passes
    return Probe(level, "global_read", work, blocks * of_a_block, (blocks, rounds, passes), grid, block, macros)


def flops_probe(grid: int, block: int, chains: int, steps: int = 1 << 15) -> Probe:
    """All threads compute FMAs, in chains that do not wait for each other."""
    work = grid * block * chains * steps * OPERAND_BYTES
    return Probe(REGISTERS, "fma_rate", work, 0, (steps,), grid, block, {"CHAINS": chains})


def dram_probe(grid: int, block: int, loads: int, memory: int, passes: int = 2) -> Probe:
    """All threads read DRAM: as much memory as they evenly can."""
    return reads(DRAM, grid, block, loads, max(1, memory // (grid * block * loads * LOAD_BYTES)), passes)


def latencies(l2_bytes: int, memory: int, multiprocessors: int) -> list[Probe]:
    """Probes of one thread.

    Args:
        l2_bytes: size of the L2 cache, of which the chain takes a quarter at most: each half of an H100's keeps
            copies of what the other half has.
        memory: bytes that may be read.
        multiprocessors: of the GPU.
    """
    in_l2 = 1 << int(math.log2(l2_bytes // 4 // _LINE))
    flush = dram_probe(multiprocessors, 1024, 4, memory, passes=1)
    return [
        Probe(FMA, "fma_chain", 1 << 20, 0, (1 << 20,)),
        Probe(SHARED, "shared_chase", 1 << 18, _SHARED_CHAIN_BYTES, (1 << 18,)),
        chase(L1, 128, _LINE, 128, 1 << 17, 128),
        chase(L2, in_l2, _LINE, in_l2, 1 << 16, in_l2),
        cold_chase(DRAM, 1 << 17, _LINE, PAGE_BYTES // _LINE, flush),
        cold_chase(FAR, memory // FAR_BYTES, FAR_BYTES, memory // FAR_BYTES, flush),
    ]


def bandwidths(l2_bytes: int, memory: int, multiprocessors: int) -> list[Probe]:
    """Probes of all threads; arguments: as of `latencies`.

    What is read from the L2 cache takes 2/5 of it, so that the copies in both halves of an H100's have room. Loads
    from it (`ld.global.cg`) pass the L1 cache by, and a multiprocessor reads a line again only after all others of that
    memory, 17 MB on an H200, which no L1 cache could keep.
    """
    grid, block, room = multiprocessors, 1024, 2 * l2_bytes // 5
    while block > 128 and grid * block * 4 * LOAD_BYTES > room:
        block //= 2
    rounds = max(1, room // (grid * block * 4 * LOAD_BYTES))
    steps = 1 << 14
    return [
        flops_probe(grid, 512, 8),
        Probe(SHARED, "shared_read", grid * 1024 * steps * LOAD_BYTES, _SHARED_BYTES, (steps,), grid, 1024),
        reads(L1, grid, 1024, 4, 1, 2048, shared_by_blocks=True),
        reads(L2, grid, block, 4, rounds, 256),
        dram_probe(grid, 1024, 4, memory),
    ]


def timed(run: Run, probe: Probe, samples: int = SAMPLES) -> ProbeTime:
    """The medians of samples of a probe, after one that is not counted."""
    cycles, ns = [], []
    for _ in range(samples + 1):
        for other in probe.before:
            run(other)
        times = run(probe)
        cycles.append(int((times[:, 1] - times[:, 0]).max()))
        ns.append(int(times[:, 3].max() - times[:, 2].min()))
    return ProbeTime(
        level=probe.level,
        work=probe.work,
        footprint_bytes=probe.footprint_bytes,
        cycles=statistics.median_low(cycles[1:]),
        ns=statistics.median_low(ns[1:]),
    )


class Prober:
    """Launches probes on a GPU, in memory of their own.

    Raises:
        EngineUnavailableError: the engine has no GPU.
        MemoryError: too little of its memory is free.
    """

    def __init__(self, engine: Engine) -> None:
        if engine.capability is None:
            raise EngineUnavailableError(f"only a GPU can be measured, and the {engine.name} engine has none")
        gpu: Any = engine
        self.engine: CudaEngine = gpu
        self.arch = limits(engine.capability).arch
        self.memory = min(MOST_BYTES, 1 << int(math.log2(engine.free_bytes() // 4)))
        """Bytes that probes may read: a power of two."""
        self._read, self._chain = _zeros(self.engine, self.memory), _zeros(self.engine, self.memory)
        self._function = lru_cache(maxsize=None)(self._loaded)

    def compile(self, probes: Iterable[Probe]) -> None:
        """Compile probes side by side, which a run of each would do one after the other."""
        with Workers(cores()) as threads:
            list(threads.map(lambda probe: probe.compile(self.arch), probes))

    def __call__(self, probe: Probe) -> NDArray[np.int64]:
        """Run a probe, as `Run`.

        Raises:
            LaunchError: the GPU refuses it.
        """
        from cuda.core import LaunchConfig, launch  # noqa: PLC0415 needs a GPU's driver

        kernel = self._function(probe.entry, tuple(probe.macros.items()))
        results = self.engine.empty(probe.grid, probe.block, "uint64")
        times = self.engine.empty(probe.grid, 4, "int64")
        buffers = {"chase": [self._chain], "shared_chase": []}.get(probe.entry, [self._read])
        pointers = [one.pointer for one in (*buffers, results, times)]
        with self.engine.current:
            config = LaunchConfig(grid=probe.grid, block=probe.block)
            launch(self.engine.stream, config, kernel, *pointers, *map(np.int32, probe.numbers))
        return self.engine.download(times)

    def _loaded(self, entry: str, macros: tuple[tuple[str, int], ...]) -> Any:
        from cuda.core import ObjectCode  # noqa: PLC0415

        code = compiled(entry, dict(macros), self.arch)
        with self.engine.current:
            return ObjectCode.from_cubin(code.code).get_kernel(code.entry)


def _zeros(engine: "CudaEngine", size: int) -> Matrix:
    from cuda.bindings import driver  # noqa: PLC0415

    from tilewright.runtime.driver import check  # noqa: PLC0415

    memory = engine.empty(1, size, "uint8")
    with engine.current:
        check(driver.cuMemsetD8(memory.pointer, 0, size))
    return memory


def measure(engine: Engine) -> Machine:
    """Latencies and bandwidths of an engine's GPU.

    Raises:
        EngineUnavailableError: the engine has no GPU.
        MemoryError: too little of its memory is free.
    """
    prober = Prober(engine)
    facts = engine.cache_bytes, prober.memory, engine.multiprocessors
    of_latency, of_bandwidth = latencies(*facts), bandwidths(*facts)
    prober.compile([*of_latency, *of_bandwidth])
    found = [[timed(prober, probe) for probe in probes] for probes in (of_latency, of_bandwidth)]
    return Machine(
        environment=environment(engine),
        multiprocessors=engine.multiprocessors,
        latencies=found[0],
        bandwidths=found[1],
    )
