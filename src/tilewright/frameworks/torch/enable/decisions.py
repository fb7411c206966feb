"""Which products of PyTorch run here: decided once for each combination of shapes, strides and element type; and the
account of what ran where."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import torch

from tilewright.api.formulate import View, formulate
from tilewright.api.request import Request
from tilewright.core.dtypes import INT8, RESULTS, SUMS_OF_INT8
from tilewright.core.errors import TilewrightError
from tilewright.core.problem import Arithmetic, Problem, Side
from tilewright.frameworks.torch.arrays import numpy_name
from tilewright.select.speedup import Speedup, expected_speedup

Asked = Callable[[], Any]
"""Gives the Request by which the launcher knows a float32 product now, None where nothing is asked; False where PyTorch
is to compute it."""


class Options(NamedTuple):
    """Requests of float32 products, by the precision that PyTorch is set to."""

    says: Callable[[], str]
    """Reads the precision that PyTorch is set to now."""
    by: Mapping[str, Request | Literal[False] | None]
    """Keys of the launcher, by PyTorch's precision, 'none' for one that is not there; False for PyTorch's own
    product."""
    batch_invariant: bool = False
    """Whether all products are to be so: then none of these is False, and all that can run here does."""

    def asked(self, usual: bool, rounded: bool) -> Asked:
        """Request of calls of a kind that run here while PyTorch does not round to TF32, while it does, or both."""
        says, by = self.says, {one: self.by[one] if (rounded if one == TF32 else usual) else False for one in self.by}
        other = by[_NONE]
        return lambda: by.get(says(), other)


LOG = logging.getLogger("tilewright.torch")

TF32 = "tf32"
"""PyTorch's precision where it may round factors."""

IEEE = "ieee"
"""PyTorch's precision where somebody ruled TF32 out, as by allow_tf32 = False."""

_NONE = "none"
"""PyTorch's precision where nobody set any."""

_IEEE_MEANS = (
    'PyTorch\'s fp32_precision is "ieee" (allow_tf32 = False sets it): enable() takes it as "float32", whose '
    'products may run on tensor cores with float32\'s precision; enable("ieee") computes them on CUDA cores'
)

_STRICTER = "bf16x3"
"""The next promise."""

Role = Literal["c", "bias", "expanded", None]

Expect = Callable[[Problem, Any], Speedup | None]
"""The speedup over cuBLAS that is expected of a problem on a device of PyTorch."""


_MISSES = 32
"""Calls of a kind that the launcher may not know: the first of each alignment of addresses, and more."""

_PYTHON_US = 30
"""Microseconds of the host that a call of Python's path takes besides."""


class OperatorCall(NamedTuple):
    """A call of an operator of PyTorch, as matmul computes it."""

    a: Any
    b: Any
    addend: Any = None
    """Operand that is added: a matrix c, or a bias."""
    out: Any = None
    beta: float = 1.0
    integers: bool = False
    """Whether it is `_int_mm`: of int8 factors, with an int32 result."""


class Decision:
    """Where products of a kind run, and how many did."""

    __slots__ = (
        *("asked", "calls", "counted_by", "missed", "ours", "pending", "problem", "role", "speedup", "stock_calls"),
        *("waiting_calls", "why"),
    )

    def __init__(
        self,
        why: str,
        problem: Problem | None = None,
        speedup: Speedup | None = None,
        role: Role = None,
        asked: Asked = lambda: None,
    ) -> None:
        self.why, self.problem, self.speedup = why, problem, speedup
        self.role = role
        """Role of the addend for `matmul`; None where nothing is added; 'expanded' where it is expanded to be its c."""
        self.ours = not why
        """Whether they run here."""
        self.asked = asked
        """Request of a float32 product, read in every call, since PyTorch may be set to another precision."""
        self.calls = self.stock_calls = self.waiting_calls = self.missed = 0
        """Numbers of calls: those that ran here, those that PyTorch computed, those that it computed while code for
        here was compiled, and those that the compiled launcher did not know."""
        self.pending: Sequence[Future[Any]] = ()
        """Compilations that PyTorch's kernel stands in for."""
        self.counted_by = self
        """Decision that counts its calls, itself or another: see `Decisions.keep`."""

    @property
    def row(self) -> tuple[str, str]:
        """Sizes and case of the problem, and why PyTorch computes it, as a report has them."""
        return f"{self.problem.shape} {self.problem.case}" if self.problem else "", self.why

    def count(self, ours: bool, calls: int = 1) -> None:
        """Count calls that ran here, or that PyTorch computed."""
        if ours:
            self.counted_by.calls += calls
        elif self.pending:
            self.counted_by.waiting_calls += calls
        else:
            self.counted_by.stock_calls += calls

    @property
    def is_pending(self) -> bool:
        """Whether PyTorch's kernel is to run, since code for here is being compiled."""
        if self.pending and all(one.done() for one in self.pending):
            self.pending = ()
        return bool(self.pending)

    def miss(self) -> None:
        """Count a call that the compiled launcher did not know; where all are so, only a large speedup is worth them.

        What is batch-invariant runs here in any case."""
        self.missed += 1
        stays = self.batch_invariant or (self.speedup and self.speedup.saved_us >= _PYTHON_US)
        if not stays and self.missed >= _MISSES and 2 * self.missed > self.calls:
            self.refuse("the compiled launcher does not know it")

    @property
    def batch_invariant(self) -> bool:
        """Whether they are to be so: PyTorch's own products would not."""
        return self.problem is not None and self.problem.arithmetic.batch_invariant

    @property
    def asks(self) -> bool:
        """Whether calls ask: of factors of another type there is nothing to ask, unless they are batch-invariant."""
        return self.problem is not None and (self.problem.dtype == "float32" or self.batch_invariant)

    def refuse(self, why: str) -> None:
        """Leave them to PyTorch from now on."""
        self.ours, self.why = False, why


class Decisions(dict[Any, Decision]):
    """Decisions on the products of an operator, by the kind of their calls; at most `MOST_KINDS` of them.

    The rest, which is decided anew, keeps its counts: the shortcut may know it still.
    """

    def __init__(self) -> None:
        super().__init__()
        self._dropped: dict[tuple[str, str], Decision] = {}
        """By `Decision.row`."""

    def keep(self, kind: Any, decision: Decision) -> Decision:
        """Have calls of a kind decided so."""
        if len(self) >= MOST_KINDS:
            for one in tuple(self.values()):
                row, sums = one.row, Decision(one.why, one.problem, one.speedup)
                if row not in self._dropped and len(self._dropped) >= MOST_KINDS:
                    row, sums = ("", _OTHERS), Decision(_OTHERS)
                sums = self._dropped.setdefault(row, sums)
                sums.calls += one.calls
                sums.stock_calls += one.stock_calls
                sums.waiting_calls += one.waiting_calls
                one.counted_by = sums
            self.clear()
        self[kind] = decision
        return decision

    def counted(self) -> tuple[Decision, ...]:
        """All that count calls."""
        return *self.values(), *self._dropped.values()


MOST_KINDS = 4096
"""Kinds of calls of an operator that are remembered; when there are more, all are decided anew."""

_OTHERS = "one of more kinds than are counted apart"


class ReportRow(NamedTuple):
    """Products of one operator and problem."""

    operator: str
    problem: str
    """Sizes and case, as '4096x4096x1024 NT float32'; empty where PyTorch's product is none of ours."""
    where: str
    """'tilewright' or 'PyTorch'."""
    calls: int
    saved_us: float
    """Microseconds of the GPU that all calls together are expected to have saved."""
    why: str
    """For PyTorch: why it was not tilewright."""


class Report(tuple[ReportRow, ...]):
    """Rows, those that saved most first; as text, a table, or a sentence that says why there are none."""

    why_empty: str
    """Why there are no rows, as the end of a sentence; empty where there are some."""
    note: str = ""
    """How PyTorch's setting of precision was taken, where that may surprise."""

    @classmethod
    def of(
        cls, decisions: Iterable[tuple[str, Decision]], why_empty: Callable[[], str], ruled_out: bool = False
    ) -> "Report":
        """A report on the products that decisions counted.

        Args:
            decisions: each with its operator.
            why_empty: gives the reason where they counted none.
            ruled_out: whether PyTorch's setting rules TF32 out, and no precision was given here.
        """
        calls: dict[tuple[str, str, str, str], tuple[int, float]] = {}
        for operator, one in decisions:
            problem, _ = one.row
            saved = one.calls * one.speedup.saved_us if one.speedup else 0.0
            ours = "tilewright", "", one.calls, saved
            theirs = "PyTorch", one.why or _AFTER_ALL, one.stock_calls, 0.0
            meanwhile = "PyTorch", _COMPILING, one.waiting_calls, 0.0
            for where, why, count, gained in (ours, theirs, meanwhile):
                before, saved_before = calls.get((operator, problem, where, why), (0, 0.0))
                calls[operator, problem, where, why] = before + count, saved_before + gained
        rows = [ReportRow(*key[:3], count, saved, key[3]) for key, (count, saved) in calls.items() if count]
        report = cls(sorted(rows, key=lambda row: (-row.saved_us, -row.calls)))
        report.why_empty = "" if rows else why_empty()
        report.note = _IEEE_MEANS if ruled_out and any("float32" in row.problem for row in rows) else ""
        return report

    @property
    def saved_us(self) -> float:
        """Microseconds of the GPU that all is expected to have saved."""
        return sum(row.saved_us for row in self)

    def __str__(self) -> str:
        if not self:
            return f"no products to report: {self.why_empty}"
        head = ("operator", "problem", "ran on", "calls", "saved ms", "why")
        body = [(r.operator, r.problem, r.where, f"{r.calls:,}", f"{r.saved_us / 1e3:,.2f}", r.why) for r in self]
        widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
        lines = []
        for line in (head, *body):
            cells = [f"{text:{side}{width}}" for text, side, width in zip(line, "<<<>><", widths, strict=True)]
            lines.append("  ".join(cells).rstrip())
        lines.append(f"{self.saved_us / 1e3:,.2f} ms saved, as tables expect")
        return "\n".join([*lines, self.note] if self.note else lines)


_COMPILING = "while its code was compiled"

_AFTER_ALL = "PyTorch's precision setting leaves it there, or a CUDA graph was captured before it ran once"


def expect(problem: Problem, device: Any) -> Speedup | None:
    """Speedup that tables lead to expect of a problem on a GPU."""
    capability = torch.cuda.get_device_capability(device)
    return expected_speedup(problem, capability, torch.cuda.get_device_name(device))


def decide(product: OperatorCall, expected: Expect, options: Options) -> Decision:
    """Where products like this one run: here, where nothing would be copied first and the expected speedup is at least
    1.

    What PyTorch would refuse stays with PyTorch, which says why. The speedup of a float32 product is that in the
    precision that is asked for now; what runs here while PyTorch rounds to TF32 is decided separately, by what is
    gained over that.

    Batch-invariant products run here however fast they are, and what has to be copied is.
    """
    a, b, addend, out, beta, integers = product
    shape = (*a.shape[:-1], *b.shape[-1:])
    name = numpy_name(a.dtype)
    result = SUMS_OF_INT8 if integers else name
    tensors = {one: name for one in (a, b, addend) if one is not None} | ({} if out is None else {out: result})
    known = INT8[:1] if integers else RESULTS
    if name not in known or any(numpy_name(one.dtype) != of or one.device != a.device for one, of in tensors.items()):
        return Decision(f"element type {name}, or several")
    side: Side | None = None
    c, expands = None, False
    if addend is not None and beta != 0:
        c = addend if addend.shape == shape else None
        side = None if c is not None or beta != 1 or len(shape) != 2 else _side(addend, shape)
        if c is None and (side is None or not addend.is_contiguous()):
            if not (options.batch_invariant and _expands(addend, shape)):
                return Decision("what is added is neither a matrix nor a bias without gaps")
            side, expands = None, True
    asks = name == "float32"
    now = options.says() if asks else _NONE
    usual = options.by[_NONE]
    if now == IEEE and usual is None:
        log_ieee()
    fixed = options.batch_invariant and not integers  # whose sums are exact anyhow
    arithmetic = Arithmetic(name, result, usual.precision if asks and usual else None, fixed)
    try:
        target, third = (None if one is None else _view(one) for one in (out, c))
        form = formulate(_view(a), _view(b), target, third, side, arithmetic, None)
    except TilewrightError as error:
        return Decision(str(error))
    problem = form.problem
    if form.shape != shape or a.dim() != b.dim() or (out is not None and out.shape != shape):
        return Decision("shapes that PyTorch refuses, or a result that it resizes", problem)
    role: Role = "expanded" if expands else "bias" if side else None if c is None else "c"
    if fixed:
        request = Request(batch_invariant=True)
        asked = options.asked(usual=True, rounded=True) if asks else lambda: request
        return Decision("", problem, expected(problem, a.device), role, asked)
    if form.copied:
        return Decision("an operand that would be copied first", problem)
    # While PyTorch does not round, products in TF32 are at least as fast as the next promise.
    bound = problem.promising(_STRICTER) if problem.arithmetic.precision == TF32 else problem
    found = {False: (problem, expected(bound, a.device))}
    if asks and options.by[TF32]:
        rounded = problem.promising(TF32)
        found[True] = rounded, expected(rounded, a.device)
    wins = {rounds for rounds, (_, speedup) in found.items() if speedup is not None and speedup.ratio >= 1}
    # Reported is what PyTorch says now, or the other where that alone runs here.
    first = now == TF32 and True in found
    problem, speedup = found[not first if wins == {not first} else first]
    if speedup is None:
        return Decision("nothing like it was measured", problem)
    why = "" if wins else "cuBLAS is expected to be faster"
    return Decision(why, problem, speedup, role, options.asked(False in wins, True in wins) if asks else lambda: None)


@lru_cache
def log_ieee() -> None:
    """Say once how the setting is taken."""
    LOG.info(_IEEE_MEANS)


def _expands(addend: Any, shape: Sequence[int]) -> bool:
    """Whether what is added broadcasts to the result's shape."""
    try:
        return tuple(torch.broadcast_shapes(addend.shape, shape)) == tuple(shape)
    except RuntimeError:
        return False


def _side(bias: Any, shape: Sequence[int]) -> Side | None:
    m, n = shape
    if tuple(bias.shape) in ((n,), (1, n)):
        return "row"
    return "column" if tuple(bias.shape) == (m, 1) else None


def _view(tensor: Any) -> View:
    return View(tuple(tensor.shape), tuple(tensor.stride()))
