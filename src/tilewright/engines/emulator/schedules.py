"""The orders in which what is checked runs again: a kernel's results must not depend on any."""

from tilewright.engines.emulator.program import Watch

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
