"""Issue slots: how long a multiprocessor's partitions take to issue a kernel's instructions, one a clock each."""

from dataclasses import dataclass

from tilewright.analysis.instruction_mix import multiply_adds
from tilewright.analysis.machine_code import MachineCode
from tilewright.analysis.traffic import Operations
from tilewright.gpus import Gpu

_WARP = 32
_PAIR = "FFMA2"
"""Of compute capability 10.0 and newer: two multiply-adds in one instruction."""


@dataclass(frozen=True)
class Issue:
    """The instructions of a launch, as far as they are those of the loop that does the work."""

    multiply_share: float
    """Share of FP32 multiply-adds among the loop's instructions."""
    instructions: int
    """Of warps, over the launch."""
    time_us: float
    """To issue them, with all partitions of all multiprocessors busy."""


def issue(code: MachineCode, operations: Operations | None, gpu: Gpu) -> Issue | None:
    """The instructions that come with a launch's multiply-adds; None where its loop makes no FP32 ones."""
    _, multiplying = multiply_adds(code.main_loop)
    if operations is None or not multiplying:
        return None
    pairs = sum(instruction.name == _PAIR for instruction in code.main_loop)
    length = len(code.main_loop)
    instructions = round(operations.ffma / _WARP * length / (multiplying + pairs))
    slots_per_us = gpu.multiprocessor.partitions * gpu.multiprocessors * gpu.clock_mhz
    return Issue(multiplying / length, instructions, instructions / slots_per_us)
