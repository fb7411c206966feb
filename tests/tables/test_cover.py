"""Few choices that do for all problems."""

from hypothesis import given
from hypothesis import strategies as st

from tilewright.tables.cover import fewest


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
