"""What `check` and `explain` do with kernels that are no matrix products: see kernels/launches.py."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from tilewright.bench.references import Compared, Reference
from tilewright.cli.terminal import say
from tilewright.engines.apart import Apart, LostError, call_apart
from tilewright.engines.emulator.checker import Finding
from tilewright.engines.emulator.launches import CheckedLaunch, check_launch, compile_for_check
from tilewright.errors import CompileError, ConfigError, LaunchError, TilewrightError
from tilewright.kernels.launches import Buffer, Launch, is_launch, read_launch
from tilewright.kernels.source_lines import is_source
from tilewright.report.fitted import Column, FittedTable

T = TypeVar("T")

LOST = {"hung": "the kernel does not end", "crashed": "the kernel ends its process"}

Args = Annotated[
    str,
    typer.Option(
        "--args",
        metavar="NAME=VALUE ...",
        help="What the parameters of a kernel that is no matrix product are, as in 'x=float32[1024,512] "
        "y=out:float32[1024,512] rows=1024'.",
    ),
]
Grid = Annotated[str, typer.Option("--grid", metavar="X,Y,Z", help="Its blocks, which may follow from its integers.")]
Block = Annotated[str, typer.Option("--block", metavar="X,Y,Z", help="Threads of its blocks.")]
Shared = Annotated[str, typer.Option("--shared", metavar="BYTES", help="Its dynamic shared memory.")]
RefersTo = Annotated[
    str,
    typer.Option(
        "--reference",
        metavar="FILE.py:FUNCTION",
        help="What it should write, in NumPy: called with the parameters that the function names.",
    ),
]


@dataclass(frozen=True)
class Words:
    """The options of a command that say how such a kernel is launched."""

    args: str = ""
    grid: str = ""
    block: str = ""
    shared: str = ""
    reference: str = ""
    macros: str = ""
    """As --config has them."""

    @property
    def given(self) -> list[str]:
        """Those options that only such kernels have, and that are given."""
        return [f"--{name}" for name in ("args", "grid", "block", "shared", "reference") if getattr(self, name)]

    def launch(self, place: str) -> Launch:
        """The launch that a source and the options say, see `read_launch`."""
        args = f"{self.args} {self.macros.replace(',', ' ')}"
        return read_launch(place, args, grid=self.grid, block=self.block, shared=self.shared, reference=self.reference)


def launches(names: Sequence[str], words: Words, others: Mapping[str, object]) -> dict[str, Launch]:
    """Those of the named kernels that are no matrix products.

    Args:
        names: of kernels or files.
        words: the options for them.
        others: options that only products have, by name, and what they were given.

    Raises:
        ConfigError: the options do not go with the kernels.
    """
    if words.given and (len(names) != 1 or not is_source(names[0].strip())):
        raise ConfigError(f"{words.given[0]} takes one source file, as in softmax.cu, got {' '.join(names) or 'none'}")
    places = [name.strip() for name in names if words.given or (is_source(name.strip()) and is_launch(name.strip()))]
    if places and (given := [name for name, value in others.items() if value]):
        raise ConfigError(
            f"{given[0]} is for matrix products: {places[0]} has sizes of its own, as in --args rows=1000"
        )
    return {place: words.launch(place) for place in places}


@dataclass(frozen=True)
class LaunchOutcome:
    """What came of one launch."""

    launch: Launch
    findings: list[Finding]
    compared: list[Compared]
    """With the reference, where there is one and nothing ended the launch."""

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings and all(one.right for one in self.compared)


def check_apart(launch: Launch, deadline: float, tolerance: float | None) -> LaunchOutcome:
    """Check a launch in a process of its own, for at most this many seconds."""
    reference = Reference(launch) if launch.reference else None
    with Apart(_answer, launch, name="check") as process:
        process.wait_for_start()
        try:
            answer = process.receive(deadline)
        except LostError as lost:
            return LaunchOutcome(launch, [Finding(lost.fate, None, message=f"{LOST[lost.fate]}: {lost}")], [])
    if isinstance(answer, TilewrightError):
        raise answer
    assert isinstance(answer, CheckedLaunch)
    compared = reference.compare(answer.inputs, answer.outputs, tolerance) if reference else []
    return LaunchOutcome(launch, answer.findings, compared)


def _answer(connection: Connection, launch: Launch) -> None:
    """Check a launch in another process: sends that it begins, once its kernel is compiled, and what came of it."""
    answer: CheckedLaunch | TilewrightError
    try:
        compile_for_check(launch)
        connection.send("")
        answer = check_launch(launch)
    except CompileError as error:
        connection.send("")
        answer = error
    except TilewrightError as error:
        answer = error
    connection.send(answer)


def explain_apart(function: Callable[..., T], *arguments: Any, deadline: float) -> T:
    """What a function that runs a kernel of anybody returns, in a process of its own: the kernel may end that, or never
    end itself.

    Raises:
        LaunchError: the kernel did so, or it took more than this many seconds.
        Others: as the function.
    """
    try:
        return call_apart(function, *arguments, name="explain", allowed_s=deadline)
    except LostError as lost:
        help_ = "tilewright check may name the fault" + "; --deadline gives it longer" * (lost.fate == "hung")
        raise LaunchError(f"{LOST[lost.fate]}: {lost}. {help_}") from None


def show(outcome: LaunchOutcome, shown: Console) -> None:
    """Print what came of one launch."""
    launch = outcome.launch
    verdict = "[green]nothing found[/]" if outcome.clean else "[bold red]faulty[/]"
    say(f"     [bold]{launch.name:<16}[/]  {verdict}  [dim]{arguments(launch)}[/]", indent=5, to=shown)
    if outcome.clean:
        for one in outcome.compared:
            shown.print(f"     {one.name}: error {one.error:.1e} against the reference", highlight=False)
        return
    table = FittedTable(*(Column(heading, wraps=" ") for heading in ("fault", "first seen")))
    for fault, what in _faults(outcome):
        table.add_row(fault, Text(what))
    shown.print(table)


def arguments(launch: Launch) -> str:
    """Arguments, macros and geometry in a line."""
    words = {one.name: str(one).replace("[", "\\[") for one in launch.arguments} | {**launch.macros}
    words |= {"grid": _extents(launch.grid), "block": _extents(launch.block)}
    words |= {"shared": launch.shared_bytes} if launch.shared_bytes else {}
    return " ".join(f"{name}={value}" for name, value in words.items())


def _extents(of: tuple[int, int, int]) -> str:
    return ",".join(map(str, of[: max((axis + 1 for axis in range(3) if of[axis] > 1), default=1)]))


def _faults(outcome: LaunchOutcome) -> Iterator[tuple[str, str]]:
    for one in outcome.findings:
        yield one.kind, f"{one}" + (f"; {one.count:,} times in all" if one.count > 1 else "")
    for other in outcome.compared:
        if not other.right:
            yield "wrong result", f"the relative error of {other.name} is {other.error:.1e}: {other.worst}"


def facts(outcome: LaunchOutcome) -> dict[str, Any]:
    """What the JSON file holds of a launch: its arguments and geometry, its faults, errors against the reference."""
    launch = outcome.launch
    return {
        **launch_facts(launch),
        "findings": [
            {
                "kind": finding.kind,
                "words": str(finding),
                "count": finding.count,
                "lines": [line._asdict() for line in finding.lines if line],
            }
            for finding in outcome.findings
        ],
        "compared": [
            {"name": one.name, "relative_error": one.error, "limit": one.limit, "right": one.right, "worst": one.worst}
            for one in outcome.compared
        ],
    }


def launch_facts(launch: Launch) -> dict[str, Any]:
    """A launch, as JSON files have it."""
    return {
        "kernel": launch.name,
        "config": dict(launch.macros),
        "arguments": {
            one.name: (
                {"role": one.role, "dtype": one.dtype, "shape": list(one.shape)}
                if isinstance(one, Buffer)
                else one.value
            )
            for one in launch.arguments
        },
        "grid": list(launch.grid),
        "block": list(launch.block),
        "shared_bytes": launch.shared_bytes,
    }
