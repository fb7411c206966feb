"""Demand of a block's step on its multiprocessor, counted: the accesses by the emulator, the instructions by the
machine code. The cost model uses it for kernels that stage tiles through registers, or stage nothing at all.

And issue slots: how long a multiprocessor's partitions take to issue a kernel's instructions, one a clock each.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.core.gpus import Gpu, Multiprocessor
from tilewright.core.hardware import WARP, ceil_div
from tilewright.core.problem import Problem
from tilewright.emulator.counting import Operations
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Staging
from tilewright.kernels.kernel import Kernel
from tilewright.tools.explain.control_flow import loops
from tilewright.tools.explain.cost.models.block import Demand
from tilewright.tools.explain.cost.models.staging import BARRIERS, GENERIC_LOAD, LOAD, UNSTAGED_LOADS, tensor_rate
from tilewright.tools.explain.instruction_mix import TENSOR, group, multiply_adds
from tilewright.tools.explain.machine_code import MachineCode
from tilewright.tools.explain.sass import Instruction
from tilewright.tools.explain.traffic import Traffic

_PAIR = "FFMA2"
"""Opcode of compute capability 10.0 and newer: two multiply-adds in one instruction."""
_PRODUCTS = {"16816": 2048, "1688": 1024, "1684": 512}
"""Multiply-adds of a warp's tensor-core instruction, by its shape."""
_REGISTER = re.compile(r"\bR(\d+)")
_STORES = ("STS", "STG", "ST")
_HIDDEN = 0.2
"""Share of an iteration's multiplications from which on a load is taken to have come meanwhile in part."""


def counted(
    kernel: Kernel, config: Config, problem: Problem, blocks: int, traffic: Traffic, code: MachineCode, gpu: Gpu
) -> Demand | None:
    """Demand of a step of a block in a launch, in the mean of all steps.

    Args:
        kernel, config, problem: what is launched.
        blocks: of the launch.
        traffic, code: what was counted of it, and its machine code.
        gpu: where.

    Returns:
        None of other families than `Staging`, and where the loop that does the work is not known.
    """
    if not isinstance(kernel.cost, Staging) or not code.main_loop or not blocks or not problem.k:
        return None
    tile, sm, loop = kernel.tile(config), gpu.multiprocessor, code.main_loop
    steps = blocks * ceil_div(problem.k, tile.k)
    warps = steps * ceil_div(kernel.threads(config), WARP)
    if kernel.cost.tensor_cores:
        if (multiplied := _on_tensor_cores(loop, steps * tile.m * tile.n * tile.k, sm)) is None:
            return None
        turns, multiply = multiplied
    elif traffic.operations is None or (found := iterations(code, traffic.operations)) is None:
        return None
    else:
        turns, multiply = found, traffic.operations.ffma / sm.lanes
    issue, banks = turns * len(loop) / sm.partitions, _banks(traffic, loop, turns, sm)
    loads, stages = _loading(code), any(one.name == "BAR" for one in code.instructions)
    inner = stages and not any(one.name in ("LDG", "STS", "BAR") for one in loop)
    of_step = turns / warps
    demand = Demand(
        multiply=multiply / steps,
        issue=issue / steps,
        banks=banks / steps,
        reads=0 if kernel.cost.tensor_cores or not stages else of_step if inner else tile.k,
        at_once=inner,
        waits=0.0,
    )
    if not stages:
        return demand._replace(waits=UNSTAGED_LOADS * of_step)
    waits = BARRIERS + sum(max(LOAD - share * demand.busy, 0.0) for share in exposed(loads))
    return demand._replace(waits=waits * (1.0 if inner else of_step))


def _on_tensor_cores(loop: Sequence[Instruction], products: int, sm: Multiprocessor) -> tuple[float, float] | None:
    """How often warps go through a loop that makes this many multiply-adds, and how long these take."""
    made = [(_PRODUCTS.get(one.modifiers[0], 0), "TF32" in one.modifiers) for one in loop if group(one) == TENSOR]
    if not made or not all(of for of, _ in made):
        return None
    turns = products / sum(of for of, _ in made)
    return turns, turns * sum(of / tensor_rate(sm, tf32, of) for of, tf32 in made)


def _banks(traffic: Traffic, loop: Sequence[Instruction], turns: float, sm: Multiprocessor) -> float:
    """Cycles of the banks for all requests of a launch."""
    groups, generic = traffic.groups, sum(one.name == "LD" for one in loop)
    loads = turns * generic * GENERIC_LOAD if generic else groups["shared_load"].wavefronts
    through_l1 = [groups["global_load"], groups["global_store"]]
    return loads + groups["shared_store"].wavefronts + sum(max(of.passes, of.lines / sm.l1_lines) for of in through_l1)


def _loading(code: MachineCode) -> Sequence[Instruction]:
    """The shortest loop around the one that does the work that loads from global memory; that one where none does."""
    inside = {one.address for one in code.main_loop}
    around = [[code.instructions[index] for index in loop.instructions] for loop in loops(code.instructions)]
    loading = [
        loop for loop in around if inside <= {one.address for one in loop} and any(one.name == "LDG" for one in loop)
    ]
    return min(loading, key=len, default=code.main_loop)


def exposed(loop: Sequence[Instruction]) -> list[float]:
    """For each time that a warp waits for loads of global memory in an iteration of a loop, the share of the
    iteration's multiplications that it issues between load and wait.

    A warp waits where an instruction reads a register that a load writes. Instructions issue in order, so then all
    earlier loads have come too. Between two stores to shared memory, or barriers, it waits once: the loads of several
    branches, of which a warp takes one, are not added up.
    """
    total = max(*multiply_adds(loop), 1)
    in_flight: list[tuple[set[int], int]] = []
    found: list[float] = []
    done, waits = 0, True
    for again in (False, True):
        for one in loop:
            reads = _read(one)
            late = [began for written, began in in_flight if written & reads]
            if late:
                share = (done - max(late)) / total
                if again and waits:
                    found.append(share)
                waits = waits and share >= _HIDDEN
                in_flight = [(written, began) for written, began in in_flight if began > max(late)]
            if one.name in ("STS", "BAR"):
                waits = True
            if one.name == "LDG" and (target := _REGISTER.match(one.operands)):
                first = int(target[1])
                in_flight.append((set(range(first, first + _registers(one))), done))
            done += any(multiply_adds([one]))
    return found


def _read(one: Instruction) -> set[int]:
    """The registers that an instruction reads, as far as loads of global memory may have written them."""
    if one.name not in _STORES:
        return {int(number) for number in _REGISTER.findall(one.operands.partition(",")[2])}
    named = [int(number) for number in _REGISTER.findall(one.operands)]
    return {*named, *range(named[-1], named[-1] + _registers(one))} if named else set()


def _registers(one: Instruction) -> int:
    """Number of registers that a load writes or a store reads."""
    return 4 if "128" in one.modifiers else 2 if "64" in one.modifiers else 1


@dataclass(frozen=True)
class Issue:
    """The instructions of a launch, as far as they are those of the loop that does the work."""

    multiply_share: float
    """Share of FP32 multiply-adds among the loop's instructions."""
    instructions: int
    """Instructions of all warps, over the launch."""
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
