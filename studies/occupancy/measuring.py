"""Occupancy against independent work of a thread, after V. Volkov, "Better performance at lower occupancy" (GTC 2010).

Multiprocessors have 1 to 64 warps. Their threads compute chains of FMAs that do not wait for each other, or load from
DRAM with several loads of 16 bytes in flight. Kernels: tilewright/tools/machine/probes.cu. It takes a GPU.
"""

from collections.abc import Iterator

from studies.record import Measurement
from tilewright.core.gpus import find_gpu
from tilewright.core.hardware import WARP
from tilewright.runtime.base import Engine
from tilewright.tools.machine.probes import LOAD_BYTES, OPERAND_BYTES, Probe, Prober, dram_probe, flops_probe, timed

CHAINS, LOADS = (1, 2, 3, 4, 6, 8), (1, 2, 4, 8)
WARPS = (1, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64)
_OF_A_BLOCK = 32
"""Warps of a block at most: more are two blocks a multiprocessor."""
_REGISTERS = 65536


def blocks(multiprocessors: int, warps: int) -> tuple[int, int]:
    """Grid and threads of a block by which each multiprocessor has this many warps."""
    each = -(-warps // _OF_A_BLOCK)
    return each * multiprocessors, warps // each * WARP


def of_chains(engine: Engine, prober: Prober) -> Iterator[Measurement]:
    """FMAs of each number of chains and of warps, as a share of what the multiprocessors' lanes can do."""
    assert engine.capability is not None
    lanes = find_gpu(engine.device_name, engine.capability).multiprocessor.lanes
    for chains in CHAINS:
        for warps in WARPS:
            found = timed(prober, flops_probe(*blocks(engine.multiprocessors, warps), chains))
            share = found.work / OPERAND_BYTES / (found.cycles * lanes * engine.multiprocessors)
            yield Measurement(
                what={"chains": chains, "warps": warps}, way="FMA", us=found.ns / 1e3, facts={"share": share}
            )


def of_loads(engine: Engine, prober: Prober) -> Iterator[Measurement]:
    """Bandwidth of DRAM for each number of loads in flight and of warps, where these have enough registers."""
    for loads in LOADS:
        for warps in WARPS:
            probe = dram_probe(*blocks(engine.multiprocessors, warps), loads, prober.memory // 2, passes=1)
            if not _has_room(probe, warps, prober.arch):
                continue
            found = timed(prober, probe)
            facts = {"gbs": found.work / found.ns, "bytes_in_flight": warps * WARP * loads * LOAD_BYTES}
            yield Measurement(what={"loads": loads, "warps": warps}, way="DRAM", us=found.ns / 1e3, facts=facts)


def _has_room(probe: Probe, warps: int, arch: str) -> bool:
    """Whether a multiprocessor has registers for this many warps, which get them in multiples of 8 a thread."""
    registers = probe.compile(arch).report.registers or 0
    return -(-registers // 8) * 8 * warps * WARP <= _REGISTERS


def measurements(engine: Engine) -> Iterator[Measurement]:
    """Everything."""
    prober = Prober(engine)
    prober.compile([flops_probe(1, WARP, chains) for chains in CHAINS])
    prober.compile([dram_probe(1, WARP, loads, prober.memory // 2) for loads in LOADS])
    yield from of_chains(engine, prober)
    yield from of_loads(engine, prober)
