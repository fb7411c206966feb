"""Loops of machine code: natural loops, found by dominators.

Method: Aho, Lam, Sethi, Ullman, "Compilers: Principles, Techniques, and Tools", 2nd edition, section 9.6. The compiler
moves unlikely parts of a loop behind its end, so that a branch backward alone does not make a loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from tilewright.tools.explain.instruction_mix import multiply_adds
from tilewright.tools.explain.sass import Instruction

_ENDS = ("EXIT", "RET")
_BRANCHES = ("BRA", "JMP")


@dataclass(frozen=True)
class Loop:
    """A loop of a kernel, with the loops inside it."""

    instructions: tuple[int, ...]
    """Which ones of the kernel's instructions, counted from 0."""
    own: tuple[int, ...]
    """Instructions of the loop that are in no loop inside this one."""


def loops(code: Sequence[Instruction]) -> list[Loop]:
    """The natural loops of a kernel, in the order of their first instruction; none of functions that it calls."""
    blocks = _blocks(code)
    successors = _successors(code, blocks)
    predecessors: list[list[int]] = [[] for _ in blocks]
    reached = _reached([0], successors)
    for block in reached:
        for following in successors[block]:
            predecessors[following].append(block)
    dominators = _dominators(sorted(reached), predecessors)
    bodies: dict[int, set[int]] = {}
    for tail in reached:
        for header in successors[tail]:
            if dominators[tail] >> header & 1:
                bodies.setdefault(header, {header}).update(_reached([tail], predecessors, stop=header))
    found = []
    for header, body in sorted(bodies.items()):
        inner = (bodies[block] for block in body if block in bodies and block != header)
        own = body.difference(*inner)
        found.append(Loop(_indices(blocks, body), _indices(blocks, own)))
    return found


def main_loop(code: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """The instructions of the loop that does the kernel's work; empty where no loop multiplies.

    It is the one with the most instructions on tensor cores, then the most fp32 multiply-adds, which are in no loop
    inside it. Short loops inside it, that wait for a barrier say, are part of it.
    """
    work = {loop: multiply_adds(code[index] for index in loop.own) for loop in loops(code)}
    hottest = max(work, key=lambda loop: work[loop], default=None)
    if hottest is None or not any(work[hottest]):
        return ()
    return tuple(code[index] for index in hottest.instructions)


def _blocks(code: Sequence[Instruction]) -> list[range]:
    """Runs of instructions that are entered at their first and left at their last one."""
    index_of = {instruction.address: index for index, instruction in enumerate(code)}
    starts = {0}
    for index, instruction in enumerate(code):
        if instruction.name in (*_BRANCHES, *_ENDS):
            starts.add(index + 1)
            if instruction.target in index_of:
                starts.add(index_of[instruction.target])
    starts.discard(len(code))
    ordered = sorted(starts)
    return [range(start, end) for start, end in zip(ordered, [*ordered[1:], len(code)], strict=True)]


def _successors(code: Sequence[Instruction], blocks: Sequence[range]) -> list[list[int]]:
    """For each block those that may follow it."""
    block_at = {code[block.start].address: number for number, block in enumerate(blocks) if block}
    following: list[list[int]] = []
    for number, block in enumerate(blocks):
        last = code[block[-1]]
        targets = set()
        if last.name in _BRANCHES and last.target in block_at:
            targets.add(block_at[last.target])
        if not _leaves(last) and number + 1 < len(blocks):
            targets.add(number + 1)
        following.append(sorted(targets))
    return following


def _leaves(instruction: Instruction) -> bool:
    """Whether the instruction behind this one is never the next. A branch may have its condition as an operand."""
    if instruction.predicate:
        return False
    if instruction.name in _BRANCHES:
        return "," not in instruction.operands and "DIV" not in instruction.modifiers
    return instruction.name == "RET" or (instruction.name == "EXIT" and not instruction.operands)


def _reached(start: Sequence[int], edges: Sequence[Sequence[int]], stop: int | None = None) -> set[int]:
    """The blocks that edges lead to, the first ones included; edges that leave block `stop` are not followed."""
    found, waiting = set(start), list(start)
    while waiting:
        block = waiting.pop()
        if block != stop:
            new = set(edges[block]) - found
            found |= new
            waiting.extend(new)
    return found


def _dominators(reached: Sequence[int], predecessors: Sequence[Sequence[int]]) -> dict[int, int]:
    """For each reached block the blocks that every way to it leads through, itself included, as bits of an integer."""
    everything = sum(1 << block for block in reached)
    found = dict.fromkeys(reached, everything) | {reached[0]: 1 << reached[0]}
    changed = True
    while changed:
        changed = False
        for block in reached[1:]:
            common = reduce(lambda bits, before: bits & found[before], predecessors[block], everything)
            bits = common | 1 << block
            changed |= bits != found[block]
            found[block] = bits
    return found


def _indices(blocks: Sequence[range], chosen: set[int]) -> tuple[int, ...]:
    return tuple(index for block in sorted(chosen) for index in blocks[block])
