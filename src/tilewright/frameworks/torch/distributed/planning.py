"""From a call as data (sequences.py) to what a GPU starts: a plan for each product, and memory that the plans need."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tilewright.api.arrays.libraries import library_of
from tilewright.api.arrays.operand import Operand, gpu_operand
from tilewright.api.call import Call
from tilewright.api.gpu import planned_call_of
from tilewright.api.planned_call import PlannedCall
from tilewright.api.request import Request
from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.errors import LaunchError
from tilewright.core.problem import Scalars
from tilewright.frameworks.torch.distributed.sequences import LANE, MAIN, Check, MatrixView, Multiply, RankCall, rounded
from tilewright.runtime.sequence import ABSOLUTE, Location, PlanLaunch, Started


class CallKind(NamedTuple):
    """Properties of a call's products, besides their sizes, that plans depend on."""

    like: Any
    """A tensor of their type, on their GPU."""
    dtype: str
    engine: Any
    stream: int
    """Handle of the current one."""
    aligned: Mapping[str, int]
    """Remainders of bases' addresses, divided by 16, where they are not 0."""
    precision: str | None
    without_parts: bool
    """Whether products of float32 are not to split their factors, for which there is no memory."""


class Planned(NamedTuple):
    """Steps that a GPU starts for a call, and the memory that they need."""

    steps: tuple[Started, ...]
    scratch_bytes: int
    splits: bool
    """Whether it would need less memory without parts."""


def planned(sequence: RankCall, kind: CallKind, check: PlanLaunch, counters_of: Mapping[int, int]) -> Planned:
    """Plan and compile all products of a call.

    Args:
        sequence: the call.
        kind: what it is made for.
        check: what the call's check starts.
        counters_of: handles of streams, by those of products: no others use their counters.

    Raises:
        ProblemError, CompileError, LaunchError: as `matmul` raises them.
    """
    products = {step: _planned(step, kind) for step in sequence.steps if isinstance(step, Multiply)}
    needs = {lane: [one.plan.needs for step, one in products.items() if step.stream == lane] for lane in (MAIN, LANE)}
    begins, size = {}, rounded(sequence.scratch_bytes)
    for lane, several in needs.items():
        begins[lane] = size
        size += rounded(max((one.scratch_bytes for one in several), default=0))
    most = {lane: max((one.counters for one in several), default=0) for lane, several in needs.items()}
    counters = {
        lane: kind.engine.workspace(counters_of[lane], (0, count, 0)).counters for lane, count in most.items() if count
    }

    def started() -> Iterator[Started]:
        for step in sequence.steps:
            if isinstance(step, Multiply):
                scratch = Location("scratch", begins[step.stream])
                yield _launch(step, products[step], scratch, counters.get(step.stream, 0))
            elif isinstance(step, Check):
                yield check._replace(stream=step.stream)
            else:
                yield step

    splits = any(one.plan.kernel.splits for one in products.values())
    return Planned(tuple(started()), size, splits)


def _planned(product: Multiply, kind: CallKind) -> PlannedCall:
    def operand(argument: str, of: MatrixView) -> Operand:
        item = ITEM_BYTES[kind.dtype]
        begin = kind.aligned.get(of.location.base, 0) + of.location.offset  # what it leaves by 16 is what counts
        strides = [item * stride for stride in of.strides]
        return gpu_operand(argument, None, begin, (of.rows, of.cols), strides, kind.dtype, kind.engine.device.device_id)

    request = Request(precision=kind.precision).checked()
    a, b, out = operand("a", product.a), operand("b", product.b), operand("out", product.out)
    c = None if product.c is None else operand("c", product.c)
    scalars = Scalars(product.alpha, float(c is not None))
    library = library_of("a", kind.like)
    call = Call(request, library, kind.engine, kind.stream, a, b, c, out, None, scalars)
    planned = planned_call_of(call, without_parts=kind.without_parts)
    if planned.c_in_place or planned.form.copied:
        raise LaunchError(
            f"{planned.plan.kernel.name}, which a table names for {planned.plan.problem.shape}, updates C in place: "
            "products of several GPUs add another"
        )
    return planned


def _launch(product: Multiply, planned: PlannedCall, scratch: Location, counters: int) -> PlanLaunch:
    a, b = (product.b, product.a) if planned.form.swapped else (product.a, product.b)
    needs = planned.plan.needs
    addresses = {"A": a.location, "B": b.location, "D": product.out.location}
    if product.c is not None:
        addresses["C"] = product.c.location
    if needs.workspace_bytes:
        addresses["workspace"] = scratch
    if needs.relayout_bytes:
        addresses["relayout"] = Location(scratch.base, scratch.offset + needs.relayout_begin)
    if needs.counters:
        addresses["counters"] = Location(ABSOLUTE, counters)
    beta = float(product.c is not None)
    return PlanLaunch(product.stream, planned.plan.steps, tuple(addresses.items()), product.alpha, beta)
