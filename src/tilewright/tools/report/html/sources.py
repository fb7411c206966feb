"""The files that a page is made of, with names: records of benches and journals of the autotuner."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tilewright.core.errors import DtypeError, ProblemError, RecordsError
from tilewright.core.gpus import GPUS, Gpu
from tilewright.core.problem import Problem, Scalars
from tilewright.tools.bench.records import Record, Result, Run
from tilewright.tools.tune import journal
from tilewright.tools.tune.journal import Trial


@dataclass(frozen=True)
class Source:
    """One file of records."""

    label: str
    """Label that distinguishes it from the other files: as much of its path as that takes."""
    run: Run

    @property
    def emulated(self) -> bool:
        """Whether its times are those of the emulator, which say nothing of a GPU."""
        return any(one.engine == "emulator" for one in self.run.every_result)

    @property
    def device(self) -> str:
        """Device that it was measured on, as the driver or the operating system calls it."""
        gpu, cpu = (_table(self.run.environment.get(name)) for name in ("gpu", "cpu"))
        if gpu:
            return str(gpu.get("name", "a GPU without a name"))
        return f"emulator on {cpu.get('name', 'a CPU')}" if self.emulated else "an unknown GPU"

    @cached_property
    def gpu(self) -> Gpu | None:
        """The product that it was measured on; None where the file does not say, or where it is not in gpus.py."""
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            found = self.run.gpu
            return found if found in GPUS and not self.emulated else None
        return None

    @property
    def clocks(self) -> str:
        """The GPU's clocks right after the run, in words; empty where they were not recorded."""
        facts = _table(self.run.environment.get("gpu"))
        named = {"SM": facts.get("sm_clock_mhz"), "memory": facts.get("memory_clock_mhz")}
        return ", ".join(f"{name} {clock} MHz" for name, clock in named.items() if clock)


@dataclass(frozen=True)
class Inputs:
    """All that a page is made of."""

    sources: Sequence[Source]
    trials: Sequence[Trial]
    """Trials of all journals together."""


def load(paths: Sequence[Path], journals: Sequence[Path] = ()) -> Inputs:
    """Read files of records, and journals wherever one is among them.

    Args:
        paths: files of records (JSON) or journals (JSON lines), in the order of the page.
        journals: further files, which have to be journals.

    Raises:
        RecordsError: a file is missing, is neither of both, holds nothing, or is named twice.
    """
    twice = {str(path) for path in (*paths, *journals) if [*paths, *journals].count(path) > 1}
    if twice:
        raise RecordsError(f"RECORDS must name each file once, got {', '.join(sorted(twice))} several times")
    trials: list[Trial] = []
    runs: dict[Path, Run] = {}
    for path in paths:
        if found := _trials(path):
            trials += found
        else:
            runs[path] = _run(path)
    for path in journals:
        found = _trials(path)
        if not found:
            raise RecordsError(f"--journal takes a journal of tilewright tune, got {path}, which holds no trial")
        trials += found
    labels = _labels(list(runs))
    return Inputs([Source(label, run) for label, run in zip(labels, runs.values(), strict=True)], trials)


def _trials(path: Path) -> list[Trial]:
    """The trials of a journal; none where the file is not one."""
    if path.is_dir():
        raise RecordsError(f"RECORDS must be files, got the folder {path}")
    if not path.exists():
        raise RecordsError(f"there is no file {path}")
    return journal.read(path)


def _run(path: Path) -> Run:
    if path.suffix == ".jsonl":
        raise RecordsError(f"{path} is not a journal of tilewright tune: it holds no trial")
    run = Run.load(path)
    if not run.every_result:
        raise RecordsError(f"{path} holds no records")
    for record in run.every_result:
        try:
            problem_of(record)
        except (ProblemError, DtypeError) as error:
            raise RecordsError(f"{path} is not a file of records: {error}") from error
        if min(_speeds(record)) < 0:
            raise RecordsError(
                f"{path} is not a file of records: {record.kernel} on {record.shape} has a negative time"
            )
    return run


def problem_of(record: Result) -> Problem:
    """The problem that a result or a record is of.

    Raises:
        ProblemError: its sizes or scalars are none that can be computed.
        DtypeError: its element type is not known.
    """
    Scalars.checked(record.alpha, record.beta)
    return record.problem


def _speeds(record: Result) -> list[float]:
    if not isinstance(record, Record):
        return [0.0]
    baseline = record.baseline
    numbers = [record.time_us.min, record.time_us.median, record.gflops, record.ratio or 0]
    return [*numbers, baseline.time_us.min, baseline.time_us.median, baseline.gflops] if baseline else numbers


def _labels(paths: Sequence[Path]) -> list[str]:
    """Labels of paths: of each the last parts, without suffix, enough to distinguish it from the others."""
    names = [path.with_suffix("").parts for path in paths]

    def label(path: Path, parts: tuple[str, ...]) -> str:
        for length in range(1, len(parts) + 1):
            if sum(other[-length:] == parts[-length:] for other in names) == 1:
                return "/".join(parts[-length:])
        return str(path)

    return [label(path, parts) for path, parts in zip(paths, names, strict=True)]


def _table(value: Any) -> dict[str, Any]:
    """A part of the environment, which a file may leave out or hold as something else."""
    return value if isinstance(value, dict) else {}
