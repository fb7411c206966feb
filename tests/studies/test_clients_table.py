"""The table of programs."""

from studies.record import Measurement, Measurements
from studies.templates import block


def test_each_way_is_compared_with_the_first_of_its_program():
    def one(size, way, seconds, **facts):
        what = {"program": "a solver", "size": size}
        return Measurement(what=what, way=way, us=1e6 * seconds, error=1.25e-7, facts=facts)

    outcomes = [one("3", "theirs", 0.5), one("3", "ours", 0.25), one("4", "theirs", 12.0, steps=7)]
    run = Measurements(
        environment={"gpu": {"name": "NVIDIA H200"}, "date": "2026-11-25T01:00:00", "revision": "abc1234"},
        measurements=outcomes,
    )
    assert block("clients/table.md.j2", "table", run=run).splitlines()[4:] == [
        "| a solver | 3 | theirs | 0.5000 | 1.00 |  | 1.2e-07 |",
        "| a solver | 3 | ours | 0.2500 | 2.00 |  | 1.2e-07 |",
        "| a solver | 4 | theirs | 12.00 | 1.00 | 7 | 1.2e-07 |",
    ]
