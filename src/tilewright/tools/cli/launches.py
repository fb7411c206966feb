"""Source files on the command line: options that say how kernels are launched (kernels/source/source_launch.py), and
checks and explanations of those that are no matrix products."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from rich.console import Console

from tilewright.core.errors import ConfigError, LaunchError, TilewrightError
from tilewright.core.problem import Problem
from tilewright.emulator.checker import Finding
from tilewright.emulator.launches import CheckedLaunch, check_launch, compile_for_check
from tilewright.kernels import resolve
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.source.buffers import Buffer, Map, NumberArgument
from tilewright.kernels.source.lines import definitions, is_source, read, split_words
from tilewright.kernels.source.products import from_source
from tilewright.kernels.source.source_launch import REFERENCE, SourceLaunch, launch_of
from tilewright.runtime.worker_process import LostError, WorkerProcess, call_in_subprocess
from tilewright.tools.bench import suites
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
        return found | {word: of for word in ("grid", "block", "shared", "reference") if (of := getattr(self, word))}

    def read(self, source_name: str, of_products: Mapping[str, object]) -> SourceLaunch:
        """The launch of a source file's kernel, with these options.

        Args:
            place: the file.
            of_products: options that only products have, by name, and what they were given.

        Raises:
            KernelNotFoundError, ConfigError: as `launch_of`; or the kernel is no product, and such an option is given.
        """
        launch = launch_of(*read(source_name), self.said, definitions(self.define), self.macros)
        if not launch.product and (given := [name for name, value in of_products.items() if value]):
            raise ConfigError(
                f"{given[0]} is for matrix products: {source_name} has sizes of its own, as in --args rows=1000"
            )
        return launch

    def code(self, source_name: str, of_products: Mapping[str, object]) -> SourceLaunch | None:
        """The launch of a source file's kernel that is no matrix product, or of which only the code is known since
        nothing says how it is launched. None for others.

        Raises:
            ConfigError: the options do not go with the kernel: see `launches`.
        """
        self.check([source_name])
        if not is_source(source_name := source_name.strip()):
            return None
        launch = self.read(source_name, of_products)
        if not launch.product and launch.has_geometry:
            return launch.checked()
        # What is not ours says itself what it guards: its code is the same for all shapes.
        of_types = any(value for name, value in of_products.items() if name != "--shape")
        return None if launch.has_geometry or of_types else launch

    def resolve(self, name: str) -> tuple[Kernel, Mapping[str, int]]:
        """As `tilewright.kernels.resolve`, with the options where it is a source file."""
        if is_source(name := name.strip()):
            return from_source(name, defines=definitions(self.define), **self.said), {}
        return resolve(name)


def launches(names: Sequence[str], words: Words, of_products: Mapping[str, object]) -> dict[str, SourceLaunch]:
    """The launches of named kernels that are no matrix products.

    Args:
        names: of kernels or files.
        words: the options for source files.
        of_products: options that only products have, by name, and what they were given.

    Raises:
        ConfigError: the options do not go with the kernels.
    """
    words.check(names)
    found = {
        source_name: words.read(source_name, of_products) for name in names if is_source(source_name := name.strip())
    }
    return {source_name: launch.checked() for source_name, launch in found.items() if not launch.product}


@dataclass(frozen=True)
class LaunchOutcome:
    """Outcome of one launch."""

    launch: SourceLaunch
    findings: list[Finding]
    compared: list[Compared]
    """With the reference, where there is one and nothing ended the launch."""
    notes: Sequence[Finding] = ()
    """Findings that are no fault."""

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings and all(one.right for one in self.compared)


def check_in_subprocess(launch: SourceLaunch, deadline: float, tolerance: float | None) -> LaunchOutcome:
    """Check a launch in a process of its own, for at most this many seconds."""
    reference = Reference(launch) if REFERENCE in launch.words else None
    (answer,) = answers(_answer, launch, count=1, deadline=deadline)
    if not isinstance(answer, CheckedLaunch):
        return LaunchOutcome(launch, answer, [])
    compared = reference.compare(answer.inputs, answer.outputs, tolerance) if reference else []
    return LaunchOutcome(launch, answer.findings, compared, answer.notes)


def answers(function: Callable[..., None], *arguments: Any, count: int, deadline: float) -> Iterator[Any]:
    """Answers that a function sends by `send_answers` from a subprocess, each for at most this many seconds; if the
    process is lost, last the findings that it sent itself, where they name the place, or what was seen from outside."""
    with WorkerProcess(function, *arguments, name="check") as process:
        process.wait_for_start()
        for _ in range(count):
            try:
                answer = process.receive(deadline, GRACE_S)
            except LostError as lost:
                said = getattr(lost.answer, "findings", ())
                named = [finding for finding in said if finding.kind == lost.outcome]
                yield named or [Finding(lost.outcome, None, message=f"{LOST[lost.outcome]}: {lost}")]
                return
            if isinstance(answer, TilewrightError):
                raise answer
            yield answer


def send_answers(connection: Connection, compile_all: Callable[[], object], found: Iterable[Any]) -> None:
    """In another process: send that it begins, once what it runs is compiled, and each answer as it comes; an error in
    the place of one."""
    try:
        compile_all()
    except TilewrightError as error:
        found = [error]
    connection.send("")
    try:
        for answer in found:
            connection.send(answer)
    except TilewrightError as error:
        connection.send(error)


def _answer(connection: Connection, launch: SourceLaunch) -> None:
    send_answers(connection, partial(compile_for_check, launch), map(check_launch, [launch]))


def explain_in_subprocess(function: Callable[..., T], *arguments: Any, deadline: float) -> T:
    """Result of a function that runs a user kernel, in a subprocess: the kernel may end that, or never end itself.

    Raises:
        LaunchError: the kernel did so, or it took more than this many seconds.
        Others: as the function.
    """
    try:
        return call_in_subprocess(function, *arguments, name="explain", allowed_s=deadline)
    except LostError as lost:
        help_ = "tilewright check may name the fault" + "; --deadline gives it longer" * (lost.outcome == "hung")
        raise LaunchError(f"{LOST[lost.outcome]}: {lost}. {help_}") from None


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
    for finding in outcome.findings:
        table.add_row(finding.kind, in_words(finding))
    for other in outcome.compared:
        if not other.right:
            table.add_row("wrong result", f"the relative error of {other.name} is {other.error:.1e}: {other.worst}")
    shown.print(table)


def verdict(clean: bool) -> tuple[str, str]:
    """Verdict on a kernel, in a word, and its style."""
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


def arguments(launch: SourceLaunch) -> str:
    """Arguments, macros and geometry in a line."""
    words = {one.name: str(one) for one in launch.contents.said} | {**launch.macros}
    words |= {"grid": _extents(launch.grid), "block": _extents(launch.block)}
    words |= {"shared": launch.shared_bytes} if launch.shared_bytes else {}
    words |= {"cluster": launch.cluster} if launch.cluster > 1 else {}
    return " ".join(f"{name}={value}" for name, value in words.items())


def _extents(of: tuple[int, int, int]) -> str:
    return ",".join(map(str, of[: max((axis + 1 for axis in range(3) if of[axis] > 1), default=1)]))


def facts(outcome: LaunchOutcome) -> dict[str, Any]:
    """Entry of a launch in the JSON file: arguments, geometry, faults, notes, errors against the reference."""
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


def _argument_facts(one: Buffer | NumberArgument | Map) -> Any:
    if isinstance(one, Buffer):
        return {"role": one.role, "dtype": one.dtype, "shape": list(one.shape)}
    if isinstance(one, Map):
        of = one.box
        return {"array": one.array, "box": list(of.of_array), "swizzle": of.swizzle, "panel": of.panel}
    return one.value


def launch_facts(launch: SourceLaunch) -> dict[str, Any]:
    """A launch, as JSON files have it."""
    return {
        "kernel": launch.name,
        "config": dict(launch.macros),
        "arguments": {one.name: _argument_facts(one) for one in launch.contents.said},
        "grid": list(launch.grid),
        "block": list(launch.block),
        "shared_bytes": launch.shared_bytes,
        "cluster": launch.cluster,
    }


def problem_for(kernel: Kernel, shape: str, layout: str | None, dtype: str | None) -> Problem:
    """Problem of a command that takes one kernel, one shape and one order, in the kernel's own terms where these are
    not given."""
    orders = own_orders([layout] if layout else None, [kernel])
    (problem,) = suites.problems([shape], [], kernel.support.arithmetic(dtype or ""), layouts=orders)
    return kernel.support.scaled(problem)


def own_orders(layout: Sequence[str] | None, kernels: Iterable[Kernel]) -> Sequence[str | None]:
    """The orders of A and B that a command was given, or else those that source files take, where all of these kernels
    are such and none takes NN; None: the suite's."""
    taken = [kernel.support.layouts if kernel.is_user_kernel else ("NN",) for kernel in kernels]
    if layout or not taken or any("NN" in one for one in taken):
        return layout or [None]
    return taken[0][:1]
