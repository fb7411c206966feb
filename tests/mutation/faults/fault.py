"""A fault is a change of one place of the sources, known by its text, so that it stays when files move."""

from typing import NamedTuple


class Fault(NamedTuple):
    """A bug that is planted into a copy of the sources."""

    name: str
    text: str
    """Text that is replaced: it is there exactly once in all of src/tilewright."""
    instead: str
    meets: str
    """Effect of the fault on a user."""
