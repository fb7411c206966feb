"""The file of tuned tables, one a GPU: compact, versioned, checked as it is read, written whole or not at all.

    {"format": 3, "gpu": "NVIDIA H200", "capability": [9, 0],
     "runs": [[revision, whether runs after other work were measured], ...],
     "factors": {element type: {kernel: median of measured over predicted times}},
     "kernels": [[name, [parameter, ...], [config's values, ...], ...], ...],
     "cases": {"NN float32": [[m, n, k, batch, [choice, GFLOP/s, cuBLAS's, error over cuBLAS's, run], ...], ...]}}

A choice numbers the configs of all kernels, in the order of the file; null stands for what was not measured. Numbers
have five digits: two measurements of one thing differ by more.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.errors import RecordsError
from tilewright.core.files import json_kind, save
from tilewright.core.problem import Problem
from tilewright.kernels import found_name, recorded
from tilewright.kernels.config import Config
from tilewright.select.tables.cases import timed_case
from tilewright.select.tables.entry import Entry
from tilewright.select.tables.merging import merged

FORMAT = 3
"""Version of the format, the only one that is read."""

KIND = json_kind("a tuned table", "format", "gpu")

_CASE = re.compile(r"[NT]{2} \w+(->\w+)?( [\w+]+)?")
_DIGITS = 5
_SIZES, _NUMBERS = 4, 5

Choice = tuple[str, Sequence[str], Sequence[int]]
"""A kernel's name, its parameters, and a config's values of them."""


def config_of(choice: Choice) -> Config:
    """The config of a choice, in the parameters that its table has."""
    _, names, values = choice
    return Config(dict(zip(names, values, strict=True)))


_Problems = list[list[Any]]
"""A case's problems: sizes of each, and behind them its measurements."""


class Cells(NamedTuple):
    """A case's measurements as arrays. `sizes` has a row a problem, all others an element a measurement."""

    sizes: NDArray[np.int64]
    """m, n, k and batch."""
    problem: NDArray[np.intp]
    """Row of `sizes`."""
    choice: NDArray[np.intp]
    """Number in `Table.choices`."""
    gflops: NDArray[np.float64]
    baseline_gflops: NDArray[np.float64]
    """NaN where it was not measured."""
    error_ratio: NDArray[np.float64]
    """NaN where it was not measured."""
    run: NDArray[np.intp]
    """Number in `Table.runs`."""


@dataclass(frozen=True)
class Table:
    """Measurements on one GPU."""

    gpu: str
    """The name that its driver gives it."""
    capability: tuple[int, int]
    factors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By element type of A and B, and kernel: the median of its measured over the cost model's times."""
    runs: Sequence[tuple[str | None, bool]] = ()
    """Revision of the source that was measured, and whether runs after other work were."""
    choices: Sequence[Choice] = ()
    cases: Mapping[str, _Problems] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        gpu: str,
        capability: tuple[int, int],
        entries: Iterable[Entry] = (),
        factors: Mapping[str, Mapping[str, float]] | None = None,
    ) -> "Table":
        """A table of entries: by case, work and problem, the best first."""
        kept = sorted(entries, key=lambda entry: (entry.case, entry.work, entry.problem, -entry.gflops))
        configs = sorted({(entry.kernel, tuple(entry.config), tuple(entry.config.values())) for entry in kept})
        choices = {config: number for number, config in enumerate(configs)}
        listed = [(kernel, list(names), list(values)) for kernel, names, values in configs]
        runs = {
            run: number
            for number, run in enumerate(dict.fromkeys((one.revision, one.after_other_work) for one in kept))
        }
        cases: dict[str, _Problems] = {}
        for entry in kept:
            problems = cases.setdefault(entry.case, [])
            sizes = [entry.m, entry.n, entry.k, entry.batch]
            if not problems or problems[-1][:4] != sizes:
                problems.append(sizes)
            config = entry.kernel, tuple(entry.config), tuple(entry.config.values())
            numbers = map(_rounded, (entry.gflops, entry.baseline_gflops, entry.error_ratio))
            problems[-1].append([choices[config], *numbers, runs[entry.revision, entry.after_other_work]])
        return cls(gpu, capability, factors or {}, list(runs), listed, cases)

    @classmethod
    def load(cls, path: Path) -> "Table":
        """Read a table.

        Raises:
            RecordsError: the file cannot be read, or is no table of this format; the message says what is wrong.
        """
        try:
            return _read(json.loads(path.read_bytes()))
        except OSError as error:
            raise RecordsError(f"cannot read the table {path}: {error.strerror}") from error
        except RecursionError:
            raise RecordsError(f"{path} is not a table of format {FORMAT}: it is nested too deep") from None
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            reason = error if isinstance(error, ValueError) else f"{type(error).__name__} {error}"
            raise RecordsError(f"{path} is not a table of format {FORMAT}: {reason}") from error

    def save(self, path: Path) -> None:
        """Write the table, a problem a line. The file appears whole or not at all.

        Raises:
            RecordsError: the file cannot be written.
        """
        kernels: list[list[Any]] = []
        for kernel, names, values in self.choices:
            if not kernels or (kernels[-1][0], kernels[-1][1]) != (kernel, names):
                kernels.append([kernel, names])
            kernels[-1].append(values)
        head = {"format": FORMAT, "gpu": self.gpu, "capability": self.capability, "runs": self.runs}
        parts = [f"{_json(name)}:{_json(value)}" for name, value in {**head, "factors": self.factors}.items()]
        parts.append(f'"kernels":[\n{_lines(kernels)}]')
        cases = ",\n".join(f"{_json(case)}:[\n{_lines(problems)}]" for case, problems in self.cases.items())
        parts.append(f'"cases":{{\n{cases}}}')
        save(path, f"{{{', '.join(parts)}}}\n".encode(), f"the table {path}")

    def of_today(self) -> "Table":
        """This table in the parameters that kernels have now, without kernels and configs that no longer exist."""
        now = [recorded(choice[0], config_of(choice)) for choice in self.choices]
        return Table.of(self.gpu, self.capability, self._entries_with(now), self.factors)

    def merged(self, entries: Iterable[Entry]) -> "Table":
        """This table with newer entries, in the parameters of now, without what is not worth keeping: see `merging`."""
        return Table.of(self.gpu, self.capability, merged(self.of_today().entries, entries), self.factors)

    def cells(self, case: str) -> Cells:
        """The measurements of a case that the table has, each problem's in the order of the file."""
        found = self._cells.get(case)
        if found is None:
            found = self._cells[case] = _cells(self.cases[case])
        return found

    @cached_property
    def _cells(self) -> dict[str, Cells]:
        return {}

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All measurements, one by one."""
        return tuple(self._entries_with([dict(config_of(choice)) for choice in self.choices]))

    def _entries_with(self, configs: Sequence[Mapping[str, int] | None]) -> Iterator[Entry]:
        """The measurements of all choices but those without a config here."""
        for case, problems in self.cases.items():
            for m, n, k, batch, *measured in problems:
                for choice, gflops, baseline, error, run in measured:
                    if (config := configs[choice]) is not None:
                        kernel, (revision, after_other_work) = self.choices[choice][0], self.runs[run]
                        yield Entry(
                            m, n, k, case, kernel, config, gflops, baseline, error, revision, after_other_work, batch
                        )

    def holds(self, problem: Problem) -> bool:
        """Whether there are measurements of a problem's sizes, batch and case."""
        wanted = [problem.m, problem.n, problem.k, problem.batch]
        return any(one[:4] == wanted for one in self.cases.get(timed_case(problem), ()))


def _read(facts: Any) -> Table:
    """The table that a file's JSON holds.

    Raises:
        ValueError, TypeError, KeyError, IndexError, AttributeError: it holds none.
    """
    if not isinstance(facts, dict):
        raise ValueError("it is no JSON object")
    gpu, (major, minor) = facts["gpu"], facts["capability"]
    if not (isinstance(gpu, str) and type(major) is type(minor) is int):
        raise ValueError(f"gpu, capability: must be a name and two integers, got {gpu!r}, {facts['capability']!r}")
    if facts["format"] != FORMAT:
        raise ValueError(f"format: got {facts['format']!r}")
    kernels = [(found_name(kernel), *others) for kernel, *others in facts["kernels"]]
    choices = [(kernel, names, values) for kernel, names, *configs in kernels for values in configs]
    runs = [(revision, after_other_work) for revision, after_other_work in facts["runs"]]
    table = Table(gpu, (major, minor), facts["factors"], runs, choices, facts["cases"])
    _check(table)
    return table


def _check(table: Table) -> None:
    """Refuse measurements that no table of today's format has.

    Raises:
        ValueError, TypeError: some are of the wrong type or out of range.
    """
    for case in table.cases:
        if not _CASE.fullmatch(case):
            raise ValueError(f"a case must read LAYOUT TYPE [EPILOGUE], as in 'NT float32 bias+gelu', got {case!r}")
    for kernel, names, values in table.choices:
        if not (isinstance(kernel, str) and len(names) == len(values)):
            raise ValueError(f"kernels must have a name, and values for all parameters, got {kernel!r}")
    if not table.cases:
        return
    cells = [table.cells(case) for case in table.cases]
    sizes, _, choice, gflops, baseline, error, run = map(np.concatenate, zip(*cells, strict=True))
    speeds = np.concatenate((gflops, baseline[~np.isnan(baseline)]))
    if not (np.isfinite(speeds) & (speeds > 0)).all() or (error < 0).any() or (sizes < 0).any():
        raise ValueError("sizes must be at least 0, and speeds above it")
    for name, numbers, count in (("choice", choice, len(table.choices)), ("run", run, len(table.runs))):
        if not ((numbers >= 0) & (numbers < count)).all():
            raise ValueError(f"a {name} must be one of {count}")


def _cells(problems: _Problems) -> Cells:
    cells = np.array([cell for one in problems for cell in one[_SIZES:]], np.float64).reshape(-1, _NUMBERS)
    sizes = np.array([one[:_SIZES] for one in problems], np.int64).reshape(-1, _SIZES)
    choice, gflops, baseline, error, run = cells.T
    of = np.array([number for number, one in enumerate(problems) for _ in one[_SIZES:]], np.intp)
    return Cells(sizes, of, choice.astype(np.intp), gflops, baseline, error, run.astype(np.intp))


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _lines(values: Iterable[Any]) -> str:
    return ",\n".join(map(_json, values))


def file_name(gpu: str) -> str:
    """The file name of a GPU's table: 'NVIDIA H200' has nvidia_h200.json."""
    return re.sub(r"[^a-z0-9]+", "_", gpu.lower()).strip("_") + ".json"
