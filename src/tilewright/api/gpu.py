"""Products of arrays that lie on a GPU: there, on the caller's stream, by plans that are made once."""

import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from tilewright.api.arrays.library import Maker
from tilewright.api.arrays.operand import Operand
from tilewright.api.call import UNIT, Call, gpu_engine
from tilewright.api.formulate import Formulation
from tilewright.api.planned_call import PlannedCall, bind, lends, planner
from tilewright.core.dtypes import COMPLEX
from tilewright.runtime import background, launcher
from tilewright.runtime.launcher import Launcher, Planned
from tilewright.runtime.plan import Plan, Pointers

_MOST_PLANS = 4096
"""Calls of different kinds whose plans are kept; all are dropped when there are more."""

_ALONE = (None,) * 7
"""Arrays of a call besides a and b, of one that has none."""

fast: Launcher | None = None
"""Calls with plans that it knows go no further than this."""

miss: object = None


_plans: dict[tuple[Any, ...], PlannedCall] = {}


def planned_call_of(call: Call, *, without_parts: bool = False, checks: bool = False) -> PlannedCall:
    """The plan of a call, made once for arrays of a kind; without parts, it is one of CUDA cores (precision "ieee").

    checks: whether the call was read and not checked yet.

    Raises:
        ArrayError, DtypeError, ProblemError: the operands do not fit each other.
    """
    key = (call.engine, call.signature, without_parts)
    found = _plans.get(key)
    if checks:
        more = (call.c, call.out, call.bias, call.prepared, call.scale_a, call.scale_b, call.offsets)
        if found is None or call.scalars != UNIT or more != _ALONE:  # else the signature has all that is checked
            call.check()
    if found is None:
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        found = _plans[key] = bind(call, without_parts)
    return found


def multiply(
    call: Call,
    arrays: Mapping[str, Any],
    key: Hashable | None,
    launches: bool,
    other_sizes: bool = False,
    planned: PlannedCall | None = None,
) -> Any:
    """The product of a call that was read.

    Args:
        call, arrays: what was read, and from which arrays.
        key: what the compiled launcher is to know calls like this one by, besides the arrays.
        launches: whether it may launch this call, and those like it from now on.
        other_sizes: whether those like it may have other sizes.
        planned: the plan of calls of this kind, where it is known, and the call is checked.

    Raises:
        ArrayError, DtypeError, ProblemError: the operands do not fit each other.
    """
    planned = planned or planned_call_of(call, checks=True)
    if launches and (launched := _remember(call, planned, arrays, key, other_sizes)) is not None:
        return launched
    # Where the GPU has no room for the parts of the factors, a plan without them is launched, unless the caller named
    # the kernel.
    try:
        return _multiply(call, planned)
    except MemoryError:
        if call.request.rung is not None or not planned.plan.kernel.splits:
            raise
        return _multiply(call, planned_call_of(call, without_parts=True))


def _remember(
    call: Call, planned: PlannedCall, arrays: Mapping[str, Any], options: Hashable | None, other_sizes: bool
) -> Any:
    """Have the compiled launcher, where this machine has one, answer this call, and those like it from now on.

    Args:
        call, planned, arrays, options: the call, what was made of it, and what it is to be known by.
        other_sizes: whether calls that differ in sizes alone are like it: the launcher then has them planned.

    Returns:
        the product; None, with nothing launched, where it cannot.
    """
    if (planned.plan.steps and call.scalars.alpha == 0) or not _launches(planned.plan):
        return None
    if planned.form.copied or (call.bias is not None and _has_gaps(call.bias)):
        return None  # something is to be copied first
    if call.scalars.factor_b != 1:
        return None  # a call has a real alpha
    engine: Any = planned.engine  # a CudaEngine, below
    if engine.name != "cuda" or (known := opened()) is None:
        return None
    maker = call.library.maker(call.a, _result_of(planned)) if call.out is None else None
    if maker is None and call.out is None:
        return None
    others = _of_other_sizes(planner(call, planned), maker) if other_sizes and _has_others(call, planned) else None
    last = arrays["bias"] if call.offsets is None else arrays["offsets"]  # which the launcher takes for a bias
    operands = arrays["a"], arrays["b"], arrays["c"], arrays["out"], last
    scales = {name: arrays[name] for name in ("scale_a", "scale_b")} if call.scale_a or call.scale_b else {}
    made, form = planned.plan, planned.form
    how = {"steps": made.steps, "needs": made.needs, "lent": planned.lends, "plan": others, **scales}
    how |= {"new": maker and maker(form.shape), "swapped": form.swapped, "scaled": call.scalars.beta != 0}
    how["cached"] = planned.cached(call)
    try:
        known.remember(*operands, options, context=engine.context, memory=engine.workspace, **how)
    except TypeError:
        return None  # the options are no key
    result = known.call(*operands, call.scalars.alpha, call.scalars.beta, options, *scales.values())
    return None if result is miss else result


def open_engine(device: int) -> None:
    """Load the engine of a GPU and the compiled launcher, which takes a process a while."""
    gpu_engine(None, device)
    opened()


def opened() -> Launcher | None:
    """The compiled launcher; None where this machine has none."""
    global fast, miss
    if fast is None and (module := launcher.load()) is not None:
        miss = module.MISS  # before another thread can see the launcher
        fast = module.Launcher(launcher.DRIVER)
    return fast


def _launches(plan: Plan) -> bool:
    """Whether the launcher can: it has one plan for every alpha, which grouped products do not have, and of the others'
    kernels only the library's look at it."""
    return plan.kernel.support.separate_c or plan.problem.grouped or not plan.steps


def _has_others(call: Call, planned: PlannedCall) -> bool:
    """Whether a plan for other sizes can be made without the arrays."""
    return (
        call.prepared is None and call.scalars.alpha != 0 and not (planned.form.batch or call.scale_a or call.scale_b)
    )


def _of_other_sizes(plan: Callable[..., Plan], maker: Maker | None) -> Callable[..., Planned | None]:
    """Plan function in the form that the launcher calls."""

    def planned(m: int, n: int, k: int, lda: int, ldb: int, ldc: int, ldd: int) -> Planned | None:
        try:
            with background.never_waiting():
                made = plan(m, n, k, lda, ldb, ldc, ldd)
        except background.PendingCode:  # the caller may have another way than to wait
            return None
        return (made.steps, made.needs, maker and maker((m, n)), lends(made)) if _launches(made) else None

    return planned


def _multiply(call: Call, planned: PlannedCall) -> Any:
    """Launch the plan of a call from Python, and copy what it cannot use in place."""
    library = call.library
    form = planned.form
    a, b, c = (_in_place(call, form, operand) for operand in (call.a, call.b, call.c))
    assert a is not None and b is not None
    target = out = call.out
    if target is None or "out" in form.copied:
        target = library.new(call.a, form.shape, _result_of(planned))
    if planned.c_in_place and c is not None and not c.is_same(target) and 0 not in form.shape:
        library.copy(target, c)
        c = target
    bias = library.row_major(call.bias, call.bias.shape) if call.bias and _has_gaps(call.bias) else call.bias
    pointers = pointers_of(call, planned, a, b, target, c or target, bias)
    # Where the engine's own memory will do, nothing is lent; nor in a capture, of which the library may know nothing:
    # what a graph uses must not be lent again.
    lends_it = planned.lends and not planned.engine.capturing(call.stream)
    lent = library.scratch(call.a, planned.plan.needs.scratch_bytes) if lends_it else None
    if lent:
        pointers = pointers._replace(scratch=lent[0])
    planned.engine.start(planned.plan, pointers, call.scalars, call.stream)
    if out is not None:
        if target is out:
            library.written(out.array)
        else:
            library.copy(out, target)
    if call.waits:
        planned.engine.synchronize()
    return target.array if out is None else out.array


def pointers_of(
    call: Call, planned: PlannedCall, a: Operand, b: Operand, d: Operand, c: Operand, bias: Operand | None
) -> Pointers:
    """Addresses for the launch of a call, whose scales, offsets and prepared b are used as they are.

    a, b, d, c, bias: these operands as they lie, themselves or their copies; c: the same as d where none is added.
    """
    scale_a, scale_b = call.scale_a, call.scale_b
    if planned.form.swapped:
        a, b, scale_a, scale_b = b, a, scale_b, scale_a
    of_a, of_b = scale_a.pointer if scale_a else 0, scale_b.pointer if scale_b else 0
    biases = bias.pointer if bias else 0
    cached = planned.cached(call) if call.prepared else 0
    offsets = call.offsets.pointer if call.offsets else 0
    return Pointers(a.pointer, b.pointer, d.pointer, c.pointer, biases, cached, of_a, of_b, 0, offsets)


def _result_of(planned: PlannedCall) -> str:
    """Element type of the result of a planned call."""
    return planned.plan.problem.arithmetic.result if planned.factors is None else COMPLEX


def _in_place(call: Call, form: Formulation, operand: Operand | None) -> Operand | None:
    """An operand that a layout describes: itself, or a copy."""
    if operand is None or operand.argument not in form.copied:
        return operand
    shape = operand.shape
    if operand.argument != "c" and math.prod(shape[:-2]) != 1:  # c has the result's shape
        shape = (*form.batch, *shape[-2:])
    return call.library.row_major(operand, shape)


def _has_gaps(values: Operand) -> bool:
    """Whether the elements of a bias, or of scales, are not neighbours; one alone is."""
    _, strides = values.view
    return strides is None or any(
        stride != 1 and count > 1 for stride, count in zip(strides, values.shape, strict=True)
    )
