"""Checks kernels: runs them under a checker, and again with their threads in other orders, or other rows."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.errors import LaunchError
from tilewright.core.hardware import ceil_div, round_up
from tilewright.core.problem import Layout, Problem, Scalars, Scale, Scaling
from tilewright.emulator.checker import Checker, Finding, arrays_of, checker_of, padded
from tilewright.emulator.compiler import CHECKED, OVERFLOWS
from tilewright.emulator.engine import MULTIPROCESSORS, EmulatorEngine, Executables, LaunchFacts, Watcher
from tilewright.emulator.program import Program, Watch
from tilewright.emulator.schedules import Seen, first_run, orders, run_again
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Copying, Warpgroups, Warps
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import VECTOR_BYTES
from tilewright.runtime.base import run

_SIDE = 256
"""Rows and columns of C that most tiles divide."""


class Checked(NamedTuple):
    """Result of a check."""

    findings: list[Finding]
    result: NDArray[Any]
    """C, as the first run left it."""
    notes: Sequence[Finding] = ()
    """Findings that are no fault (`Finding.is_note`)."""


def telling_shapes(kernel: Kernel, config: Config) -> tuple[tuple[int, int, int], ...]:
    """Sizes that tiles divide, and odd ones: large enough for every way through a kernel.

    The first problem fills each stage of a pipeline and begins anew, the second fills each twice, so that a wait for
    the wrong phase shows. Where blocks divide tiles among them, a block of the emulator's few multiprocessors computes
    up to four tiles of the first problem. Of the second there are three more than multiples of 4 and 8, so that
    stream-K's blocks have parts of two tiles.
    """
    tile, stages = kernel.tile(config), steps_in_flight(kernel, config)
    steps = max(stages + 1, ceil_div(128, tile.k))
    depth = max(2 * stages * tile.k + tile.k // 2 + 5, 45)
    if kernel.is_user_kernel:  # whose tiles may be of any size
        return (_multiple(tile.m), _multiple(tile.n), steps * tile.k), _as_taken(kernel, (131, 77, depth))
    if not kernel.schedule:
        return (_SIDE, _SIDE, steps * tile.k), (131, 77, depth)
    return (7 * tile.m, 2 * tile.n, steps * tile.k), (10 * tile.m + tile.m // 2 + 3, tile.n // 2 + 5, depth)


def steps_in_flight(kernel: Kernel, config: Config) -> int:
    """Steps along k whose tiles are in shared memory or in flight, 1 where a kernel does not say."""
    cost = kernel.cost
    return cost.stages(config) if isinstance(cost, Copying | Warpgroups | Warps) else 1


def is_huge(problem: Problem) -> bool:
    """Whether some matrix of a problem, or of its batch, reaches past 2^31 elements."""
    m, n, k, count = problem.m, problem.n, problem.k, problem.batch
    sides = (problem.a, m, k), (problem.b, k, n), (problem.addend, m, n), (problem.d, m, n)
    return any(layout.extent(rows, cols, count) > 2**31 for layout, rows, cols in sides)


def _as_taken(kernel: Kernel, shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """The first such sizes, each from these on, of which lines begin where a kernel wants it, and have whole panels."""
    of = kernel.support
    pieces = [VECTOR_BYTES // ITEM_BYTES[dtype] for dtype in (*of.factors, *of.results)] if of.aligned else []
    unit = math.lcm(*pieces, *of.panels)
    m, n, k = (round_up(size, unit) for size in shape)
    return m, n, k


def _multiple(tile: int) -> int:
    """The first multiple of a tile's side from _SIDE on; _SIDE where the side is much larger."""
    return round_up(_SIDE, tile) if tile <= 4 * _SIDE else _SIDE


def check(
    kernel: Kernel,
    config: Config,
    problem: Problem,
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    scalars: Scalars = Scalars(),
    bias: NDArray[Any] | None = None,
    scales: Sequence[NDArray[np.float32] | None] = (None, None),
    ends: NDArray[np.int32] | None = None,
    cached: str | None = None,
    multiprocessors: int = MULTIPROCESSORS,
    executables: Executables | None = None,
) -> Checked:
    """Run a kernel on a problem, and look for what is wrong however right the result may be.

    There are gaps between the rows (or columns) of A, B, C and D, and between scales, where the kernel takes them, so
    that an access past the end of one shows. Lines begin at multiples of 16 bytes where the problem's do. Where nothing
    is found, and threads have ways to sync, the kernel runs again, its threads and blocks backwards and shuffled, and
    in turns at atomic operations and fences, and must give the same bits.

    Args:
        kernel, config, problem, scalars: what runs. Where the problem has another layout of C than of D, C is another
            array, and nothing may write to it; else C is updated in place.
        a, b, c: of 2 dimensions, or of 3 where there is a batch and the matrix does not serve all of it.
        bias: where the problem has one.
        scales: of a and b, where it has some: of rows of a (columns of b), or of blocks, by 128 of k; of b of a grouped
            product columns by groups.
        ends: of a grouped product, the row where each group ends.
        cached: the operand, A or B, whose copy is made by a launch of its own, where the kernel wants one.
        multiprocessors: for how many of them the launch is made.
        executables: of other checks, to be used and added to.

    Raises:
        CompileError: the compiler refuses the source.
        EngineUnavailableError: there is no C++ compiler, or, where something is found, no binutils.
    """
    lay = _with_gaps if kernel.support.gaps else _together
    held = c
    """Content of D before a launch."""
    layout_c = None
    if problem.addend != problem.d:
        layout_c = lay(c, problem.addend)
        count = (problem.batch,) if problem.batch > 1 else ()
        held = np.full((*count, problem.m, problem.n * c.itemsize), 0xFF, np.uint8).view(c.dtype)  # NaN, or -1
    of_a, of_b, of_d = lay(a, problem.a), lay(b, problem.b), lay(held, problem.d)
    laid = [_scales(*one, problem) for one in zip(scales, problem.scaling, "AB", strict=True)]
    scaling = Scaling(*(scale for _, scale in laid))
    lying = replace(problem, a=of_a, b=of_b, c=layout_c, d=of_d, scaling=scaling)
    build = OVERFLOWS if is_huge(problem) else CHECKED
    engine = EmulatorEngine(build, multiprocessors=multiprocessors, executables=executables)
    factors = padded(a, of_a.ld, of_a.order), padded(b, of_b.ld, of_b.order)
    padded_bias = None if bias is None else padded(bias[np.newaxis], bias.size)
    placed_scales = [None if lines is None else engine.upload(lines, _with_gap(lines)) for lines, _ in laid]
    placed_ends = None if ends is None else engine.upload(ends[np.newaxis])
    padded_at: dict[int, int] = {}
    programs: list[tuple[Program, int]] = []
    """Program of each launch that a checker has seen, and the bytes of its dynamic shared memory."""

    def launched(watcher: Watcher) -> tuple[NDArray[Any], LaunchError | None]:
        """C, and why a launch failed."""
        d = padded(held, of_d.ld)
        addend = d if lying.addend == of_d else padded(c, lying.addend.ld)
        matrices = (*factors, addend, d, padded_bias)
        padded_at.clear()
        padded_at.update({matrix.pointer: matrix.owner.slack for matrix in matrices if matrix})
        engine.watcher = watcher
        error = None
        try:
            what = engine, kernel, config, lying, *factors, d, scalars
            run(*what, c=addend, bias=padded_bias, scales=placed_scales, offsets=placed_ends, cached=cached)
        except LaunchError as failure:
            error = failure
        return engine.download(d), error

    def look(together: bool, absent_lanes: int) -> Seen:
        """Run under checkers, one of each launch."""
        checkers: list[Checker] = []

        def watch(facts: LaunchFacts) -> Watch:
            programs.append((facts.executable.program, facts.shared_bytes))
            checkers.append(checker_of(facts, arrays_of(facts, padded_at)))
            return Watch(checkers[-1], together=together, absent_lanes=absent_lanes)

        result, failure = launched(watch)
        return Seen.by(checkers, {"C": result}, failure, together)

    first, findings, notes = first_run(look)
    result = first.outputs["C"]
    # Threads that never sync, and have no memory that one of them writes in common, cannot depend on their order.
    syncs = any(program.syncs or shared_bytes > 0 for program, shared_bytes in programs)
    if findings or not (syncs or kernel.is_user_kernel):
        return Checked(findings, result, notes)
    has_turns = any(program.has_turns for program, _ in programs)
    for order, watch in orders(has_turns, first.together).items():
        other, error = run_again(lambda watch: launched(lambda facts: watch), watch)
        bits = f"u{result.itemsize}"
        different = np.argwhere(other.view(bits) != result.view(bits)).tolist()
        if error or different:
            place = ", ".join(map(str, different[0])) if different else ""
            message = error or (
                f"C[{place}] and {len(different) - 1} other elements of {result.size} differ when threads run {order}"
            )
            findings.append(Finding("order", None, message=message))
    return Checked(findings, result, notes)


def _with_gaps(array: NDArray[Any], layout: Layout) -> Layout:
    """A layout with gaps between the lines of a matrix, of which the same begin at multiples of 16 bytes as before."""
    vector, length = VECTOR_BYTES // array.itemsize, layout.ld
    gap = vector if length % vector == 0 else 1 if (length + 1) % vector else 2
    return Layout(layout.order, length + gap, None if array.ndim == 3 else 0)


def _together(array: NDArray[Any], layout: Layout) -> Layout:
    """A layout without gaps."""
    return Layout(layout.order, array.shape[-1 if layout.order == "row" else -2], None if array.ndim == 3 else 0)


def _with_gap(lines: NDArray[Any]) -> int:
    """Elements from one line to the next, one of them between the lines."""
    return lines.shape[1] + 1 if lines.size else 0


def _scales(
    scales: NDArray[np.float32] | None, scale: Scale | None, side: str, problem: Problem
) -> tuple[NDArray[np.float32] | None, Scale | None]:
    """Scales as lines in memory, to have one element between them, and the layout that says so.

    side: A or B, which they are of; of B they are columns by their other dimension.
    """
    if scales is None or scale is None:
        return None, None
    if scale.kind == "tensor" or scales.size == 0:
        return scales, scale
    if problem.grouped and side == "B":  # each matrix has a line of them
        return scales.T, Scale(scale.kind, 1, scales.shape[0] + 1)
    if side == "A":
        return scales, Scale(scale.kind, scales.shape[1] + 1, 1)
    if scale.kind == "line":
        return scales.T, Scale(scale.kind, 2)
    return scales, Scale(scale.kind, 1, scales.shape[1] + 1)


def check_rows(
    kernel: Kernel,
    config: Config,
    problem: Problem,
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    scalars: Scalars = Scalars(),
) -> list[Finding]:
    """Multiply some rows of A alone, and all of them with NaN and large elements in the others: bits must not change.

    Args:
        kernel, config, scalars: what runs.
        problem: one product, without a bias; of its layouts only the orders are used.
        a, b, c: m x k, k x n and m x n elements, m at least 1. C is not written.

    Raises:
        CompileError: the compiler refuses the source.
        EngineUnavailableError: there is no C++ compiler.
    """
    engine = EmulatorEngine(CHECKED, lambda facts: Watch())

    def product(some_a: NDArray[Any], some_c: NDArray[Any]) -> NDArray[Any]:
        m = len(some_a)
        one = replace(problem, m=m, a=Layout(problem.a.order), b=Layout(problem.b.order), d=Layout(), c=None)
        factors = padded(some_a, one.a.ld, one.a.order), padded(b, one.b.ld, one.b.order)
        d = padded(some_c, one.d.ld)
        run(engine, kernel, config, one, *factors, d, scalars)
        result = engine.download(d)
        return result.view(f"u{result.itemsize}")

    found: list[Finding] = []
    try:
        whole = product(a, c)
        for rows, what in _parts(problem.m):
            if (product(a[rows], c[rows]) != whole[rows]).any():
                found.append(Finding("rows", None, message=f"{what} have other bits when they are multiplied alone"))
        for value in (np.nan, 2.0**14):
            same = problem.m // 2
            others = np.full_like(a, value)
            others[same] = a[same]
            if (product(others, c)[same] != whole[same]).any():
                message = f"row {same} of {problem.m} has other bits where all other rows of A hold {value:g}"
                found.append(Finding("rows", None, message=message))
    except LaunchError as failure:
        found.append(Finding("launch", None, message=str(failure)))
    return found


def _parts(m: int) -> Iterator[tuple[slice, str]]:
    """Rows that are multiplied alone, and what they are called."""
    for first, end in dict.fromkeys(((0, 1), (m - 1, m), (m // 3, max(2 * m // 3, m // 3 + 1)))):
        yield slice(first, end), f"rows {first} to {end - 1} of {m}"
