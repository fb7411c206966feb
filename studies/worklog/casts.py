"""Rung 6 with global loads and stores of float4, by reinterpret_cast, and of four floats in an unrolled loop: an A/B.

`load4` and `store4` do the one where the macro ALIGNED is 1, the other where it is 0; rung 6 asks for ALIGNED nowhere
else. Both run on the same aligned matrices in turns.
"""

from collections.abc import Iterator
from typing import Any

from studies.record import Measurement, Measurements
from studies.templates import block
from tilewright.core.gpus import limits
from tilewright.core.problem import Problem
from tilewright.kernels import find
from tilewright.kernels.support import Addresses
from tilewright.runtime.base import Engine
from tilewright.tools.bench.measure import operand_sets, work_on
from tilewright.tools.bench.records import Times
from tilewright.tools.bench.verify import Operands
from tilewright.tools.explain.instruction_mix import access_widths
from tilewright.tools.explain.machine_code import MachineCode, machine_code
from tilewright.tools.report.ratios import speed

KERNEL = "vectorized"
SHAPES = ("1024x1024x1024", "4096x4096x4096", "8192x8192x8192")
WAYS = {"reinterpret_cast<float4>": Addresses(), "four floats, unrolled": Addresses(*[4] * 4)}
"""Addresses for which the engine compiles the one and the other: multiples of 16 bytes, and none."""


def measurements(engine: Engine, samples: int) -> Iterator[Measurement]:
    """Both ways at each of SHAPES."""
    kernel = find(KERNEL)
    config = kernel.config(capability=engine.capability)
    for shape in SHAPES:
        problem = Problem.parse(shape)
        operands = Operands.draw(problem)
        sets = operand_sets(engine, operands)
        plans = [engine.plan(kernel, config, problem, addresses) for addresses in WAYS.values()]
        works = [work_on(engine, plan, sets) for plan in plans]
        errors = []
        for work in works:
            work(0, getattr(engine, "stream", None))
            errors.append(operands.error(engine.download(sets[0].c)))
        times = engine.time(works, samples, rotation=len(sets))
        for way, error, sampled in zip(WAYS, errors, times, strict=True):
            us = Times.of(sampled).median
            facts = {"config": dict(config), "gflops": problem.gflops(us)}
            yield Measurement(what={"shape": shape}, way=way, us=us, error=error, limit=1e-5, facts=facts)


def codes(capability: tuple[int, int]) -> dict[str, MachineCode]:
    """Machine code of both ways, for GPUs of a compute capability.

    Raises:
        EngineUnavailableError: NVRTC or nvdisasm is not installed.
    """
    kernel, problem = find(KERNEL), Problem.parse(SHAPES[0])
    config, arch = kernel.config(capability=capability), limits(capability).arch
    return {
        way: machine_code(kernel, config, kernel.variant(problem, config, addresses), arch)
        for way, addresses in WAYS.items()
    }


def table(run: Measurements) -> str:
    """A table of both ways: loads and stores of global memory in the machine code, and speeds."""
    found = list(codes(run.gpu.capability).values())
    loops = [access_widths(code.main_loop) for code in found]
    whole = [access_widths(code.instructions) for code in found]
    rows: dict[str, list[Any]] = {
        "global loads of a thread, in a step along k": [_widths(of["global_load"]) for of in loops],
        "its shared stores, in a step along k": [_widths(of["shared_store"]) for of in loops],
        "its global stores": [_widths(of["global_store"]) for of in whole],
        "instructions of a step along k": [len(code.main_loop) for code in found],
        "registers of a thread": [code.report.registers for code in found],
        **{
            f"GFLOP/s at {row.what['shape']}": [speed(row.of[way].facts["gflops"]) for way in WAYS]
            for row in run.rows()
        },
    }
    return block("worklog/machine.md.j2", "casts", run=run, ways=list(WAYS), rows=rows.items())


def _widths(found: dict[int, int]) -> str:
    """As in '2 of 16 bytes, 4 of 4 bytes'."""
    return ", ".join(f"{count} of {width} bytes" for width, count in found.items())
