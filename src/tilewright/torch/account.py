"""What ran where while products of PyTorch were routed."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tilewright.torch.decisions import Decision


class Row(NamedTuple):
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


class Report(tuple[Row, ...]):
    """Rows, those that saved most first; as text, a table, or a sentence that says why there are none."""

    why_empty: str
    """Why there are no rows, as the end of a sentence; empty where there are some."""

    @classmethod
    def of(cls, decisions: Iterable[tuple[str, Decision]], why_empty: Callable[[], str]) -> "Report":
        """A report on the products that decisions counted.

        Args:
            decisions: each with its operator.
            why_empty: gives the reason where they counted none.
        """
        calls: dict[tuple[str, str, str, str], tuple[int, float]] = {}
        for operator, one in decisions:
            problem = f"{one.problem.shape} {one.problem.case}" if one.problem else ""
            saved = one.calls * one.gain.saved_us if one.gain else 0.0
            ours = "tilewright", "", one.calls, saved
            theirs = "PyTorch", one.why or _AFTER_ALL, one.stock_calls, 0.0
            for where, why, count, gained in (ours, theirs):
                before, saved_before = calls.get((operator, problem, where, why), (0, 0.0))
                calls[operator, problem, where, why] = before + count, saved_before + gained
        rows = [Row(*key[:3], count, saved, key[3]) for key, (count, saved) in calls.items() if count]
        report = cls(sorted(rows, key=lambda row: (-row.saved_us, -row.calls)))
        report.why_empty = "" if rows else why_empty()
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
        return "\n".join([*lines, f"{self.saved_us / 1e3:,.2f} ms saved, as tables expect"])


_AFTER_ALL = "PyTorch's precision setting leaves it there, or a CUDA graph was captured before it ran once"
