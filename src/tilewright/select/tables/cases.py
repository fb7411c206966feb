"""A problem's case as text, and back: orders, element types and epilogue, as in 'NT float16->float16 bias+gelu'.

The precision that a problem promises is part of its case, 'NN float32:fp16x3', and so is 'batch_invariant', but not of
that under which tables and journals keep measurements: they decide which kernels may be picked, and not how long one
takes.
"""

import re
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Literal

from tilewright.core.errors import ProblemError
from tilewright.core.problem import BATCH_INVARIANT, Arithmetic, Epilogue, Problem, orders

_BIASES: dict[str, Literal["row", "column"]] = {"bias": "row", "column_bias": "column"}

_SAME_SPEED = {"float16": "bfloat16", "bfloat16": "float16", "int8": "uint8", "uint8": "int8"}
"""By element type, the other one whose products take the same time."""


def types_of(case: str) -> tuple[str, str]:
    """The element types of A and of the result in a case's text."""
    factors, arrow, result = case.split(" ")[1].partition("->")
    return factors.partition(":")[0].partition("*")[0], result if arrow else "float32"


@lru_cache
def same_speed_cases(text: str) -> tuple[str, ...]:
    """Cases whose products take the same time: a case's text without an epilogue and B's type, and those with float16
    in place of bfloat16, or uint8 in place of int8, or the other way round."""
    plain = re.sub(r"\*\w+", "", " ".join(text.split(" ")[:2]))
    parts = [(one, _SAME_SPEED[one]) if one in _SAME_SPEED else (one,) for one in re.split(r"(\w+)", plain)]
    return tuple(map("".join, product(*parts)))


@lru_cache(maxsize=2**15)  # a table has many configs of each problem
def problem_of(m: int, n: int, k: int, case: str, batch: int = 1) -> Problem:
    """The problem of these sizes whose `Problem.case` is this text, its matrices without gaps.

    Raises:
        ProblemError: the text is no case, or a size is out of range.
        DtypeError: an element type is unknown, or does not go with the precision.
    """
    layout, *others = case.split(" ")
    if not 1 <= len(others) <= 2:
        raise ProblemError(f"a case must read LAYOUT TYPE [EPILOGUE], as in 'NT float32 bias+gelu', got {case!r}")
    typed, arrow, result = others[0].partition("->")
    factors, *asked = typed.split(":")
    factors, _, of_b = factors.partition("*")
    batch_invariant = asked[-1:] == [BATCH_INVARIANT]
    precision = ":".join(asked[: len(asked) - batch_invariant])
    parts = others[1].split("+") if len(others) > 1 else []
    bias = next((_BIASES[part] for part in parts if part in _BIASES), None)
    activation = next((part for part in parts if part not in _BIASES), None)
    arithmetic = Arithmetic(factors, result if arrow else "float32", precision or None, batch_invariant, of_b or None)
    a, b = orders(layout)
    return Problem(m, n, k, arithmetic, batch, a, b, epilogue=Epilogue(bias, activation))


def timed_case(problem: Problem) -> str:
    """The case under which tables and journals keep what was measured on a problem."""
    if problem.arithmetic.precision is None and not problem.arithmetic.batch_invariant:
        return problem.case
    plain = replace(problem.arithmetic, precision=None, batch_invariant=False)
    return problem.of_factors(plain, problem.a, problem.b).case
