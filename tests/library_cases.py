"""Cases of the tests of the library's kernels: drawn from the problems that a kernel supports, judged by float64."""

import math
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import ml_dtypes  # noqa: F401 - teaches NumPy the name bfloat16
import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.problem import ACTIVATIONS, Arithmetic, Epilogue, Layout, Problem, Scalars
from tilewright.emulator.checker import Checker, arrays_of
from tilewright.emulator.compiler import CHECKED
from tilewright.emulator.engine import EmulatorEngine
from tilewright.emulator.program import Watch
from tilewright.kernels.support import Addresses
from tilewright.runtime.base import Matrix
from tilewright.runtime.plan import Pointers

# Primes, one, just under, at and just over the sides of tiles.
SIZES = (1, 2, 3, 7, 8, 13, 31, 32, 33, 61, 63, 64, 65, 97, 127, 128, 129, 160)
DEPTHS = (0, 1, 2, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 41, 64, 65)
SCALARS = (0.0, 1.0, -1.0, 0.5, 2.25)

_UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
_SMALLEST = {"float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}
_APPROXIMATED = 6.2e-5
"""By how much of itself gelu errs in results of 16 bits, below -2 by more: test_device_activations.py."""
_UNTOUCHED = 7
"""Value of the elements between the rows of D."""
_DRAWN = "one that is drawn"
_erf = np.vectorize(math.erf, otypes=[np.float64])
_ACTIVATION = {
    None: lambda x: x,
    "relu": lambda x: np.where(x < 0, 0.0, x),
    "gelu": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


@dataclass(frozen=True)
class Case:
    """A problem, its scalars, and where its operands are.

    separate_c: C is another array than D; else it is updated in place.
    offset: elements by which the operands begin off a multiple of 16 bytes.
    """

    problem: Problem
    scalars: Scalars = field(default_factory=Scalars)
    separate_c: bool = False
    offset: int = 0


class Kind(NamedTuple):
    """Properties of a problem that a kernel is compiled for, but for edges."""

    layout: str
    arithmetic: Arithmetic
    aligned: bool
    epilogue: Epilogue = Epilogue()


def kinds(kernel, overrides, activation=_DRAWN):
    """Two kinds of problems for one config of a kernel: one without an epilogue, one with one where it takes some.

    Few, since each is compiled. Both orders of A and of B, and alignments, are among them; which comes with which, and
    with which element types, side of the bias and activation where none is given, is drawn for each config anew.
    """
    support = kernel.support
    random = Random(f"{kernel.name} {overrides}")

    def turns(values, count):
        shuffled = random.sample(values, len(values))
        return random.sample([shuffled[i % len(values)] for i in range(count)], count)

    epilogues = [Epilogue()] * 2
    if support.epilogue:
        side, drawn = random.choice(("row", "column")), random.choice((None, *ACTIVATIONS))
        epilogues[random.randrange(2)] = Epilogue(side, drawn if activation is _DRAWN else activation)
    types = map(Arithmetic, turns(support.factors, 2), turns(support.results, 2))
    aligned = turns((True,) if support.aligned else (True, False), 2)
    layout = random.choice(support.layouts)
    other = max(support.layouts, key=lambda one: sum(map(str.__ne__, one, layout)))
    return list(map(Kind, (layout, other), types, aligned, epilogues))


@st.composite
def cases(draw, kernel, config, among, sizes=SIZES, depths=DEPTHS):
    """A problem of one of these kinds, which a kernel takes. With guards: each kind is compiled once for a config."""
    support = kernel.support
    m, n, k = (draw(st.sampled_from(of)) for of in (sizes, sizes, depths))
    batch = draw(st.sampled_from((1, 1, 2, 3))) if support.batches else 1
    layout, arithmetic, aligned, epilogue = draw(st.sampled_from(among))
    # The smallest case has the first value: one row is unaligned by its offset alone.
    offset = 0 if aligned else draw(st.sampled_from((1, 0)))

    def operand(order, rows, cols, may_serve_all):
        length = cols if order == "row" else rows
        gap = draw(st.sampled_from((1, 2, 3, 8)))
        ld = -(-length // 8) * 8 + gap // 2 * 8 if aligned else max(length, 1) + gap
        serves_all = may_serve_all and batch > 1 and draw(st.booleans())
        return Layout(order, max(ld, 8) if aligned else ld, 0 if serves_all else None)

    orders = ["row" if order == "N" else "column" for order in layout]
    a, b = operand(orders[0], m, k, True), operand(orders[1], k, n, True)
    c, d = operand("row", m, n, False), operand("row", m, n, False)
    separate_c = support.separate_c and draw(st.booleans())
    problem = Problem(m, n, k, arithmetic, batch, a, b, d, c if separate_c else None, epilogue)
    start = offset * ITEM_BYTES[arithmetic.factors]
    variant = kernel.variant(problem, config, Addresses(a=start, b=start))
    assume(variant.edges and variant.aligned == (aligned and kernel.support.vectorized))
    scalars = Scalars(draw(st.sampled_from(SCALARS)), draw(st.sampled_from(SCALARS)))
    return Case(problem, scalars, separate_c, offset)


@dataclass(frozen=True)
class Operands:
    """Values of a case's operands: a, b, c of (batch, rows, cols), and the bias."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    bias: np.ndarray

    @classmethod
    def draw(cls, case, seed=0):
        """Normal values, rounded to their types; where a matrix serves the whole batch, its values repeat."""
        problem, random = case.problem, np.random.default_rng(seed)

        def normal(rows, cols, dtype, layout):
            serves_all = problem.batch > 1 and not layout.batch_stride and rows * cols
            values = random.standard_normal((1 if serves_all else problem.batch, rows, cols)).astype(dtype)
            return np.broadcast_to(values, (problem.batch, rows, cols)).copy()

        m, n, k = problem.m, problem.n, problem.k
        c = normal(m, n, problem.result, problem.addend)
        if case.scalars.beta == 0:
            c[:] = np.nan
        bias = random.standard_normal(n if problem.epilogue.bias == "row" else m).astype(problem.result)
        return cls(normal(m, k, problem.dtype, problem.a), normal(k, n, problem.dtype, problem.b), c, bias)


def place(engine, values, layout, offset, between=np.nan):
    """Matrices in an engine's memory as a layout says, from `offset` elements after a multiple of 16 bytes on."""
    if layout.batch_stride == 0:
        values = values[:1]
    lines = values if layout.order == "row" else values.swapaxes(1, 2)
    batch, count, length = lines.shape
    memory = np.full(offset + batch * count * layout.ld, between, values.dtype)
    memory[offset:].reshape(batch, count, layout.ld)[:, :, :length] = lines
    whole = engine.upload(memory[None])
    start = whole.pointer + offset * values.itemsize
    return Matrix(start, *values.shape[1:], layout.ld, whole.dtype, whole, layout.order, batch)


def multiply(engine, kernel, config, case, operands, cached=None):
    """Run a kernel; D, once nothing between its rows has changed. The plan is for every alpha, as the launcher's are.

    cached: the factor whose copy is made by a launch of its own.
    """
    problem = case.problem
    a = place(engine, operands.a, problem.a, case.offset)
    b = place(engine, operands.b, problem.b, case.offset)
    start = np.full_like(operands.c, np.nan) if case.separate_c else operands.c
    d = place(engine, start, problem.d, case.offset, between=_UNTOUCHED)
    c = place(engine, operands.c, problem.addend, case.offset) if case.separate_c else None
    bias = engine.upload(operands.bias[None]) if problem.epilogue.bias else None
    pointers = Pointers(a.pointer, b.pointer, d.pointer, (c or d).pointer, bias.pointer if bias else 0)
    plan = engine.plan(kernel, config, problem, Addresses(*pointers[:4]), cached=cached)
    copy = engine.keep(plan.cached, (a if cached == "A" else b).pointer, None) if plan.cached else None
    engine.start(plan, pointers._replace(cached=copy.pointer if copy else 0), case.scalars)
    memory = engine.download(d.owner)[0]
    whole = memory[case.offset :].reshape(*start.shape[:2], d.ld)
    assert (memory[: case.offset] == _UNTOUCHED).all(), "what lies before D has changed"
    assert (whole[:, :, problem.n :] == _UNTOUCHED).all(), "what lies between the rows of D has changed"
    return whole[:, :, : problem.n]


def reference(case, operands, left=0.0):
    """Values that D has to have, in float64; and the largest difference of each element. left: as in `check`."""
    problem, (alpha, beta, _) = case.problem, case.scalars
    a, b, c, bias = (x.astype(np.float64) for x in (operands.a, operands.b, operands.c, operands.bias))
    if alpha == 0:
        exact, size = np.zeros_like(c), np.zeros_like(c)
    else:
        exact, size = alpha * (a @ b), abs(alpha) * (abs(a) @ abs(b))
    if beta != 0:
        exact, size = exact + beta * c, size + abs(beta * c)
    if problem.epilogue.bias:
        added = bias if problem.epilogue.bias == "row" else bias[:, None]
        exact, size = exact + added, size + abs(added)
    result = _ACTIVATION[problem.epilogue.activation](exact)
    # No activation has a slope of more than 1.2, and each errs by some units of its argument.
    summed = 1.2 * (_UNIT["float32"] * (problem.k + 8) + left) * size
    allowed = summed + _UNIT[problem.result] * abs(result) + _SMALLEST[problem.result]
    if problem.result != "float32" and problem.epilogue.activation == "gelu":
        allowed += _APPROXIMATED * np.exp(np.clip(-exact - 2, 0, 10)) * abs(result)
    return result, allowed


def check(engine, kernel, config, case, seed=0, left=0.0, change=lambda operands: None, cached=None):
    """Raise AssertionError unless a kernel computes a case as float64 does.

    left: the part of each product that it leaves out at most, besides what float32 sums round away. change: what is
    done to the operands' values first.
    """
    operands = Operands.draw(case, seed)
    change(operands)
    if case.scalars.alpha == 0:  # they are not read
        operands.a[:] = operands.b[:] = np.nan
    result = multiply(engine, kernel, config, case, operands, cached).astype(np.float64)
    expected, allowed = reference(case, operands, left)
    assert (abs(result - expected) <= allowed).all(), (
        f"{case}: {np.argwhere(~(abs(result - expected) <= allowed))[:3].tolist()} differ"
    )


def check_specials(engine, kernel, config, case, seed, left=0.0, change=lambda operands: None):
    """Raise AssertionError unless a kernel computes a case where A and B have NaN and infinities, in corners, next to
    edges and anywhere: D has those of NumPy's float32 product, and is right everywhere else."""
    operands, random = Operands.draw(case, seed), np.random.default_rng(seed)
    change(operands)
    for values, layout in ((operands.a, case.problem.a), (operands.b, case.problem.b)):
        for _ in range(3 if values.size else 0):
            place_of = tuple(random.choice([0, extent - 1, random.integers(extent)]) for extent in values.shape)
            whole_batch = slice(None) if layout.batch_stride == 0 else place_of[0]
            values[(whole_batch, *place_of[1:])] = random.choice([np.nan, np.inf, -np.inf, 0.0])
    with np.errstate(invalid="ignore"):
        result = multiply(engine, kernel, config, case, operands)
        expected = case.scalars.alpha * (operands.a.astype(np.float32) @ operands.b.astype(np.float32))
        np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
        infinite = np.isinf(expected)
        np.testing.assert_array_equal(result[infinite].astype(np.float32), expected[infinite])
        finite = np.isfinite(expected)
        exact, allowed = reference(case, operands, left)
        assert (abs(result.astype(np.float64) - exact) <= allowed)[finite].all()


def findings(kernel, config, case, **named):
    """Findings of the checker in the launches of a case, in the order of the threads' numbers and backwards. named: as
    in `check`."""
    checkers = []
    for schedule in (0, 1):

        def watch(facts, schedule=schedule):
            executable = facts.executable
            checkers.append(Checker(executable.program.library, arrays_of(facts), executable.kernel.overlaps))
            return Watch(checkers[-1], schedule=schedule)

        check(EmulatorEngine(CHECKED, watch), kernel, config, case, **named)
    return [str(finding) for checker in checkers for finding in checker.findings()]
