"""The suites that ship with the package."""

import pytest

from tilewright.core.errors import ProblemError, SuiteNotFoundError
from tilewright.core.problem import Arithmetic, Epilogue, Problem
from tilewright.tools.bench.suites import problems, shapes


def test_suites_are_shipped_by_name():
    assert {"squares", "worklog", "odd", "llm", "skinny", "tiny", "decode", "batched"} <= set(shapes())
    assert [problem.m for problem in problems([], ["squares"])] == [64, 128, 256, 512, 1024, 2048, 4096, 8192]


def test_every_problem_of_every_suite_is_valid():
    for name in shapes():
        for problem, shape in zip(problems([], [name], Arithmetic("bfloat16")), shapes()[name], strict=True):
            assert (problem.m, problem.n, problem.k, problem.batch, problem.layout) == shape
            assert problem.dtype == "bfloat16"


def test_batches_have_their_layouts():
    found = [(one.shape, one.layout) for one in problems([], ["batched"])]
    assert found[0] == ("512 of 64x64x64", "NN")
    assert found[4] == ("384 of 1024x1024x64", "NT")


def test_sizes_come_before_suites_and_take_what_is_asked_of_all():
    arithmetic, epilogue = Arithmetic("float16", "bfloat16"), Epilogue("row", "silu")
    first, *others = problems(["3x4x5"], ["tiny"], arithmetic, layouts=["TN"], batch=7, epilogue=epilogue)
    assert (first.m, first.n, first.k, first.a.ld, first.b.ld) == (3, 4, 5, 3, 4)
    assert len(others) == len(shapes()["tiny"])
    assert {(one.batch, one.arithmetic, one.epilogue) for one in (first, *others)} == {(7, arithmetic, epilogue)}
    # A column without gaps is a row as well.
    assert all(one.layout == ("NN" if one.m == 1 else "TN") for one in (first, *others))
    assert problems(["3x4x5"], []) == [Problem(3, 4, 5)]


def test_several_layouts_follow_each_other():
    found = [(one.m, one.layout) for one in problems(["8", "9"], [], layouts=["NN", "TT"])]
    assert found == [(8, "NN"), (8, "TT"), (9, "NN"), (9, "TT")]


def test_what_is_asked_comes_before_the_suites_own():
    assert {(one.layout, one.batch) for one in problems([], ["batched"], layouts=["TT"], batch=2)} == {("TT", 2)}


def test_an_unknown_suite_gets_the_nearest_name():
    with pytest.raises(SuiteNotFoundError, match="no suite is called 'square'; did you mean 'squares'"):
        problems([], ["square"])


def test_an_unknown_layout_is_refused():
    with pytest.raises(ProblemError, match="layout must be one of NN, NT, TN, TT, A's order then B's, got 'NX'"):
        problems(["8"], [], layouts=["NX"])
