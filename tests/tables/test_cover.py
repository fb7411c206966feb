"""Few choices that do for all problems."""

from hypothesis import given
from hypothesis import strategies as st

from tilewright.tables.cover import does_for, fewest


def test_what_takes_little_longer_than_the_best_does_and_what_errs_more_only_where_all_do():
    measured = [
        ("p", "best", True, 10.0),
        ("p", "near", True, 10.2),
        ("p", "far", True, 10.3),
        ("p", "errs", False, 9.0),
        ("q", "errs", False, 5.0),
    ]
    assert does_for(measured) == {"best": {"p"}, "near": {"p"}, "errs": {"q"}}


def test_the_most_useful_come_first_and_what_they_do_for_needs_no_other():
    assert fewest({"one": {1}, "most": {1, 2, 3}, "other": {3, 4}, "none": set()}) == ["most", "other"]


def test_of_nothing_there_is_nothing():
    assert fewest({}) == []
    assert fewest({"none": set()}) == []


@given(st.dictionaries(st.integers(), st.sets(st.integers(0, 20))))
def test_every_problem_that_any_does_for_is_done_for_and_each_choice_adds_some(does_for):
    chosen = fewest(does_for)
    done = set()
    for choice in chosen:
        assert does_for[choice] - done
        done |= does_for[choice]
    assert done == set().union(*does_for.values())
