"""Whole numbers worked out from text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.errors import ConfigError
from tilewright.kernels.source.expressions import Expression

NUMBERS = {"M": 100, "N": 33, "BN": 32}


@pytest.mark.parametrize(
    ("text", "value"),
    {
        "7": 7,
        " BN * 2 ": 64,
        "ceil(N / BN)": 2,
        "floor(N/BN)": 1,
        "(N + BN - 1) // BN": 2,
        "N % BN": 1,
        "-N + M": 67,
        "min(M, N, 40)": 33,
        "max(ceil(M/BN), 2) * ceil(N/BN)": 8,
        "M / 4": 25,
        "max(N)": 33,
    }.items(),
)
def test_the_value(text, value):
    assert Expression(text, "grid")(NUMBERS) == value


def test_its_names():
    assert Expression("ceil(N/BN) + ceil(M/2)", "grid").names == {"M", "N", "BN"}


@pytest.mark.parametrize(
    ("text", "words"),
    {
        "N +": r"grid must be a whole number, got 'N \+': invalid syntax",
        "f(N)": r"'f\(N\)' is no number, name, sum",
        "N ** 2": r"'N \*\* 2' is no number",
        "1.5": "'1.5' is no number",
        "True": "'True' is no number",
        "'a'": "is no number",
        "N.x": "'N.x' is no number",
        "ceil(N, 2)": "ceil takes one number, got 2",
        "ceil()": r"'ceil\(\)' is no number",
        "ceil(x=N)": "is no number",
        "1 / 0": "it divides by 0",
    }.items(),
)
def test_what_is_none_is_refused_at_once(text, words):
    with pytest.raises(ConfigError, match=words):
        Expression(text, "grid")


def test_a_value_that_is_not_whole_is_refused_when_it_is_known():
    quotient = Expression("N/BN", "grid")
    assert quotient({"N": 64, "BN": 32}) == 2
    with pytest.raises(ConfigError, match="it is 33/32 with BN=32, N=33: write ceil"):
        quotient(NUMBERS)
    with pytest.raises(ConfigError, match="it divides by 0"):
        quotient({"N": 64, "BN": 0})


def test_unknown_names_are_named():
    Expression("N/BN", "block").check_names(NUMBERS)
    with pytest.raises(
        ConfigError, match="block must be a whole number, got 'BM': nothing is called 'BM'; did you mean"
    ):
        Expression("BM", "block").check_names(NUMBERS)


@given(st.integers(1, 10**6), st.integers(1, 10**4))
def test_ceil_of_a_quotient_is_exact(size, tile):
    assert Expression("ceil(N/BN)", "grid")({"N": size, "BN": tile}) == -(-size // tile)
