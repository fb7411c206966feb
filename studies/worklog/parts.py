"""The four parts of the course, and the list of rungs in the folder of the ladder."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from studies.templates import block
from tilewright.kernels import LADDER
from tilewright.kernels.kernel import Kernel


class Part(NamedTuple):
    """Rungs that are read one after the other."""

    letter: str
    title: str
    rungs: Sequence[int]


PARTS = (
    Part("A", "on CUDA cores", range(1, 13)),
    Part("B", "on tensor cores", (13, 14, *range(19, 27), 30, 31)),
    Part("C", "the library's float32 on CUDA cores", range(15, 19)),
    Part("D", "float32 on tensor cores", range(27, 30)),
)


def part_of(rung: int) -> Part:
    """The part that a rung is in.

    Raises:
        LookupError: it is in none.
    """
    for part in PARTS:
        if rung in part.rungs:
            return part
    raise LookupError(f"rung {rung} is in no part of the course: add it to PARTS")


def in_parts(rungs: Sequence[Kernel]) -> Iterator[tuple[Part, list[Kernel]]]:
    """Each part with those of these rungs that are in it, in its order."""
    for part in PARTS:
        found = sorted((one for one in rungs if part_of(one.rung) is part), key=lambda one: part.rungs.index(one.rung))
        if found:
            yield part, found


def ladder_readme() -> str:
    """The README of the ladder's folder: the order of the rungs, and where the source of each lies."""
    return block("worklog/tables.md.j2", "ladder", parts=in_parts(LADDER)) + "\n"
