"""Support of problems by kernels: the words of each refusal, and where rows count as aligned."""

import pytest

from tilewright.core.errors import ConfigError, DtypeError, ProblemError
from tilewright.core.problem import LAYOUTS, Arithmetic, Epilogue, Layout, Problem, orders
from tilewright.kernels.support import EVERYTHING, Addresses, Support, all_aligned, factors_aligned, lines_aligned

PLAIN = Support()

A, B = orders("TT")

REFUSALS = {
    "factors": (
        Support(factors=("float16", "bfloat16")),
        Problem(8, 8, 8),
        DtypeError,
        "mine takes float16, bfloat16, got float32",
    ),
    "result": (
        Support(results=("float32", "float16")),
        Problem(8, 8, 8, Arithmetic("float32", "bfloat16")),
        DtypeError,
        "mine makes float32, float16, got out_dtype bfloat16",
    ),
    "layout": (
        Support(layouts=("NN", "NT")),
        Problem(8, 8, 8, a=A, b=B),
        ProblemError,
        "mine takes layouts NN, NT of A and B, got TT",
    ),
    "batch": (
        PLAIN,
        Problem(8, 8, 8, batch=3),
        ProblemError,
        "mine computes one product at a time, got a batch of 3",
    ),
    "bias": (
        PLAIN,
        Problem(8, 8, 8, epilogue=Epilogue("row", "gelu")),
        ProblemError,
        "mine has no bias and no activation, got bias+gelu",
    ),
    "rows of A": (
        Support(aligned=True),
        Problem(8, 8, 8, a=Layout(ld=9)),
        ProblemError,
        "mine needs rows of A and B that start at multiples of 16 bytes, got addresses of 0x0 and 0x0, "
        "and 9 and 8 float32 a row",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_says_what_is_taken_and_what_came(case):
    takes, problem, kind, words = REFUSALS[case]
    refusal = takes.why_not("mine", problem)
    assert type(refusal) is kind
    assert str(refusal) == words
    assert EVERYTHING.why_not("mine", problem) is None


def test_addresses_are_quoted():
    refusal = Support(aligned=True).why_not("mine", Problem(8, 8, 8), Addresses(a=0x1004, b=0x2000))
    assert "got addresses of 0x1004 and 0x2000, and 8 and 8 float32 a row" in str(refusal)


def test_without_products_neither_orders_nor_alignment_of_factors_matter():
    problem = Problem(8, 8, 0, a=A, b=B)
    assert Support(aligned=True).why_not("mine", problem, Addresses(a=4, b=4)) is None


@pytest.mark.parametrize("layout", LAYOUTS)
def test_everything_is_taken_in_every_order(layout):
    a, b = orders(layout)
    problem = Problem(3, 5, 7, Arithmetic("float32", "bfloat16"), 2, a, b, epilogue=Epilogue("column", "relu"))
    assert EVERYTHING.why_not("mine", problem, Addresses(4, 8, 12, 2)) is None


@pytest.mark.parametrize(
    ("takes", "capability", "dtype", "words"),
    [
        (PLAIN, (7, 0), "float32", "mine needs a GPU of compute capability 7.5 or newer for float32, got 7.0"),
        (
            Support(factors=("bfloat16",)),
            (7, 5),
            "bfloat16",
            "mine needs a GPU of compute capability 8.0 or newer for bfloat16, got 7.5",
        ),
        (
            Support(least_capability=(9, 0), architectures=("sm_90a",)),
            (12, 0),
            "float32",
            "mine runs on GPUs of compute capability 9.0 alone (sm_90a), got 12.0",
        ),
        (
            Support(least_capability=(9, 0), architectures=("sm_90a",)),
            (8, 0),
            "float32",
            "mine runs on GPUs of compute capability 9.0 alone (sm_90a), got 8.0",
        ),
    ],
)
def test_gpus_that_a_kernel_does_not_run_on(takes, capability, dtype, words):
    refusal = takes.why_not_on("mine", capability, dtype)
    assert isinstance(refusal, ConfigError)
    assert str(refusal) == words


def test_gpus_that_a_kernel_runs_on():
    assert PLAIN.why_not_on("mine", (7, 5), "float32") is None
    hopper = Support(least_capability=(9, 0), architectures=("sm_90a",))
    assert hopper.why_not_on("mine", (9, 0), "float32") is None
    assert [PLAIN.capability_for(dtype) for dtype in ("float16", "bfloat16")] == [(7, 5), (8, 0)]
    assert hopper.capability_for("bfloat16") == (9, 0)


# Alignment. A float32's row is aligned at 4 elements, a half's at 8.


@pytest.mark.parametrize(
    ("layout", "address", "aligned"),
    [
        (Layout("row", 8, 0), 0, True),
        (Layout("row", 8, 0), 8, False),
        (Layout("row", 9, 0), 0, False),
        (Layout("column", 12, 60), 32, True),
        (Layout("column", 12, 61), 32, False),
    ],
)
def test_lines_that_start_at_16_bytes(layout, address, aligned):
    assert lines_aligned(layout, 5, 5, "float32", address) is aligned


def test_the_stride_of_a_single_line_says_nothing():
    assert lines_aligned(Layout("row", 5, 0), 1, 5, "float32", 16)
    assert lines_aligned(Layout("column", 5, 0), 5, 1, "float32", 16)
    assert not lines_aligned(Layout("column", 5, 0), 1, 5, "float32", 16)


@pytest.mark.parametrize(
    ("fields", "addresses", "of_factors", "of_all"),
    [
        ({}, {}, True, True),
        ({"a": Layout(ld=10)}, {}, False, False),
        ({"b": Layout("column", ld=10)}, {}, False, False),
        ({"d": Layout(ld=10), "c": Layout(ld=8)}, {}, True, False),
        ({"c": Layout(ld=10)}, {}, True, False),
        ({}, {"a": 4}, False, False),
        ({}, {"b": 8}, False, False),
        ({}, {"c": 4}, True, False),
        ({}, {"d": 4}, True, False),
        ({"arithmetic": "float16", "a": Layout(ld=12)}, {}, False, False),
        ({"arithmetic": "float16", "d": Layout(ld=12)}, {}, True, True),
        ({"arithmetic": Arithmetic("float32", "float16"), "d": Layout(ld=12)}, {}, True, False),
        ({"batch": 2, "b": Layout(batch_stride=66)}, {}, False, False),
        ({"batch": 2, "b": Layout(batch_stride=0)}, {}, True, True),
    ],
    ids=str,
)
def test_operands_that_are_aligned(fields, addresses, of_factors, of_all):
    problem = Problem(8, 8, 8, **fields)
    assert factors_aligned(problem, Addresses(**addresses)) is of_factors
    assert all_aligned(problem, Addresses(**addresses)) is of_all


def test_a_problem_of_single_lines_is_aligned():
    """Their leading dimensions, of which kernels make addresses, become multiples of 16 bytes as they are packed."""
    assert all_aligned(Problem(1, 7, 1))
    assert not all_aligned(Problem(1, 7, 2))


def test_where_only_factors_are_said_results_are_float32_or_else_of_their_type():
    assert PLAIN.arithmetic() == Arithmetic()
    halves = Support(factors=("float16", "bfloat16"))
    assert (halves.arithmetic(), halves.arithmetic("bfloat16")) == (Arithmetic("float16"), Arithmetic("bfloat16"))
    narrow = Support(factors=("bfloat16",), results=("bfloat16",))
    assert narrow.arithmetic() == Arithmetic("bfloat16", "bfloat16")
