"""The file of tuned tables, one a GPU: compact, versioned, checked as it is read, written whole or not at all.

    {"format": 3, "gpu": "NVIDIA H200", "capability": [9, 0],
     "runs": [[revision, whether runs after other work were measured], ...],
     "models": {element type: [[choice, blocks of a multiprocessor, [coefficient, ...]], ...]},
     "trees": {element type: [[[feature, ...], [threshold, ...], [leaf in 1/10000, ...]], ...]},
     "kernels": [[name, [parameter, ...], [config's values, ...], ...], ...],
     "cases": {"NN float32": [[m, n, k, batch, [choice, GFLOP/s, cuBLAS's, error over cuBLAS's, run], ...], ...]}}

A choice numbers the configs of all kernels, in the order of the file; null stands for what was not measured. Numbers
have five digits: two measurements of one thing differ by more. Models are those of `select.model`, of what a survey
measured; a table that has none has no line of them.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tilewright.core.errors import RecordsError
from tilewright.core.files import json_kind, save
from tilewright.core.problem import Problem
from tilewright.kernels import find, recorded
from tilewright.kernels.config import Config
from tilewright.kernels.support import Addresses
from tilewright.select.model import FEATURES, TERMS, ConfigModel, Fitted, ProblemSizes
from tilewright.select.tables.cases import problem_of, same_speed_cases, timed_case
from tilewright.select.tables.entry import Entry, best_of_kernels
from tilewright.select.trees import DEPTH, Correction

FORMAT = 3
"""Version of the format, the only one that is read."""

KIND = json_kind("a tuned table", "format", "gpu")

_CASE = re.compile(r"[NT]{2} \w+(->\w+)?( [\w+]+)?")
_DIGITS = 5
_SIZES, _NUMBERS = 4, 5
_LEAVES = 10_000
"""Units of a leaf."""

Choice = tuple[str, Sequence[str], Sequence[int]]
"""A kernel's name, its parameters, and a config's values of them."""


def config_of(choice: Choice) -> Config:
    """The config of a choice, in the parameters that its table has."""
    _, names, values = choice
    return Config(dict(zip(names, values, strict=True)))


class SurveyModels(NamedTuple):
    """Models that were fitted to the survey of an element type."""

    configs: Sequence[Fitted] = ()
    correction: Correction | None = None
    """Trees of all configs together; None in a table without any."""


ModelsByType = Mapping[str, SurveyModels]
"""Models, by the element type of A and B."""

_Problems = list[list[Any]]
"""Rows of a case: sizes of each problem, and behind them its measurements."""


@dataclass(frozen=True)
class Table:
    """Measurements on one GPU, and the models fitted to its survey."""

    gpu: str
    """The name that its driver gives it."""
    capability: tuple[int, int]
    models: Mapping[str, Sequence[Sequence[Any]]] = field(default_factory=dict)
    """By element type of A and B: choice, blocks of a multiprocessor, coefficients. See `fitted`."""
    trees: Mapping[str, Sequence[Sequence[Any]]] = field(default_factory=dict)
    """By element type: features, thresholds and leaves of each tree."""
    runs: Sequence[tuple[str | None, bool]] = ()
    """Revision of the source that was measured, and whether runs after other work were."""
    choices: Sequence[Choice] = ()
    cases: Mapping[str, _Problems] = field(default_factory=dict)

    @classmethod
    def of(
        cls, gpu: str, capability: tuple[int, int], entries: Iterable[Entry] = (), models: ModelsByType | None = None
    ) -> "Table":
        """A table of entries: by case, work and problem, the best first."""
        kept = sorted(entries, key=lambda entry: (entry.case, entry.work, entry.problem, -entry.gflops))
        fitted = [(dtype, one) for dtype, several in (models or {}).items() for one in several.configs]
        measured = {_choice(entry.kernel, entry.config) for entry in kept}
        configs = sorted(measured | {_choice(one.kernel.name, one.config) for _, one in fitted})
        choices = {config: number for number, config in enumerate(configs)}
        runs: dict[tuple[str | None, bool], int] = {}
        cases: dict[str, _Problems] = {}
        for entry in kept:
            problems = cases.setdefault(entry.case, [])
            sizes = [entry.m, entry.n, entry.k, entry.batch]
            if not problems or problems[-1][:4] != sizes:
                problems.append(sizes)
            numbers = map(_rounded, (entry.gflops, entry.baseline_gflops, entry.error_ratio))
            run = runs.setdefault((entry.revision, entry.after_other_work), len(runs))
            problems[-1].append([choices[_choice(entry.kernel, entry.config)], *numbers, run])
        numbered: dict[str, list[Any]] = {dtype: [] for dtype in models or ()}
        for dtype, (kernel, config, (together, coefficients)) in fitted:
            numbered[dtype].append([choices[_choice(kernel.name, config)], together, list(coefficients)])
        trees = {dtype: _trees(one.correction) for dtype, one in (models or {}).items() if one.correction}
        return cls(gpu, capability, numbered, trees, list(runs), configs, cases)

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
        parts = [f"{_json(name)}:{_json(value)}" for name, value in head.items()]
        for name, by_type in (("models", self.models), ("trees", self.trees)):
            if by_type:
                lines = ",\n".join(f"{_json(dtype)}:[\n{_lines(one)}]" for dtype, one in by_type.items())
                parts.append(f'"{name}":{{\n{lines}}}')
        parts.append(f'"kernels":[\n{_lines(kernels)}]')
        cases = ",\n".join(f"{_json(case)}:[\n{_lines(problems)}]" for case, problems in self.cases.items())
        parts.append(f'"cases":{{\n{cases}}}')
        save(path, f"{{{', '.join(parts)}}}\n".encode(), f"the table {path}")

    def fitted(self, dtype: str) -> SurveyModels:
        """The models for factors of a type, of configs that kernels have today."""
        found = []
        for number, together, coefficients in self.models.get(dtype, ()):
            name = self.choices[number][0]
            if (config := recorded(name, config_of(self.choices[number]))) is not None:
                found.append(Fitted(find(name), config, ConfigModel(together, tuple(coefficients))))
        if not (trees := self.trees.get(dtype)):
            return SurveyModels(found)
        features, thresholds, leaves = map(np.array, zip(*trees, strict=True))
        return SurveyModels(found, Correction(features.T, thresholds.T, leaves / _LEAVES))

    @property
    def _fitted(self) -> dict[str, SurveyModels]:
        return {dtype: self.fitted(dtype) for dtype in self.models}

    def of_today(self) -> "Table":
        """This table in the parameters that kernels have now, without kernels and configs that no longer exist."""
        now = [recorded(choice[0], config_of(choice)) for choice in self.choices]
        return Table.of(self.gpu, self.capability, self._entries_with(now), self._fitted)

    def merged(self, entries: Iterable[Entry], models: ModelsByType | None = None) -> "Table":
        """This table with newer entries, in the parameters of now: see `best_of_kernels`; and with newer models."""
        kept = best_of_kernels((*self.of_today().entries, *entries))
        return Table.of(self.gpu, self.capability, kept, {**self._fitted, **(models or {})})

    def measured(self, problem: Problem, addresses: Addresses = Addresses()) -> Iterator[Entry]:
        """Entries of a problem, or else on the one of a type that takes the same time; bias and activation,
        and gaps between lines that do not change their alignment, do not matter."""
        sizes = problem.m, problem.n, problem.k, problem.batch
        if sizes not in self._rows:
            return
        for case in same_speed_cases(timed_case(problem)):
            if rows := self._rows[sizes].get(case):
                dense = problem_of(*sizes[:3], case, problem.batch)
                if ProblemSizes.of(problem, addresses).unaligned == ProblemSizes.of(dense).unaligned:
                    for text, row in rows:
                        yield from self._entries_of(text, row)
                return

    @cached_property
    def _rows(self) -> dict[tuple[int, ...], dict[str, list[tuple[str, list[Any]]]]]:
        """By sizes and case without epilogue, a problem's rows, and the cases that they are of."""
        found: dict[tuple[int, ...], dict[str, list[tuple[str, list[Any]]]]] = {}
        for case, rows in self.cases.items():
            for row in rows:
                by_case = found.setdefault(tuple(row[:_SIZES]), {})
                by_case.setdefault(same_speed_cases(case)[0], []).append((case, row))
        return found

    def entries_of(self, case: str) -> Iterator[Entry]:
        """Entries of the problems of a case and of that of a type that takes the same time."""
        for one in same_speed_cases(case):
            for by_case in self._rows.values():
                for text, row in by_case.get(one, ()):
                    yield from self._entries_of(text, row)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All measurements, one by one."""
        return tuple(self._entries_with([dict(config_of(choice)) for choice in self.choices]))

    def _entries_with(self, configs: Sequence[Mapping[str, int] | None]) -> Iterator[Entry]:
        """The measurements of all choices but those without a config here."""
        return (
            entry for case, rows in self.cases.items() for row in rows for entry in self._entries_of(case, row, configs)
        )

    def _entries_of(
        self, case: str, row: list[Any], configs: Sequence[Mapping[str, int] | None] = ()
    ) -> Iterator[Entry]:
        """The measurements of a problem; configs: of choices, where they are not this table's own."""
        m, n, k, batch, *measured = row
        for choice, gflops, baseline, error, run in measured:
            config = configs[choice] if configs else dict(config_of(self.choices[choice]))
            if config is not None:
                kernel, (revision, after_other_work) = self.choices[choice][0], self.runs[run]
                yield Entry(m, n, k, case, kernel, config, gflops, baseline, error, revision, after_other_work, batch)


def _read(facts: Any) -> Table:
    """The table that a file's JSON holds.

    Raises:
        ValueError, TypeError, KeyError, IndexError, AttributeError: it holds none, or numbers that are out of range.
    """
    if not isinstance(facts, dict):
        raise ValueError("it is no JSON object")
    gpu, (major, minor) = facts["gpu"], facts["capability"]
    if not (isinstance(gpu, str) and type(major) is type(minor) is int):
        raise ValueError(f"gpu, capability: must be a name and two integers, got {gpu!r}, {facts['capability']!r}")
    if facts["format"] != FORMAT:
        raise ValueError(f"format: got {facts['format']!r}")
    choices = [(kernel, tuple(names), tuple(one)) for kernel, names, *configs in facts["kernels"] for one in configs]
    runs = [(revision, after_other_work) for revision, after_other_work in facts["runs"]]
    models, trees = facts.get("models", {}), facts.get("trees", {})
    table = Table(gpu, (major, minor), models, trees, runs, choices, facts["cases"])
    for kernel, names, values in choices:
        if not (isinstance(kernel, str) and len(names) == len(values)):
            raise ValueError(f"kernels must have a name, and values for all parameters, got {kernel!r}")
    for number, together, coefficients in (one for several in table.models.values() for one in several):
        low, high = min(together, *coefficients), max(together, *coefficients)
        if not (len(coefficients) == len(TERMS) and 0 <= low <= high < math.inf and 0 <= number < len(choices)):
            raise ValueError(f"models must be of a choice and have {len(TERMS)} coefficients, at least 0")
    for features, thresholds, leaves in (one for several in trees.values() for one in several):
        known = len(features) == len(thresholds) == DEPTH and len(leaves) == 2**DEPTH
        if not (known and 0 <= min(features) <= max(features) < FEATURES and np.isfinite([*thresholds, *leaves]).all()):
            raise ValueError(
                f"trees must have {DEPTH} of {FEATURES} features, as many thresholds, and {2**DEPTH} leaves"
            )
    for case in table.cases:
        if not _CASE.fullmatch(case):
            raise ValueError(f"a case must read LAYOUT TYPE [EPILOGUE], as in 'NT float32 bias+gelu', got {case!r}")
    rows = [row for problems in table.cases.values() for row in problems]
    sizes = np.array([row[:_SIZES] for row in rows], np.int64).reshape(len(rows), _SIZES)
    cells = np.array([cell for row in rows for cell in row[_SIZES:]], np.float64).reshape(-1, _NUMBERS)
    choice, gflops, baseline, error, run = cells.T
    speeds = np.concatenate((gflops, baseline[~np.isnan(baseline)]))
    if not (np.isfinite(speeds) & (speeds > 0)).all() or (error < 0).any() or (sizes < 0).any():
        raise ValueError("sizes must be at least 0, and speeds above it")
    for name, numbers, count in (("choice", choice, len(choices)), ("run", run, len(runs))):
        if not ((numbers >= 0) & (numbers < count)).all():
            raise ValueError(f"a {name} must be one of {count}")
    return table


def _choice(kernel: str, config: Mapping[str, int]) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
    return kernel, tuple(config), tuple(config.values())


def _trees(correction: Correction) -> list[list[Any]]:
    leaves = np.round(correction.leaves * _LEAVES).astype(int)
    parts = correction.features.T, correction.thresholds.T, leaves
    return [list(tree) for tree in zip(*(part.tolist() for part in parts), strict=True)]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _lines(values: Iterable[Any]) -> str:
    return ",\n".join(map(_json, values))


def file_name(gpu: str) -> str:
    """The file name of a GPU's table: 'NVIDIA H200' has nvidia_h200.json."""
    return re.sub(r"[^a-z0-9]+", "_", gpu.lower()).strip("_") + ".json"
