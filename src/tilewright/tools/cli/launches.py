"""What commands do with source files: options that say how kernels are launched, and those that are no matrix products
(kernels/source/launches.py)."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from rich.console import Console

from tilewright.core.errors import ConfigError, LaunchError, TilewrightError
from tilewright.emulator.checker import Finding
from tilewright.emulator.launches import CheckedLaunch, check_launch, compile_for_check
from tilewright.kernels import resolve
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.source.launches import (
    Buffer,
    Launch,
    Map,
    Number,
    Unit,
    is_launch,
    read_launch,
    read_unit,
    said_by,
)
from tilewright.kernels.source.lines import definitions, is_source, split_words
from tilewright.kernels.source.products import from_source, reads_as_product
from tilewright.runtime.apart import Apart, LostError, call_apart
from tilewright.tools.bench.references import Compared, Reference
from tilewright.tools.cli.terminal import say
from tilewright.tools.report.fitted import Column, FittedTable

T = TypeVar("T")

GRACE_S = 2.0
"""Seconds for a process whose kernel does not end, to say where that is."""

LOST = {"hung": "the kernel does not end", "crashed": "the kernel ends its process"}


@dataclass(frozen=True)
class Words:
    """The options of a command that say how a source file's kernel is launched."""

    args: str = ""
    grid: str = ""
    block: str = ""
    shared: str = ""
    reference: str = ""
    macros: str = ""
    """As --config has them."""
    define: Sequence[str] = ()

    def check(self, names: Sequence[str]) -> None:
        """Raise ConfigError where options for source files go with none of the named kernels, or with several."""
        of_one = [f"--{name}" for name in ("args", "grid", "block", "shared", "reference") if getattr(self, name)]
        sources = sum(is_source(name.strip()) for name in names)
        got = " ".join(names) or "none"
        if of_one and sources != 1:
            raise ConfigError(f"{of_one[0]} takes one source file, as in softmax.cu, got {got}")
        if self.define and not sources:
            raise ConfigError(f"--define takes a source file, as in softmax.cu, got {got}")

    @property
    def said(self) -> dict[str, str]:
        """The words that they replace in a source's lines."""
        bare = [word for word in self.args.split() if re.fullmatch(r"\w+(,\w+)+", word)]
        if len(bare) > 1:
            raise ConfigError(f"--args takes one list of parameters, as in A,B,C,M,N,K, got {self.args}")
        found = {"args": bare[0]} if bare else {}
        found |= split_words(" ".join(word for word in self.args.split() if word not in bare), "--args")
        return found | {word: of for word in ("grid", "block", "shared") if (of := getattr(self, word))}

    def is_launch(self, place: str) -> bool:
        """Whether a source's kernel is taken for no matrix product: its words or these say buffers, or nothing says
        which of its parameters are A, B and C."""
        if self.reference or is_launch(place, self.said):
            return True
        return bool(self.said) and "args" not in self.said and not reads_as_product(place)

    def launch(self, place: str) -> Launch:
        """The launch that a source and the options say, see `read_launch`."""
        args = f"{self.args} {self.macros.replace(',', ' ')}"
        words = {"grid": self.grid, "block": self.block, "shared": self.shared, "reference": self.reference}
        return read_launch(place, args, definitions(self.define), **words)

    def unit(self, place: str, others: Mapping[str, object]) -> tuple[Unit, int] | None:
        """Of a source file whose kernel is no matrix product, or of which nothing says how it is launched: what
        compilers get, and bytes of dynamic shared memory. None of others.

        Raises:
            ConfigError: the options do not go with the kernel: see `launches`.
        """
        if launch := launches([place], self, others).get(place.strip()):
            return launch.unit, launch.shared_bytes
        # What is not ours says itself what it guards: its code is the same for all shapes.
        if not is_source(place.strip()) or any(value for name, value in others.items() if name != "--shape"):
            return None
        said = said_by(place.strip()) | self.said
        if {"block", "grid"} <= said.keys():
            return None
        words = self.said | split_words(self.macros.replace(",", " "), "--config")
        return read_unit(place.strip(), words, definitions(self.define)), 0

    def resolve(self, name: str) -> tuple[Kernel, Mapping[str, int]]:
        """As `tilewright.kernels.resolve`, with the options where it is a source file."""
        if is_source(name := name.strip()):
            return from_source(name, defines=definitions(self.define), **self.said), {}
        return resolve(name)


def launches(names: Sequence[str], words: Words, others: Mapping[str, object]) -> dict[str, Launch]:
    """Those of the named kernels that are no matrix products.

    Args:
        names: of kernels or files.
        words: the options for source files.
        others: options that only products have, by name, and what they were given.

    Raises:
        ConfigError: the options do not go with the kernels.
    """
    words.check(names)
    places = [name.strip() for name in names if is_source(name.strip()) and words.is_launch(name.strip())]
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
    notes: Sequence[Finding] = ()
    """What is no fault."""

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings and all(one.right for one in self.compared)


def check_apart(launch: Launch, deadline: float, tolerance: float | None) -> LaunchOutcome:
    """Check a launch in a process of its own, for at most this many seconds."""
    reference = Reference(launch) if launch.reference else None
    (answer,) = answers(_answer, launch, count=1, deadline=deadline)
    if not isinstance(answer, CheckedLaunch):
        return LaunchOutcome(launch, answer, [])
    compared = reference.compare(answer.inputs, answer.outputs, tolerance) if reference else []
    return LaunchOutcome(launch, answer.findings, compared, answer.notes)


def answers(function: Callable[..., None], *arguments: Any, count: int, deadline: float) -> Iterator[Any]:
    """What a function sends by `send_answers` from a process of its own, each for at most this many seconds; last where
    the process is lost, what became of it: findings that it sent itself, where they name the place, or what was seen
    from outside."""
    with Apart(function, *arguments, name="check") as process:
        process.wait_for_start()
        for _ in range(count):
            try:
                answer = process.receive(deadline, GRACE_S)
            except LostError as lost:
                said = getattr(lost.answer, "findings", ())
                named = [finding for finding in said if finding.kind == lost.fate]
                yield named or [Finding(lost.fate, None, message=f"{LOST[lost.fate]}: {lost}")]
                return
            if isinstance(answer, TilewrightError):
                raise answer
            yield answer


def send_answers(connection: Connection, compile_all: Callable[[], object], found: Iterable[Any]) -> None:
    """In another process: send that it begins, once what it runs is compiled, and each answer as it comes; an error in
    the place of one."""
    refused: TilewrightError | None = None
    try:
        compile_all()
    except TilewrightError as error:
        refused = error
    connection.send("")
    try:
        for answer in [refused] if refused else found:
            connection.send(answer)
    except TilewrightError as error:
        connection.send(error)


def _answer(connection: Connection, launch: Launch) -> None:
    send_answers(connection, partial(compile_for_check, launch), map(check_launch, [launch]))


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
    given = (arguments(launch), "dim")
    say("     ", (f"{launch.name:<16}", "bold"), "  ", verdict(outcome.clean), "  ", given, indent=5, to=shown)
    show_notes(outcome.notes, shown)
    if outcome.clean:
        for one in outcome.compared:
            shown.print(f"     {one.name}: error {one.error:.1e} against the reference", highlight=False)
        return
    table = FittedTable(*(Column(heading, wraps=" ") for heading in ("fault", "first seen")))
    for fault, what in _faults(outcome):
        table.add_row(fault, what)
    shown.print(table)


def verdict(clean: bool) -> tuple[str, str]:
    """What is said of a kernel, and its style."""
    return ("nothing found", "green") if clean else ("faulty", "bold red")


def show_notes(notes: Iterable[Finding], shown: Console) -> None:
    """Print what was found and is no fault, a line for each."""
    for one in notes:
        say("     ", ("note", "bold"), f"  {in_words(one)}", indent=11, to=shown)


def in_words(finding: Finding) -> str:
    """A finding, and how often it was seen."""
    return f"{finding}" + (f"; {finding.count:,} times in all" if finding.count > 1 else "")


def finding_facts(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Findings, as JSON files have them: their kinds and words, how often each was seen, and lines of the source."""
    return [
        {
            "kind": one.kind,
            "words": str(one),
            "count": one.count,
            "lines": [line._asdict() for line in one.lines if line],
        }
        for one in findings
    ]


def arguments(launch: Launch) -> str:
    """Arguments, macros and geometry in a line."""
    words = {one.name: str(one) for one in launch.given} | {**launch.macros}
    words |= {"grid": _extents(launch.grid), "block": _extents(launch.block)}
    words |= {"shared": launch.shared_bytes} if launch.shared_bytes else {}
    words |= {"cluster": launch.cluster} if launch.cluster > 1 else {}
    return " ".join(f"{name}={value}" for name, value in words.items())


def _extents(of: tuple[int, int, int]) -> str:
    return ",".join(map(str, of[: max((axis + 1 for axis in range(3) if of[axis] > 1), default=1)]))


def _faults(outcome: LaunchOutcome) -> Iterator[tuple[str, str]]:
    for one in outcome.findings:
        yield one.kind, in_words(one)
    for other in outcome.compared:
        if not other.right:
            yield "wrong result", f"the relative error of {other.name} is {other.error:.1e}: {other.worst}"


def facts(outcome: LaunchOutcome) -> dict[str, Any]:
    """What the JSON file holds of a launch: arguments, geometry, faults, notes, errors against the reference."""
    launch = outcome.launch
    return {
        **launch_facts(launch),
        "findings": finding_facts(outcome.findings),
        "notes": finding_facts(outcome.notes),
        "compared": [
            {"name": one.name, "relative_error": one.error, "limit": one.limit, "right": one.right, "worst": one.worst}
            for one in outcome.compared
        ],
    }


def _argument_facts(one: Buffer | Number | Map) -> Any:
    if isinstance(one, Buffer):
        return {"role": one.role, "dtype": one.dtype, "shape": list(one.shape)}
    if isinstance(one, Map):
        of = one.box
        return {"array": one.array, "box": list(of.of_array), "swizzle": of.swizzle, "panel": of.panel}
    return one.value


def launch_facts(launch: Launch) -> dict[str, Any]:
    """A launch, as JSON files have it."""
    return {
        "kernel": launch.name,
        "config": dict(launch.macros),
        "arguments": {one.name: _argument_facts(one) for one in launch.given},
        "grid": list(launch.grid),
        "block": list(launch.block),
        "shared_bytes": launch.shared_bytes,
        "cluster": launch.cluster,
    }


def own_order(layout: str | None, kernel: Kernel) -> str:
    """The same of a command that takes one kernel and one order."""
    return own_orders([layout] if layout else None, [kernel])[0] or "NN"


def own_orders(layout: Sequence[str] | None, kernels: Iterable[Kernel]) -> Sequence[str | None]:
    """The orders of A and B that a command was given, or else those that source files take, where all of these kernels
    are such and none takes NN; None: the suite's."""
    taken = [kernel.support.layouts if kernel.foreign else ("NN",) for kernel in kernels]
    if layout or not taken or any("NN" in one for one in taken):
        return layout or [None]
    return taken[0][:1]
