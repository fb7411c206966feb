"""PlannedCall: the plan of a call, and how the arrays of calls like it become the plan's operands."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tilewright.api.arrays.operand import HOST, Operand
from tilewright.api.call import Call
from tilewright.api.formulate import Formulation, formulate, formulate_groups
from tilewright.api.request import Rung
from tilewright.core.dtypes import COMPLEX, FLOAT8
from tilewright.core.problem import COMPLEX_PRECISIONS, FAST, UNSCALED, Layout, Problem
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import VECTOR_BYTES, Addresses
from tilewright.runtime.base import Engine
from tilewright.runtime.complex_factors import ComplexFactors
from tilewright.runtime.plan import Plan
from tilewright.select.selector import select

LENT_BYTES = 2**24
"""From this many on, sums and copies of a call lie in memory that its library lends; less is kept for the stream, since
lending takes the host time."""


_WAYS = {
    "in place": "a product of float32, whose kernel reads a and b as pairs",
    "doubled": "a product of float32, for which B is written twice as large",
    "joined": "a product of float32, whose rows are joined after it",
    "three": "three products of float32, joined after them",
}
"""How a complex product is made, in words."""


class PlannedCall(NamedTuple):
    """A plan, and how the arrays of a call become its operands."""

    plan: Plan
    form: Formulation
    engine: Engine
    c_in_place: bool
    """Whether the kernel adds C where the result goes, so that c is copied there first."""
    why: str
    prepared: bool
    """Whether copies of b are cached."""
    lends: bool
    """See `lends`."""
    factors: ComplexFactors | None = None
    """Factors of a complex product, whose plan is a real one's."""

    def cached(self, call: Call) -> int:
        """Address of the copy of b that a call of this kind reads, made if it is the first; 0 where it reads none."""
        if call.prepared is None or self.plan.cached is None:
            return 0
        return call.prepared.address(self.plan.cached, call.b.pointer, call.stream)

    def describe(self) -> str:
        problem, kernel = self.plan.problem, self.plan.kernel
        lines = [
            f"{problem.shape}, {problem.case}: {kernel.name} {self.plan.config} on {self.engine.device_name}",
            f"picked: {self.why}",
        ]
        if self.factors is not None:
            lines.append(f"{COMPLEX}, {self.factors.problem.shape}: {_WAYS[self.factors.way]}")
        if problem.dtype == "float32":
            lines.append(f"precision: {_promised(problem, kernel)}, by {_products(kernel)}")
        if problem.arithmetic.batch_invariant:
            order = kernel.sums(self.plan.config).order or "none"
            lines.append(f"batch-invariant: products along k are added in one order for every m: {order}")
        if problem.dtype in FLOAT8:
            sums = "in tensor cores alone" if kernel.support.precision == FAST else "in float32 every 128 of k"
            lines.append(f"sums: added up {sums}; {problem.scaling}")
        if self.form.swapped:
            lines.append("the result is column-major: its transpose is computed, from the transposed factors")
        if len(self.form.batch) and problem.batch == 1:
            lines.append("the batch is one tall product, since all of it meets the same b")
        lines += [f"{name} is copied first: no layout describes how it lies" for name in sorted(self.form.copied)]
        made = (
            "split into its parts first" if kernel.split else "copied to the order and alignment that the kernel wants"
        )
        lines += [f"{name} is {made}" for name in self.plan.relaid]
        if cached := self.plan.cached:
            lines.append(
                f"b is prepared: {cached.bytes} bytes of it are cached as the kernel wants them, and made once"
            )
        elif self.prepared:
            lines.append("b is prepared, and used as it is: the kernel wants no copy of it that can be cached")
        if kernel.has_fallback and problem.k:
            lines.append(
                "fallback: values of a and b that the parts cannot represent are detected on the GPU, and the same "
                "launch computes them in float32 on CUDA cores"
            )
        for step in self.plan.steps:
            threads = math.prod(step.block)
            lines.append(
                f"launch: {math.prod(step.grid)} blocks of {threads} threads, {step.shared_bytes} bytes shared"
            )
        needs = self.plan.needs
        if needs.workspace_bytes or needs.relayout_bytes:
            copies = "parts" if kernel.split else "copies"
            lines.append(f"workspace: {needs.workspace_bytes:,} bytes of sums, {needs.relayout_bytes:,} of {copies}")
        if kernel.splits and needs.relayout_bytes:
            lines.append('where the GPU has no room for the parts, a call takes a kernel for "ieee" instead')
        return "\n".join(lines)


def _promised(problem: Problem, kernel: Kernel) -> str:
    promise = problem.arithmetic.precision
    return promise or "float32" if kernel.meets(promise) else f"{kernel.support.precision}, since the kernel was named"


def _products(kernel: Kernel) -> str:
    """How a kernel multiplies float32 factors, in words."""
    if kernel.split:
        return f"products of {kernel.split.parts} {kernel.split.dtype} parts of each factor on tensor cores"
    if kernel.support.multiplies_parts:
        return f"products of parts of each factor, split as they are read ({kernel.support.precision}), on tensor cores"
    if kernel.support.precision:
        return f"products of factors rounded to {kernel.support.precision} on tensor cores"
    return "float32 multiply-adds on CUDA cores"


def lends(plan: Plan) -> bool:
    """Whether a plan's sums and copies lie in memory that a library lends for each call."""
    return plan.needs.scratch_bytes >= LENT_BYTES


def bind(call: Call, without_parts: bool) -> PlannedCall:
    """The plan of a call; without parts, it is one of CUDA cores (precision "ieee")."""
    engine, rung = call.engine, call.request.rung
    assert engine is not None
    a, b, out, c = call.a, call.b, call.out, call.c
    scaling = call.scaling if call.scale_a or call.scale_b else UNSCALED
    if call.offsets is not None:
        form = formulate_groups(a.view, b.view, out and out.view, call.arithmetic, scaling)
    else:
        views, of = (a.view, b.view, out and out.view, c and c.view), (call.arithmetic, call.request.activation)
        row_major = rung is not None and rung[0].support.layouts == ("NN",)
        form = formulate(*views, call.side, *of, row_major=row_major, scaling=scaling, is_complex=a.dtype == COMPLEX)
    problem = form.problem.without_products if call.scalars.alpha == 0 else form.problem
    cached = None
    if without_parts:
        problem = problem.promising("ieee")
    elif call.prepared is not None and "b" not in form.copied:
        cached = "A" if form.swapped else "B"
    capturing = None if a.device == HOST else partial(engine.capturing, call.stream)

    misaligned, of_complex = _misalignment(form, a, b, out, c), _factors_of(call, form, problem)
    found = _picked(engine, rung, problem, misaligned, c is not None, cached, of_complex)
    kernel, config, problem, addresses, factors = found
    why = "named by the caller" if rung else "the fastest known for the problem, from tables and the cost model"
    c_in_place = c is not None and not (factors and factors.joins) and not kernel.support.separate_c
    whole = _with_c_in_d(problem) if c_in_place else problem
    plan = engine.plan(kernel, config, whole, addresses, cached=cached, capturing=capturing, factors=factors)
    return PlannedCall(plan, form, engine, c_in_place, why, call.prepared is not None, lends(plan), factors)


def _factors_of(call: Call, form: Formulation, problem: Problem) -> ComplexFactors | None:
    """The factors of a complex product; None where it is real."""
    if call.a.dtype != COMPLEX:
        return None
    first, second = (call.b, call.a) if form.swapped else (call.a, call.b)
    may_join = call.request.rung is None and not call.request.batch_invariant
    alike, three = (first.conjugated, second.conjugated), call.request.precision in COMPLEX_PRECISIONS
    return ComplexFactors(problem, *alike, call.scalars.factor_b != 1, may_join, three)


def _picked(
    engine: Engine,
    rung: Rung | None,
    problem: Problem,
    addresses: Addresses,
    has_c: bool,
    cached: str | None = None,
    factors: ComplexFactors | None = None,
) -> tuple[Kernel, Config, Problem, Addresses, ComplexFactors | None]:
    """Kernel and config that run a problem, those that the caller named, or the best ones known; and the problem. Of a
    complex one, which has factors, that is the real one that is left in the best way, with its operands' addresses."""
    for way in factors.ways if factors else (None,):
        real, at, adds_c = (way.real, way.addresses(addresses), not way.joins) if way else (problem, addresses, True)
        if rung is None:
            of, spares = (real, engine.capability, engine.device_name, at), way and way.spares
            kernel, config = select(*of, adds_c=adds_c and has_c, cached=cached, spares=spares)
        else:
            kernel, config = rung[0], rung[0].config(dict(rung[1]), capability=engine.capability)
        if way is None or way.suit(kernel, config):
            break
    return kernel, config, real, at, way


def planner(call: Call, planned: PlannedCall) -> Callable[..., Plan]:
    """Plans calls that differ from a planned one in sizes alone, as `Launcher.remember` has it.

    The call has no batch, nothing of it is copied or prepared, and alpha is not 0.
    """
    engine, rung, swapped, adds_c = planned.engine, call.request.rung, planned.form.swapped, call.c is not None
    of = planned.form.problem
    arithmetic, epilogue, order_a, order_b = of.arithmetic, of.epilogue, of.a.order, of.b.order
    addresses = _misalignment(planned.form, call.a, call.b, call.out, call.c if adds_c else None)

    def plan(m: int, n: int, k: int, lda: int, ldb: int, ldc: int, ldd: int) -> Plan:
        if swapped:
            m, n, lda, ldb = n, m, ldb, lda
        a, b, d = Layout(order_a, lda, 0), Layout(order_b, ldb, 0), Layout("row", ldd or n, 0)
        c = Layout("row", ldc, 0) if adds_c else d
        problem = Problem.of_layouts((m, n, k), arithmetic, a, b, d, c, epilogue)
        factors = planned.factors and planned.factors._replace(problem=problem)
        kernel, config, problem, at, factors = _picked(engine, rung, problem, addresses, adds_c, None, factors)
        return engine.plan(kernel, config, problem, at, factors=factors)

    return plan


def _with_c_in_d(problem: Problem) -> Problem:
    p = problem
    return Problem(p.m, p.n, p.k, p.arithmetic, p.batch, p.a, p.b, p.d, p.d, p.epilogue, scaling=p.scaling)


def _misalignment(form: Formulation, a: Operand, b: Operand, out: Operand | None, c: Operand | None) -> Addresses:
    """Remainders of the addresses of the problem's operands, divided by 16; copies and new arrays are aligned."""
    left = [
        0 if operand is None or operand.argument in form.copied else operand.pointer % VECTOR_BYTES
        for operand in ((b, a, out, c) if form.swapped else (a, b, out, c))
    ]
    return Addresses(*left)
