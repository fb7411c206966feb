"""Cases as text, and back."""

import pytest

from tilewright.errors import DtypeError, ProblemError
from tilewright.problem import ACTIVATIONS, DTYPES, LAYOUTS, Arithmetic, Epilogue, Problem, orders
from tilewright.tables.cases import posed


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bias", [None, "row", "column"])
def test_a_problems_case_says_all_but_its_sizes(layout, bias):
    a, b = orders(layout)
    for factors in DTYPES:
        for result in DTYPES:
            for activation in (None, *ACTIVATIONS):
                epilogue = Epilogue(bias, activation)
                problem = Problem(3, 4, 5, Arithmetic(factors, result), 6, a, b, epilogue=epilogue)
                assert posed(3, 4, 5, problem.case, 6) == problem


@pytest.mark.parametrize("case", ["", "NN", "float32", "XY float32", "NN float32 bias gelu", "NN float32 sine"])
def test_what_is_no_case_is_refused(case):
    with pytest.raises(ProblemError):
        posed(1, 1, 1, case)


def test_unknown_types_are_refused():
    with pytest.raises(DtypeError):
        posed(1, 1, 1, "NN float99")
