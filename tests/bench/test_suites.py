"""The suites that ship with the package."""

import pytest

from tilewright.bench.suites import shapes, suite
from tilewright.errors import SuiteNotFoundError


def test_suites_are_shipped_by_name():
    assert {"squares", "worklog", "odd", "llm", "skinny", "tiny"} <= set(shapes())
    assert [problem.m for problem in suite("squares")] == [64, 128, 256, 512, 1024, 2048, 4096, 8192]


def test_every_problem_of_every_suite_is_valid():
    for name in shapes():
        for problem, (m, n, k) in zip(suite(name, alpha=2.0, beta=0.5), shapes()[name], strict=True):
            assert (problem.m, problem.n, problem.k, problem.alpha, problem.beta) == (m, n, k, 2.0, 0.5)


def test_an_unknown_suite_gets_the_nearest_name():
    with pytest.raises(SuiteNotFoundError, match="no suite is called 'square'; did you mean 'squares'"):
        suite("square")
