"""The runs of a check: under checkers, and then in other orders, on none of which a kernel's results may depend."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from numpy.typing import NDArray

from tilewright.core.errors import LaunchError
from tilewright.emulator.checker import Checker, Finding, divided
from tilewright.emulator.program import ABSENT_LANES, WaitsForBlocksError, Watch

T = TypeVar("T")

Arrays = Mapping[str, NDArray[Any]]
"""Elements of arrays, by name."""

BACKWARDS = "backwards"


def orders(has_turns: bool, together: bool) -> dict[str, Watch]:
    """Orders of threads, by how a sentence ends that says so.

    Args:
        has_turns: as `Program` has it: then threads take turns at their atomic operations and fences too, all blocks
            together if they are not too many. What is right only if a thread does two of these with nobody in between
            goes wrong so.
        together: whether all blocks run together in any case.
    """
    found = {BACKWARDS: Watch(schedule=1, together=together), "shuffled": Watch(schedule=20, together=together)}
    if has_turns:
        found["in turns at atomic operations and fences"] = Watch(together=True, takes_turns=True)
    return found


class Seen(NamedTuple):
    """Findings and outputs of a run under checkers."""

    error: str
    """Why it failed; '' where it did not."""
    findings: list[Finding]
    absent_lanes: list[Finding]
    outputs: Arrays
    waits: bool
    """Whether blocks wait for others that did not run at the same time."""
    together: bool
    """Whether all blocks ran together."""

    @classmethod
    def by(cls, checkers: Sequence[Checker], outputs: Arrays, failure: LaunchError | None, together: bool) -> "Seen":
        """A run that left these outputs, as these checkers have seen it."""
        findings = [one for checker in checkers for one in checker.findings()]
        absent = [one for checker in checkers for one in checker.absent_lanes()]
        return cls(str(failure or ""), findings, absent, outputs, isinstance(failure, WaitsForBlocksError), together)

    def is_like(self, other: "Seen") -> bool:
        """Whether the other run did the same."""
        same = all(of.tobytes() == other.outputs[name].tobytes() for name, of in self.outputs.items())
        return same and (self.error, self.findings) == (other.error, other.findings)


def first_run(look: Callable[[bool, int], Seen]) -> tuple[Seen, list[Finding], list[Finding]]:
    """The first run, its faults and its notes. Where shuffles read lanes that take no part, it runs with other values
    of these too.

    look: runs all blocks together, or not, with these bits in such lanes.
    """
    seen = look(False, ABSENT_LANES[0])
    if seen.waits:  # with all blocks together it takes more memory
        seen = look(True, ABSENT_LANES[0])
    findings, notes = divided(seen.findings)
    if seen.error and not findings:
        findings.append(Finding("launch", None, message=seen.error))
    if seen.absent_lanes:
        others = (look(seen.together, bits) for bits in ABSENT_LANES[1:])
        findings += () if all(map(seen.is_like, others)) else seen.absent_lanes
    return seen, findings, notes


def run_again(run: Callable[[Watch], tuple[T, LaunchError | None]], watch: Watch) -> tuple[T, str]:
    """Result of a further run, with all blocks together where that is needed, and why it failed."""
    given, failure = run(watch)
    if isinstance(failure, WaitsForBlocksError) and not watch.together:
        return run_again(run, watch._replace(together=True))
    return given, str(failure or "")
