"""Copies of A and B in the order and with the alignment that a kernel wants (`Kernel.relayouts`)."""

from dataclasses import replace
from typing import NamedTuple

from tilewright.engines.arguments import Source
from tilewright.kernels.library import relayout
from tilewright.kernels.spec import Config, Kernel
from tilewright.kernels.takes import VECTOR_BYTES, Addresses, Variant, lines_aligned
from tilewright.problem import ITEM_BYTES, Layout, Order, Problem


class Job(NamedTuple):
    """One kernel to launch."""

    kernel: Kernel
    config: Config
    problem: Problem
    variant: Variant
    sources: dict[str, Source]
    """Where the addresses of its operands come from, where that is not the operand of the same name."""


class Jobs(NamedTuple):
    """What is launched for a problem, in order."""

    jobs: tuple[Job, ...]
    relayout_bytes: int
    """Memory that the copies take."""
    relaid: tuple[str, ...]
    """Operands that are copied."""


def jobs(kernel: Kernel, config: Config, problem: Problem, addresses: Addresses) -> Jobs:
    """The launches that a problem takes: of `relayout`, where the kernel wants copies, and of the kernel itself.

    Raises:
        DtypeError, LaunchError, ProblemError: the kernel does not take the problem.
    """
    wanted = _wanted(kernel, problem, addresses)
    if not wanted:
        kernel.check(problem, addresses)
        job = Job(kernel, config, problem, kernel.variant(problem, config, addresses), {})
        return Jobs((job,), 0, ())
    copies = {name: _copy(problem, name, order) for name, order in wanted.items()}
    shifts, end = {}, 0
    for name, (layout, rows, cols) in copies.items():
        shifts[name], end = end, end + ITEM_BYTES[problem.dtype] * layout.extent(rows, cols, 1)
        end = -(-end // VECTOR_BYTES) * VECTOR_BYTES
    inner, after = problem, addresses
    if "A" in copies:
        inner, after = replace(inner, a=copies["A"][0]), after._replace(a=0)
    if "B" in copies:
        inner, after = replace(inner, b=copies["B"][0]), after._replace(b=0)
    kernel.check(inner, after)
    of_a = {None: 0, "row": 1, "column": 2}[wanted.get("A")]
    moving = relayout.KERNEL.config({"OF_A": of_a, "OF_B": int("B" in wanted)})
    first = Job(
        relayout.KERNEL,
        moving,
        problem,
        relayout.KERNEL.variant(replace(problem, d=Layout()), moving, addresses._replace(d=0, c=0)),
        {"D": Source("relayout")},
    )
    sources = {name: Source("relayout", shift) for name, shift in shifts.items()}
    second = Job(kernel, config, inner, kernel.variant(inner, config, after), sources)
    return Jobs((first, second), end, tuple(wanted))


def _copy(problem: Problem, name: str, order: Order) -> tuple[Layout, int, int]:
    """Layout and sizes of the copy of an operand: rows (or columns) as long as keeps the next one aligned."""
    rows, cols = (problem.m, problem.k) if name == "A" else (problem.k, problem.n)
    count, length = Layout(order).lines(rows, cols)
    vector = VECTOR_BYTES // ITEM_BYTES[problem.dtype]
    ld = max(-(-length // vector), 1) * vector
    return Layout(order, ld, None if problem.batch == 1 else ld * count), rows, cols


def _wanted(kernel: Kernel, problem: Problem, addresses: Addresses) -> dict[str, Order]:
    """Operands that must be copied, and the order that the copies are to have."""
    if kernel.relayouts is None or problem.k == 0:
        return {}
    sizes = {"A": (problem.m, problem.k), "B": (problem.k, problem.n)}
    wanted: dict[str, Order] = {}
    for (name, (rows, cols)), layout, address, order in zip(
        sizes.items(), (problem.a, problem.b), addresses[:2], kernel.relayouts, strict=True
    ):
        is_aligned = lines_aligned(layout, rows, cols, problem.dtype, address)
        if (order or layout.order) != layout.order or not is_aligned:
            wanted[name] = order or layout.order
    return wanted
