"""Issue slots: how long a multiprocessor's partitions take to issue a kernel's instructions, one a clock each."""

from dataclasses import dataclass

from tilewright.analysis.instruction_mix import multiply_adds
from tilewright.analysis.machine_code import MachineCode
from tilewright.analysis.traffic import Operations
from tilewright.core.gpus import Gpu
from tilewright.core.hardware import WARP

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
    """To issue them, with all partitions of all multiprocessors busy; at the least what the multiply-adds take the FP32
    lanes, of which a partition may have fewer than a warp."""


def issue(code: MachineCode, operations: Operations | None, gpu: Gpu) -> Issue | None:
    """The instructions that come with a launch's multiply-adds; None where its loop makes no FP32 ones."""
    if operations is None or (turns := iterations(code, operations)) is None:
        return None
    length, sm = len(code.main_loop), gpu.multiprocessor
    instructions = round(turns * length)
    cycles = max(instructions / sm.partitions, operations.ffma / sm.lanes) / gpu.multiprocessors
    return Issue(multiply_adds(code.main_loop)[1] / length, instructions, cycles / gpu.clock_mhz)


def iterations(code: MachineCode, operations: Operations) -> float | None:
    """How often warps go through the loop that makes a launch's multiply-adds; None where it makes no FP32 ones."""
    _, multiplying = multiply_adds(code.main_loop)
    pairs = sum(instruction.name == _PAIR for instruction in code.main_loop)
    return operations.ffma / WARP / (multiplying + pairs) if multiplying else None
