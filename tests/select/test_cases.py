"""Cases as text, and back."""

from dataclasses import replace

import pytest

from tilewright.core.dtypes import FACTORS, FLOAT8, RESULTS, results_of
from tilewright.core.errors import DtypeError, ProblemError
from tilewright.core.problem import ACTIVATIONS, FAST, LAYOUTS, PRECISIONS, Arithmetic, Epilogue, Problem, orders
from tilewright.select.tables.cases import problem_of, same_speed_cases, timed_case


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bias", [None, "row", "column"])
def test_a_problems_case_says_all_but_its_sizes(layout, bias):
    a, b = orders(layout)
    mixed = [Arithmetic(one, FLOAT8[0], FAST, of_b=other) for one in FLOAT8 for other in FLOAT8]
    mixed += [Arithmetic("uint8", "int32", of_b="int8")]
    for arithmetic in (*[Arithmetic(factors, result) for factors in FACTORS for result in results_of(factors)], *mixed):
        for activation in (None, *(() if arithmetic.result == "int32" else ACTIVATIONS)):
            problem = Problem(3, 4, 5, arithmetic, 6, a, b, epilogue=Epilogue(bias, activation))
            assert problem_of(3, 4, 5, problem.case, 6) == problem


@pytest.mark.parametrize("case", ["", "NN", "float32", "XY float32", "NN float32 bias gelu", "NN float32 sine"])
def test_what_is_no_case_is_refused(case):
    with pytest.raises(ProblemError):
        problem_of(1, 1, 1, case)


def test_unknown_types_are_refused():
    with pytest.raises(DtypeError):
        problem_of(1, 1, 1, "NN float99")


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("result", RESULTS)
def test_a_precision_is_read_back_and_left_out_where_times_are_kept(precision, result):
    problem = Problem(3, 4, 5, Arithmetic("float32", result, precision), epilogue=Epilogue("row", "gelu"))
    assert problem_of(3, 4, 5, problem.case) == problem
    plain = replace(problem, arithmetic=Arithmetic("float32", result))
    assert timed_case(problem) == timed_case(plain) == plain.case


@pytest.mark.parametrize(("case", "error"), [("NN bfloat16:ieee", DtypeError), ("NN float32:tf16", ProblemError)])
def test_precisions_that_there_are_not_are_refused(case, error):
    with pytest.raises(error):
        problem_of(1, 1, 1, case)


@pytest.mark.parametrize(
    ("case", "same"),
    [
        ("NT int8->int32", ["NT int8->int32", "NT uint8->int32"]),
        ("TN uint8*int8->int32 bias", ["TN uint8->int32", "TN int8->int32"]),
        ("NN bfloat16->float32 relu", ["NN bfloat16->float32", "NN float16->float32"]),
        ("NN int8*uint8->float16", [f"NN {a}->{d}" for a in ("int8", "uint8") for d in ("float16", "bfloat16")]),
        ("NN float16->float16", [f"NN {a}->{d}" for a in ("float16", "bfloat16") for d in ("float16", "bfloat16")]),
        ("NN float32", ["NN float32"]),
    ],
)
def test_types_of_a_size_take_the_same_time(case, same):
    assert list(same_speed_cases(case)) == same
