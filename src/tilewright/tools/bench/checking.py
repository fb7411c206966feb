"""The verdict of a check on each of its cases: faults that the checker finds, and the result."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core.problem import UNSCALED, Problem, Scalars
from tilewright.emulator.check import Checked, check, check_rows
from tilewright.emulator.checker import Finding
from tilewright.emulator.engine import Executables
from tilewright.emulator.sampled import Sample, check_sample
from tilewright.kernels.kernel import Kernel
from tilewright.tools.bench.case import INFINITE, INFINITY, NAN, TINY, CheckCase
from tilewright.tools.bench.verify import Operands, limit

NOTHING: NDArray[Any] = np.empty((0, 0))
"""The result where none is kept."""

_CUT = 4
"""Times the error of TF32 that its rounding explains: where factors are cut off, they err by less."""
CUT = "factors of float32 may be cut off to TF32, and not rounded (cvt.rna.tf32.f32, wmma::__float_to_tf32)"
"""Explanation of an error of that size."""


_OF_A, _OF_B = -70, -62
"""Exponents of elements whose products float32 holds with fewer bits."""
_LEAST = 2.0**-149
"""The smallest number of float32, which such products and sums are rounded to multiples of."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of the check of one case."""

    case: CheckCase
    checked: Checked
    error: float
    """Relative, against float64."""
    right: bool
    wrong: str = ""
    """Description of a wrong result, where the fault is known."""

    @property
    def findings(self) -> Sequence[Finding]:
        """Faults that the checker found."""
        return self.checked.findings

    @property
    def clean(self) -> bool:
        return self.right and not self.findings

    @property
    def reads_c(self) -> bool:
        """Whether C, which holds nothing where beta is 0, was read, and the result is NaN."""
        read = any(one.kind == "uninitialized read" and one.memory.startswith("C[") for one in self.findings)
        return read and not self.case.scalars.beta and math.isnan(self.error)


def outcomes(kernel: Kernel, cases: Iterable[CheckCase], rows: bool = False) -> Iterator[Outcome]:
    """Check a kernel on cases; if asked, also whether a row's bits depend on the other rows."""
    executables: Executables = {}
    return (_outcome(kernel, case, rows, executables) for case in cases)


def _outcome(kernel: Kernel, case: CheckCase, rows: bool, executables: Executables) -> Outcome:
    problem, scalars = case.problem, case.scalars
    if case.sampled:
        sample = check_sample(kernel, kernel.config(case.config), problem, scalars)
        error, wrong = _judge(kernel, problem, scalars, sample)
        return Outcome(case, Checked(sample.findings, NOTHING, sample.notes), error, not wrong, wrong)
    config, of = kernel.config(case.config), Operands.draw(problem, scalars)
    _make_special(of, case)
    # Rows are compared of single products without a bias.
    alone = problem.batch == 1 and problem.epilogue.bias is None and problem.scaling == UNSCALED and not case.values
    differ = []
    if rows and alone and not problem.is_empty:
        differ = check_rows(kernel, config, problem, of.a, of.b, of.c, scalars)
    scales, of_launch = (of.scale_a, of.scale_b), (case.multiprocessors, executables)
    checked = check(
        kernel, config, problem, of.a, of.b, of.c, scalars, of.bias, scales, of.ends, case.cached, *of_launch
    )
    checked = checked._replace(findings=[*checked.findings, *differ])
    error = of.error(checked.result)
    allowed = limit(problem, kernel.support.precision)
    if case.values == TINY:
        allowed += _LEAST * (problem.k + 8) * math.sqrt(checked.result.size) / of.norm
    cut = kernel.support.precision == "tf32" and allowed < error < _CUT * allowed
    return Outcome(
        case, checked, error, error <= allowed, CUT if cut else "" if error == error else _other(of, checked)
    )


def _judge(kernel: Kernel, problem: Problem, scalars: Scalars, sample: Sample) -> tuple[float, str]:
    """The relative Frobenius error of what some blocks have written, against float64; and which element is furthest off
    where that is more than the arithmetic explains, else ''."""
    difference = norm = worst = 0.0
    where = ""
    for part in sample.parts:
        exact = scalars.alpha * (part.a @ part.b)
        if scalars.beta:
            exact += scalars.beta * part.c
        off = np.abs(part.result - exact)
        off[np.isnan(off)] = np.inf
        norm += float(np.vdot(exact, exact))
        difference += float(np.vdot(off, off))
        if off.max() > worst:
            worst = float(off.max())
            row, col = np.unravel_index(off.argmax(), off.shape)
            found, wanted = part.result[row, col], exact[row, col]
            where = f"C[{part.rows[row]}, {part.cols[col]}] is {found:.6g}, and {wanted:.6g} by float64"
    error = math.sqrt(difference / norm) if norm else math.sqrt(difference)
    return error, "" if error <= limit(problem, kernel.support.precision) else where


def _other(of: Operands, checked: Checked) -> str:
    """An element that is no finite number where it should be one, or another infinity or NaN than it should be."""
    ours, exact = checked.result.astype(np.float64), of.reference
    other = np.where(np.isfinite(exact), ~np.isfinite(ours), (ours != exact) & ~(np.isnan(ours) & np.isnan(exact)))
    first = tuple(np.argwhere(other)[0].tolist())
    index = ", ".join(map(str, first))
    return f"C[{index}] is {ours[first]:g}, and {exact[first]:g} by float64"


def _make_special(of: Operands, case: CheckCase) -> None:
    """Give some elements the values that a case asks for, before the reference is computed."""
    a, b, c = of.a, of.b, of.c
    m, n, k = a.shape[-2], b.shape[-1], a.shape[-1]
    if a.dtype.kind in "iu":  # integers have none
        return
    if case.values == NAN:
        a[..., 2 * m // 3, k // 2] = np.nan
        c[..., 0, n // 2] = np.nan
    elif case.values == INFINITY:
        a[..., m // 3, -1] = b[..., 1, n // 2] = np.inf
        a[..., -1, 0] = -np.inf
        if of.scalars.beta:
            c[..., m // 2, 0] = -np.inf
    elif case.values == TINY:
        for array, exponent in ((a, _OF_A), (b, _OF_B), (c, _OF_A + _OF_B)):
            array *= array.dtype.type(2.0**exponent)
    if case.unfit is None:
        return
    # What is unfit meets zeros, so that nobody else's sum has it.
    a[..., -1, -1], b[..., -1, :] = 0, 0
    if case.unfit == INFINITE:
        a[..., 0], b[..., 0, -1] = 0, 0
        a[..., -1, -1] = b[..., 0, -1] = np.inf
    else:
        a[..., -1, -1] = 2.0**case.unfit
