"""What programs made of their products, and the JSON file that holds it."""

from tilewright.bench.records import Facts, RunFile


class Outcome(Facts):
    """A program with one way to multiply. The ways take turns in a solver, and train one after the other."""

    client: str
    """The program."""
    size: str
    way: str
    """How its products were made."""
    seconds: float
    """The median over the turns; of a training, a step's."""
    error: float
    """Of a solver, the relative residual in float64; of a training, the largest difference of a loss from that of the
    same step in float64, over that."""
    steps: int | None = None
    """Of a solver that iterates, and of a training."""


class Clients(RunFile):
    """What was measured in one run."""

    outcomes: list[Outcome]
