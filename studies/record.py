"""Measurements of a study, and the JSON file that holds them: one format for all studies."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import Field

from tilewright.tools.bench.records import Facts, RunFile


class Measurement(Facts):
    """One way to do one piece of work. Ways of the same work took turns, where the study does not say otherwise."""

    what: dict[str, str | int]
    """The work: sizes, types and names, by what they are."""
    way: str
    """Who does it, and how."""
    us: float | None = None
    """Microseconds, the median of samples; None where nothing was timed."""
    error: float | None = None
    """Relative Frobenius error, next to float64 if the study does not say otherwise; None where the result holds NaN or
    infinity, or was not compared."""
    limit: float | None = None
    """The largest error that counts as right; None where the study has none."""
    facts: dict[str, Any] = Field(default_factory=dict)
    """Further measured values, by name."""

    @property
    def right(self) -> bool:
        """Whether the error is within its limit."""
        return self.limit is None or (self.error is not None and self.error <= self.limit)

    def __str__(self) -> str:
        work = ", ".join(str(value) for value in self.what.values())
        us = "" if self.us is None else f" {self.us:,.2f} us"
        error = "" if self.error is None else f" error {self.error:.2e}"
        facts = "".join(
            f" {name} {value}" for name, value in self.facts.items() if isinstance(value, str | int | float)
        )
        return f"{work}  {self.way}:{us}{error}{facts}{'' if self.right else '  WRONG'}"


class Row(NamedTuple):
    """Measurements whose work is the same but for some of its names."""

    what: Mapping[str, str | int]
    """The names and values that they share."""
    of: Mapping[str | tuple[str | int, ...], Measurement]
    """By the way; where work is not the same in all names, by the values of these and the way."""


class Measurements(RunFile):
    """Measurements of one run of a study, and its environment."""

    measurements: list[Measurement]

    def rows(self, *across: str) -> list[Row]:
        """Measurements by their work, in the order of the first of each.

        Args:
            across: names of the work that do not count: their values distinguish measurements of a row.
        """
        found: dict[tuple[tuple[str, str | int], ...], dict[str | tuple[str | int, ...], Measurement]] = {}
        for one in self.measurements:
            shared = tuple((name, value) for name, value in one.what.items() if name not in across)
            key = (*(one.what[name] for name in across), one.way) if across else one.way
            found.setdefault(shared, {})[key] = one
        return [Row(dict(shared), of) for shared, of in found.items()]

    def values(self, name: str) -> list[str | int]:
        """All values of a name of the work, in the order of the first of each."""
        return list(dict.fromkeys(one.what[name] for one in self.measurements if name in one.what))
