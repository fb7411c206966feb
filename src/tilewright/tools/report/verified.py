"""Terminal tables of results that were verified and not timed, and what is said at the end of a bench."""

from collections.abc import Sequence

from rich.text import Text

from tilewright.core.problem import FAST
from tilewright.kernels import LADDER, find
from tilewright.tools.bench.records import Record, Result
from tilewright.tools.report.course import Course, RungSpeed
from tilewright.tools.report.fitted import Column, FittedTable
from tilewright.tools.report.ratios import quotient, share, speed
from tilewright.tools.report.tables import pairs

_CAPTION = "error: relative Frobenius norm against float64; right up to the bound"


def course_table(results: Sequence[Result], course: Course) -> FittedTable:
    """A line a result, of rungs and other kernels on one shape, with the speeds of the rungs on a GPU.

    A speed is shown of a rung in its own arithmetic. What factors are multiplied in, and the share of cuBLAS's speed,
    are left out where a terminal has no room for them.
    """
    briefs = {kernel.name: kernel.brief for kernel in LADDER}
    speeds = {one.kernel: one for one in course.rungs}
    shown = [speeds.get(one.kernel) if _is_own(one) else None for one in results]
    rungs = any(one.rung for one in results)
    columns = [
        *[Column("#", "right")] * rungs,
        Column("kernel", style="bold"),
        *[Column("idea", wraps=" ")] * rungs,
        Column("in", spare=True),
        *_VERDICT,
        *([Column("GFLOP/s", "right"), Column("of cuBLAS", "right", spare=True)] if any(shown) else []),
    ]
    table = FittedTable(
        *columns, title=_title(results, shown, course), caption=_caption(shown, course), names=1 + rungs, most_gap=2
    )
    for one, measured in zip(results, shown, strict=True):
        cells = [*[str(one.rung or "")] * rungs, one.title, *[briefs.get(one.kernel, "")] * rungs, _arithmetic(one)]
        table.add_row(*cells, *_verdict(one), *(_speed(measured, course) if any(shown) else ()))
    return table


def results_table(results: Sequence[Result]) -> FittedTable:
    """A row a result of one problem, with its config."""
    first = results[0]
    columns = [Column("rung", "right"), Column("kernel", style="bold", wraps=" "), Column("config", wraps=" ")]
    table = FittedTable(*columns, *_VERDICT, title=f"{first.shape}, {_case(first)}", caption=_CAPTION, names=2)
    for one in results:
        table.add_row(str(one.rung or ""), one.title, pairs(one.config), *_verdict(one))
    return table


def count(results: Sequence[Result]) -> str:
    """How many results are right, as in '30 of 30 rungs are right'."""
    one_problem = len({(one.shape, one.layout) for one in results}) == 1
    what = "result" if not one_problem else "rung" if all(one.rung for one in results) else "kernel"
    right = sum(one.verified for one in results)
    return f"{right} of {len(results)} {what}{'s are' if len(results) != 1 else ' is'} right"


def fastest(records: Sequence[Record]) -> list[str]:
    """The fastest kernel for each element type of factors, and its share of the baseline's speed: a line for each."""
    lines = []
    for dtype in dict.fromkeys(record.dtype for record in records):
        best = max(
            (one for one in records if one.dtype == dtype and one.verified), key=lambda one: one.gflops, default=None
        )
        if best:
            of = f", {share(best)} of {best.baseline.name}'s" if best.baseline else ""
            lines.append(f"fastest in {dtype}: {best.title} on {best.shape}, {speed(best.gflops)} GFLOP/s{of}")
    return lines


_VERDICT = (Column("error", "right"), Column("bound", "right"), Column())


def _verdict(result: Result) -> tuple[Text, str, Text]:
    style, word = ("green", "ok") if result.verified else ("bold red", "WRONG")
    return Text(str(result.error), style), f"{result.error.limit:.1e}", Text(word, style)


def _title(results: Sequence[Result], speeds: Sequence[RungSpeed | None], course: Course) -> str:
    cases = {_case(one) for one in results}
    title = f"{results[0].shape}, {cases.pop() if len(cases) == 1 else 'each in its own arithmetic'}"
    return f"{title}\nGFLOP/s: at {course.shape} on an {course.where}" if any(speeds) else title


def _caption(speeds: Sequence[RungSpeed | None], course: Course) -> str:
    others = dict.fromkeys(one.shape for one in speeds if one and one.shape != course.shape)
    return "\n".join([_CAPTION, *(f"*: at {shape}" for shape in others)])


def _speed(measured: RungSpeed | None, course: Course) -> tuple[str, str]:
    if measured is None:
        return "", ""
    mark = "*" if measured.shape != course.shape else ""
    return f"{speed(measured.gflops)}{mark}", f"{100 * quotient(measured.gflops, measured.baseline_gflops):.0f}%"


def _is_own(result: Result) -> bool:
    """Whether a result is of a rung in the arithmetic that the course has it in."""
    return bool(result.rung and not result.picked and result.case == f"NN {find(result.kernel).support.arithmetic()}")


def _arithmetic(result: Result) -> str:
    return f"{result.dtype}:{FAST}" if result.precision == FAST else result.arithmetic


def _case(result: Result) -> str:
    return result.case.removeprefix("NN ")
