"""What is expected between measurements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.analysis.gaussian_process import GaussianProcess


def expected(process, *place):
    return process.expected(process.covariance(np.array(place, float)))


NUMBERS = st.floats(-5, 5)


def fitted(places, values, noise=1e-3):
    return GaussianProcess.fitted(np.array(places, float), np.array(values, float), 2.0, 1.0, noise)


def test_where_it_was_measured_it_is_as_measured():
    process = fitted([[0, 0], [1, 0], [0, 3]], [0.5, -0.25, 1.0])
    assert [expected(process, *place) for place in process.places] == pytest.approx([0.5, -0.25, 1.0], abs=1e-3)


def test_far_from_all_measurements_it_is_the_mean():
    assert expected(fitted([[0, 0], [1, 0]], [1.0, 2.0]), 100, 0) == pytest.approx(0, abs=1e-9)


def test_measurements_that_err_count_for_less():
    assert expected(fitted([[0]], [1.0], noise=1.0), 0) == pytest.approx(0.5)
    assert expected(fitted([[0], [0]], [1.0, 3.0], noise=0.1), 0) == pytest.approx(2.0, rel=0.01)


def test_measurements_in_one_place_do_not_outvote_one_in_another():
    """As they would in a mean weighted by distance alone."""
    crowd = fitted([[-1], [-1.001], [-0.999], [1]], [1.0, 1.0, 1.0, -1.0], noise=0.05)
    assert expected(crowd, 0) == pytest.approx(0, abs=0.05)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=8), NUMBERS)
def test_it_is_linear_in_what_was_measured(measured, at):
    places, values = [[place] for place, _ in measured], np.array([value for _, value in measured])
    once, twice = (expected(fitted(places, scale * values, noise=0.1), at) for scale in (1, 2))
    assert twice == pytest.approx(2 * once, abs=1e-9)
