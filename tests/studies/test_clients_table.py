"""The table of programs."""

from studies.clients.outcomes import Outcome
from studies.clients.tables import markdown


def test_each_way_is_compared_with_the_first_of_its_program():
    def one(size, way, seconds, steps=None):
        return Outcome(client="a solver", size=size, way=way, seconds=seconds, error=1.25e-7, steps=steps)

    outcomes = [one("3", "theirs", 0.5), one("3", "ours", 0.25), one("4", "theirs", 12.0, 7)]
    assert markdown(outcomes).splitlines()[2:] == [
        "| a solver | 3 | theirs | 0.5000 | 1.00 |  | 1.2e-07 |",
        "| a solver | 3 | ours | 0.2500 | 2.00 |  | 1.2e-07 |",
        "| a solver | 4 | theirs | 12.00 | 1.00 | 7 | 1.2e-07 |",
    ]


def test_without_outcomes_there_is_no_table():
    assert markdown([]) == ""
