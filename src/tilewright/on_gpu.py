"""Products of arrays that lie on a GPU: there, on the caller's stream."""

import contextlib
import math
from collections.abc import Mapping
from typing import Any

from tilewright.arrays.operand import Operand
from tilewright.bound import bound_of
from tilewright.calls import Call
from tilewright.engines import launcher
from tilewright.engines.launcher import Launcher
from tilewright.engines.plan import Pointers
from tilewright.shapes import Formulation

fast: Launcher | None = None
"""Calls with plans that it knows go no further than this."""

miss: object = None


def remember(call: Call, arrays: Mapping[str, Any], options: tuple[Any, ...] | None) -> None:
    """Have the compiled launcher, where this machine has one, answer calls like this one from now on."""
    global fast, miss
    bound = bound_of(call)
    gaps = call.bias is not None and _has_gaps(call.bias)
    if bound.form.copied or gaps or not bound.plan.kernel.takes.separate_c:
        return  # something is to be copied first, or A and B must not be read where alpha is 0
    engine = bound.engine
    from tilewright.engines.cuda import CudaEngine  # noqa: PLC0415 - slow to import, see registry

    if not isinstance(engine, CudaEngine):
        return
    if fast is None:
        module = launcher.load()
        if module is None:
            return
        miss = module.MISS  # before another thread can see the launcher
        fast = module.Launcher(launcher.DRIVER)
    new = None
    if call.out is None:
        make = call.library.maker(call.a, bound.form.shape, call.arithmetic.result)
        if make is None:
            return
        new = make
    with contextlib.suppress(TypeError):  # options that are no key
        fast.remember(
            arrays["a"],
            arrays["b"],
            arrays["c"],
            arrays["out"],
            arrays["bias"],
            options,
            steps=bound.plan.steps,
            needs=bound.plan.needs,
            context=engine.context,
            memory=engine.workspace,
            new=new,
            scaled=call.scalars.beta != 0,
            swapped=bound.form.swapped,
        )


def multiply(call: Call) -> Any:
    bound, library = bound_of(call), call.library
    form, arithmetic = bound.form, call.arithmetic
    a, b, c = (_in_place(call, form, operand) for operand in (call.a, call.b, call.c if call.reads_c else None))
    assert a is not None and b is not None
    out = call.out
    target = library.new(call.a, form.shape, arithmetic.result, bound.engine) if _needs_new(out, form) else out
    assert target is not None
    if bound.c_in_place and c is not None and not c.is_same(target) and 0 not in form.shape:
        library.copy(target, c)
        c = target
    bias = library.row_major(call.bias, call.bias.shape) if call.bias and _has_gaps(call.bias) else call.bias
    first, second = (b, a) if form.swapped else (a, b)
    pointers = Pointers(
        first.pointer, second.pointer, target.pointer, c.pointer if c else target.pointer, bias.pointer if bias else 0
    )
    bound.engine.start(bound.plan, pointers, call.scalars, call.stream)
    if out is not None:
        if target is out:
            library.written(out.array)
        else:
            library.copy(out, target)
    if library.waits(call.a.array):
        bound.engine.synchronize()
    return out.array if out is not None else library.finish(target, call.a)


def _needs_new(out: Operand | None, form: Formulation) -> bool:
    return out is None or "out" in form.copied


def _in_place(call: Call, form: Formulation, operand: Operand | None) -> Operand | None:
    """An operand that a layout describes: itself, or a copy."""
    if operand is None or operand.argument not in form.copied:
        return operand
    shape = operand.shape
    if operand.argument != "c" and math.prod(shape[:-2]) != 1:  # c has the result's shape
        shape = (*form.batch, *shape[-2:])
    return call.library.row_major(operand, shape)


def _has_gaps(bias: Operand) -> bool:
    view = bias.view
    return view.strides is None or any(stride not in (0, 1) for stride in view.strides)
