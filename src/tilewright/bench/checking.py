"""What a check runs where nobody says, and the verdict on each: faults that a checker finds, and the result."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.bench.vast import judge, vast_problems, with_far_lines
from tilewright.bench.verify import Operands, limit
from tilewright.engines.emulator.check import Checked, check, telling_shapes
from tilewright.engines.emulator.engine import MULTIPROCESSORS, Executables
from tilewright.engines.emulator.rows import check_rows
from tilewright.engines.emulator.sampled import check_sample
from tilewright.engines.emulator.zero_pages import has_room
from tilewright.errors import ConfigError
from tilewright.kernels.spec import Config, Kernel
from tilewright.kernels.takes import VECTOR_BYTES
from tilewright.problem import ITEM_BYTES, Layout, Problem, Scalars

_MANY = 12
"""Multiprocessors that share two tiles: more than the emulator has, so that partial sums are added in several steps."""

_MATRICES = 3
"""Of a batch."""

_LINES = 37
"""At least, where they are far apart."""

_NARROW_BYTES = 2
"""Of results that kernels store in other ways than float32."""


NOTHING: NDArray[Any] = np.empty((0, 0))
"""The result where none is kept."""


class Case(NamedTuple):
    """One run of a check."""

    problem: Problem
    scalars: Scalars
    config: Mapping[str, int]
    multiprocessors: int = MULTIPROCESSORS
    """For how many of them the launch is made."""
    sampled: bool = False
    """Whether some of the blocks run, on matrices that no memory holds (`check_sample`)."""
    unfit: int | None = None
    """The exponent of an element that terms may not hold, one of `UNFIT`."""


_INFINITE, _NEAR_OVERFLOW, _FAR_ABOVE = 128, 126, 60
UNFIT = {
    _INFINITE: "an infinity in each factor",
    _NEAR_OVERFLOW: "an element near overflow",
    _FAR_ABOVE: "an element far above all others",
}
"""By exponent. Kernels of terms put the first on a list. No term holds the second: they multiply in float32. Next to
the last, scaled terms lose bits of all others, so that they look for small sums and find them."""


_CUT = 4
"""Times the error of TF32 that its rounding explains: where factors are cut off, they err by less."""
CUT = "factors of float32 may be cut off to TF32, and not rounded (cvt.rna.tf32.f32, wmma::__float_to_tf32)"
"""What explains an error of that size."""


@dataclass(frozen=True)
class Outcome:
    """What came of one case."""

    case: Case
    checked: Checked
    error: float
    """Relative, against float64."""
    right: bool
    wrong: str = ""
    """What is not right, in words, where that is known."""

    @property
    def clean(self) -> bool:
        return self.right and not self.checked.findings

    @property
    def reads_c(self) -> bool:
        """Whether C, which holds nothing where beta is 0, was read, and the result is NaN."""
        read = any(one.kind == "uninitialized read" and one.memory.startswith("C[") for one in self.checked.findings)
        return read and not self.case.scalars.beta and math.isnan(self.error)


def own_cases(
    kernel: Kernel,
    config: Config,
    scalars: Sequence[Scalars],
    dtype: str = "",
    layouts: Sequence[str] = ("NN",),
    others: bool = True,
) -> list[Case]:
    """The cases of a kernel that nobody gave any for: sizes that tiles divide and odd ones (`telling_shapes`), with all
    scalars. With the last of them also rows that are aligned though their width is no multiple of 4; of our own kernels
    lines far apart (`vast_cases`), where the address space has room for them, one step of one tile, rows of D that end
    within a tile and are whole pieces of 16 bytes, where the copy engine stores them, a batch, two tiles that all
    blocks share, where blocks share tiles, elements that terms may not hold (`UNFIT`), where it multiplies terms, and
    k = 0; odd sizes and the shared tiles with other configs; and results of 16 bits, where the kernel makes such
    besides float32.

    Args:
        dtype: of the factors; if empty, the first that the kernel takes.
        layouts: orders of A and B.
        others: whether other configs are to be checked too.

    Raises:
        ConfigError: a source's grid is whole for none of these sizes.
    """
    divided, odd = telling_shapes(kernel, config)
    one = scalars[-1:]
    # With k = 0 it takes any.
    layouts = [order for order in layouts if kernel.refusal(_problem(kernel, divided, dtype, order)) is None]
    found: list[Case] = []

    def add(
        shape: tuple[int, int, int],
        scalars: Sequence[Scalars],
        config: Config,
        aligned: bool = False,
        batch: int = 1,
        multiprocessors: int = MULTIPROCESSORS,
        result: str = "",
        unfit: int | None = None,
    ) -> None:
        for layout in layouts:
            problem = _problem(kernel, shape, dtype, layout, aligned, batch, result)
            if kernel.refusal(problem) is None and _has_grid(kernel, problem, config):
                found.extend(Case(problem, of, config, multiprocessors, unfit=unfit) for of in scalars)

    def add_ways(config: Config) -> None:
        """Tiles that all blocks share, and results of 16 bits next to float32's: where there are such."""
        tile = kernel.tile(config)
        shape = tile.m + tile.m // 2 + 1, max(tile.n - 3, 1), (_MANY + 1) * tile.k - 5
        if kernel.workspace_bytes and kernel.workspace_bytes(_problem(kernel, shape, dtype, "NN"), config, _MANY):
            add(shape, one, config, multiprocessors=_MANY)
        narrow = [result for result in kernel.takes.results if ITEM_BYTES[result] == _NARROW_BYTES]
        if narrow and "float32" in kernel.takes.results:
            for result in ("float32", narrow[-1]):
                add(telling_shapes(kernel, config)[1], one, config, aligned=True, result=result)

    add(divided, scalars, config)
    add(odd, scalars, config)
    if kernel.takes.gaps:
        add(odd, one, config, aligned=True)
    if not kernel.foreign:
        if has_room():
            found += vast_cases(kernel, config, one, dtype, layouts)
        tile = kernel.tile(config)
        add(tile, one, config)
        if kernel.stored_box:
            add((tile.m // 2 + 3, tile.n // 2 + 8, tile.k + 8), one, config)
        if kernel.takes.batches:
            add((tile.m // 2 + 3, tile.n // 2 + 5, odd[2]), one, config, batch=_MATRICES)
        add_ways(config)
        if kernel.notices:
            add(odd, scalars[:1], config, unfit=_INFINITE)
            add(odd, one, config, unfit=_NEAR_OVERFLOW)
            if kernel.constants(config).get("SCALED"):
                add(odd, one, config, unfit=_FAR_ABOVE)
        for m, n, _ in (divided, odd):
            add((m, n, 0), one, config)
    for other in other_configs(kernel, config) if others else ():
        add(telling_shapes(kernel, other)[1], one, other)
        add_ways(other)
    if not found and layouts:
        kernel.grid(_problem(kernel, divided, dtype, layouts[0]), config, MULTIPROCESSORS)  # says what it wants
    return [case for i, case in enumerate(found) if case not in found[:i]]


def vast_cases(
    kernel: Kernel, config: Config, scalars: Sequence[Scalars], dtype: str = "", layouts: Sequence[str] = ("NN",)
) -> list[Case]:
    """Matrices that reach past 2^32 elements: small ones whose lines are far apart, one at a time and in a batch, and
    with aligned lines. Where a kernel takes no lines apart, sizes of which some blocks are run.

    Args:
        kernel, config, scalars, dtype, layouts: as `own_cases`.

    Raises:
        ConfigError: no grid of such sizes is one that GPUs take.
    """
    problems: list[tuple[Problem, bool]] = []
    for layout in layouts:
        if not kernel.takes.gaps:
            posed = partial(_problem, kernel, dtype=dtype, layout=layout)
            problems += [(problem, True) for problem in vast_problems(kernel, config, posed)]
            continue
        tile = kernel.tile(config)
        sides = max(tile.m + tile.m // 2 + 3, _LINES), max(tile.n // 2 + 5, _LINES)
        shape = (131, 77, 45) if kernel.foreign else (*sides, max(tile.k + 13, _LINES))
        one = _problem(kernel, shape, dtype, layout)
        if not _has_grid(kernel, one, config):
            one = _problem(kernel, telling_shapes(kernel, config)[0], dtype, layout)
        problems += [(with_far_lines(one, aligned), False) for aligned in (True, False)]
        if kernel.takes.batches:
            problems.append((with_far_lines(_problem(kernel, shape, dtype, layout, batch=2), True), False))
    found = [
        Case(problem, of, config, sampled=sampled)
        for problem, sampled in problems
        if kernel.refusal(problem) is None
        for of in scalars
    ]
    if not found and not kernel.takes.gaps:
        raise ConfigError(f"{kernel.name} has no grid that GPUs take for matrices of more than 2^32 elements")
    return found


def more_cases(kernel: Kernel, config: Config, dtype: str = "") -> list[Case]:
    """Cases beyond a kernel's own, by hand: every preset, smaller and deeper problems, one row or column."""
    scalars = Scalars(1.5 if "alpha" in kernel.scalars else 1.0, 0.5 if "beta" in kernel.scalars else 0.0)
    tile = kernel.tile(config)
    shapes = [(tile.m + 1, tile.n - 1, 9 * tile.k), (tile.m, tile.n, tile.k), (1, 67, 50), (67, 1, 50), (5, 7, 1)]
    named = [(config, shape) for shape in shapes]
    for preset in _valid(kernel, kernel.presets.values()):
        named += [(preset, shape) for shape in telling_shapes(kernel, preset)]
    problems = [(config, _problem(kernel, shape, dtype, "NN")) for config, shape in named]
    return [Case(problem, scalars, config) for config, problem in problems if kernel.refusal(problem) is None]


def other_configs(kernel: Kernel, config: Config) -> list[Config]:
    """Other configs of a kernel: its first preset that differs; one of which every parameter differs as far as the
    constraints allow, with the first such values; and one of the same tile, with the last."""
    compiled = kernel.compiled(config)
    presets = (other for other in _valid(kernel, kernel.presets.values()) if kernel.compiled(other) != compiled)
    first = last = config
    for one in kernel.parameters:
        values = [value for value in one.values if one.compiled and value != config[one.name]]
        first = next(_valid(kernel, ({**first, one.name: value} for value in values)), first)
        others = _valid(kernel, ({**last, one.name: value} for value in reversed(values)))
        last = next((other for other in others if kernel.tile(other) == kernel.tile(config)), last)
    found = [*itertools.islice(presets, 1), first, last]
    return [other for i, other in enumerate(found) if other != config and other not in found[:i]]


def outcomes(kernel: Kernel, cases: Iterable[Case], rows: bool = False) -> Iterator[Outcome]:
    """Check a kernel on cases; if asked, also whether a row's bits depend on the other rows."""
    executables: Executables = {}
    return (_outcome(kernel, case, rows, executables) for case in cases)


def _outcome(kernel: Kernel, case: Case, rows: bool, executables: Executables) -> Outcome:
    problem, scalars = case.problem, case.scalars
    if case.sampled:
        sample = check_sample(kernel, kernel.config(case.config), problem, scalars)
        error, wrong = judge(kernel, problem, scalars, sample)
        return Outcome(case, Checked(sample.findings, NOTHING, sample.notes), error, not wrong, wrong)
    config, of = kernel.config(case.config), Operands.draw(problem, scalars)
    if case.unfit is not None:
        _make_unfit(of, case.unfit)
    by_rows = rows and not problem.is_empty
    differ = check_rows(kernel, config, problem, of.a, of.b, of.c, scalars) if by_rows else []
    scales, of_launch = (of.scale_a, of.scale_b), (case.multiprocessors, executables)
    checked = check(kernel, config, problem, of.a, of.b, of.c, scalars, of.bias, scales, *of_launch)
    checked = replace(checked, findings=[*checked.findings, *differ])
    if case.unfit == _INFINITE:
        met = np.zeros(checked.result.shape, bool)
        met[..., -1, :] = met[..., -1] = True
        if np.isnan(checked.result[met]).all():
            checked.result[met] = of.reference[met]
    error = of.error(checked.result)
    allowed = limit(problem, kernel.precision)
    cut = kernel.precision == "tf32" and allowed < error < _CUT * allowed
    return Outcome(case, checked, error, error <= allowed, CUT if cut else "")


def _make_unfit(of: Operands, exponent: int) -> None:
    """Make the last element of A unfit, and where it is infinite the first of the last column of B too.

    They meet zeros: the reference takes them for 0, whatever they are.
    """
    of.a[..., -1, -1], of.b[..., -1, :] = 0, 0
    if exponent == _INFINITE:
        of.a[..., 0], of.b[..., 0, -1] = 0, 0
    of.error(of.reference)  # computes all that errors are told by
    if exponent == _INFINITE:
        of.a[..., -1, -1] = of.b[..., 0, -1] = np.inf
    else:
        of.a[..., -1, -1] = 2.0**exponent


def _has_grid(kernel: Kernel, problem: Problem, config: Config) -> bool:
    """Whether a source's grid is whole for a problem, which says that it takes such sizes."""
    try:
        kernel.grid(problem, config, MULTIPROCESSORS)
    except ConfigError:
        return False
    return True


def _problem(
    kernel: Kernel,
    shape: tuple[int, int, int],
    dtype: str,
    layout: str,
    aligned: bool = False,
    batch: int = 1,
    result: str = "",
) -> Problem:
    takes = kernel.takes
    arithmetic = takes.arithmetic(dtype)
    if result:
        arithmetic = replace(arithmetic, result=result)
    a, b = (Layout("row" if order == "N" else "column") for order in layout)
    problem = Problem(*shape, arithmetic, batch, a=a, b=b)
    if aligned:
        a, b = _aligned(problem.a, problem.dtype), _aligned(problem.b, problem.dtype_b)
        problem = replace(problem, a=a, b=b, c=None, d=_aligned(problem.d, problem.result))
    return takes.scaled(problem)


def _aligned(layout: Layout, dtype: str) -> Layout:
    """The same with lines that begin at multiples of 16 bytes."""
    vector = VECTOR_BYTES // ITEM_BYTES[dtype]
    return layout._replace(ld=-(-layout.ld // vector) * vector, batch_stride=None)


def _valid(kernel: Kernel, overrides: Iterable[Mapping[str, int]]) -> Iterator[Config]:
    for one in overrides:
        try:
            yield kernel.config(one)
        except ConfigError:
            continue
