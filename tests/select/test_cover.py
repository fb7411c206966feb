"""Few choices that cover all problems."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tilewright.select.tables.merging import fewest


def test_the_most_useful_come_first_and_what_they_cover_needs_no_other():
    one, most, other, none = ([1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 0])
    assert fewest(np.array([one, most, other, none], bool).T) == [1, 2]


def test_of_nothing_there_is_nothing():
    assert fewest(np.zeros((0, 0), bool)) == []
    assert fewest(np.zeros((3, 1), bool)) == []


@given(arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=20), elements=st.booleans()))
def test_every_problem_that_any_covers_is_covered_and_each_choice_adds_some(covers):
    done = np.zeros(len(covers), bool)
    for choice in fewest(covers):
        assert (covers[:, choice] & ~done).any()
        done |= covers[:, choice]
    assert (done == covers.any(axis=1)).all()
