"""The file of tuned tables, one a GPU: compact, versioned, checked as it is read, written whole or not at all.

    {"format": 4, "gpu": "NVIDIA H200", "capability": [9, 0],
     "runs": [[revision, whether runs after other work were measured], ...],
     "models": {element type: ["choice, blocks of a multiprocessor, coefficients", ...]},
     "trees": {element type: ["features, thresholds, leaves in 1/10000", ...]},
     "kernels": [[name, [parameter, ...], [config's values, ...], ...], ...],
     "cases": {"NN float32": ["m n k batch|choice GFLOP/s cuBLAS's error-over-cuBLAS's run|...", ...], ...}}

A choice numbers the configs of all kernels, in the order of the file. Parameters that a kernel got later have their
defaults, and configs that no kernel has any more are left out. A line stands for what was not measured. Numbers
have five digits: two measurements of one thing differ by more. Models are those of `select.model`, of what a survey
measured. Problems, models and trees are texts of numbers with spaces between
them, of which a process reads those that it asks for: the first product waits for a table.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tilewright.core.errors import RecordsError
from tilewright.core.files import json_kind, save
from tilewright.core.problem import Problem
from tilewright.kernels import find, recorded
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Addresses
from tilewright.select.model import FEATURES, TERMS, Fitted, Floats, ProblemSizes
from tilewright.select.tables.cases import problem_of, same_speed_cases, timed_case
from tilewright.select.tables.entry import ACCURATE_WITHIN, Entry, best_of_kernels
from tilewright.select.trees import DEPTH, Correction

FORMAT = 4
"""Version of the format, the only one that is read."""

KIND = json_kind("a tuned table", "format", "gpu")

_CASE = re.compile(r"[NT]{2} \w+(->\w+)?( [\w+]+)?")
_DIGITS = 5
_SIZES, _NUMBERS = 4, 5
_UNKNOWN = "-"
_LEAVES = 10_000
"""Units of a leaf."""

Choice = tuple[str, tuple[str, ...], tuple[int, ...]]
"""A kernel's name, its parameters, and a config's values of them."""


@lru_cache(maxsize=4096)
def config_of(choice: Choice) -> Config | None:
    """The config of a choice, parameters that came later at their defaults; None where it no longer exists."""
    kernel, names, values = choice
    return recorded(kernel, dict(zip(names, values, strict=True)))


class SurveyModels(NamedTuple):
    """Models that were fitted to the survey of an element type."""

    configs: Sequence[Fitted] = ()
    correction: Correction | None = None
    """Trees of all configs together; None in a table without any."""

    @property
    def choices(self) -> set[tuple[Kernel, Config]]:
        """The configs, each with its kernel."""
        return {(one.kernel, one.config) for one in self.configs}


ModelsByType = Mapping[str, SurveyModels]
"""Models, by the element type of A and B."""


@dataclass(frozen=True)
class Table:
    """Measurements on one GPU, and the models fitted to its survey."""

    gpu: str
    """The name that its driver gives it."""
    capability: tuple[int, int]
    models: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By element type of A and B: choice, blocks of a multiprocessor, coefficients."""
    trees: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By element type: features, thresholds and leaves of each tree."""
    runs: Sequence[tuple[str | None, bool]] = ()
    """Revision of the source that was measured, and whether runs after other work were."""
    choices: Sequence[Choice] = ()
    cases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By case: sizes of each problem, and behind them its measurements."""

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
        cases: dict[str, dict[str, list[str]]] = {}
        for entry in kept:
            sizes = f"{entry.m} {entry.n} {entry.k} {entry.batch}"
            choice, speeds = choices[_choice(entry.kernel, entry.config)], (entry.gflops, entry.baseline_gflops)
            run = runs.setdefault((entry.revision, entry.after_other_work), len(runs))
            cells = cases.setdefault(entry.case, {}).setdefault(sizes, [sizes])
            cells.append(_line(choice, *speeds, entry.error_ratio, run))
        numbered: dict[str, list[str]] = {dtype: [] for dtype in models or ()}
        for dtype, (kernel, config, together, coefficients) in fitted:
            numbered[dtype].append(_line(choices[_choice(kernel.name, config)], together, *coefficients))
        trees = {dtype: _trees(one.correction) for dtype, one in (models or {}).items() if one.correction}
        lines = {case: list(map("|".join, by_sizes.values())) for case, by_sizes in cases.items()}
        return cls(gpu, capability, numbered, trees, list(runs), configs, lines)

    @classmethod
    def load(cls, path: Path, *, checked: bool = True) -> "Table":
        """Read a table. Without a check, as those that ship are read, texts of numbers may be anything.

        Raises:
            RecordsError: the file cannot be read, or is no table of this format; the message says what is wrong.
        """
        try:
            table = _read(json.loads(path.read_bytes()))
            if checked:
                _check(table)
            return table
        except OSError as error:
            raise RecordsError(f"cannot read the table {path}: {error.strerror}") from error
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
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
        lists = {"models": self.models, "trees": self.trees, "kernels": kernels, "cases": self.cases}
        parts += [f"{_json(name)}:{_lines(value)}" for name, value in lists.items()]
        save(path, f"{{{', '.join(parts)}}}\n".encode(), f"the table {path}")

    @cached_property
    def fitted(self) -> ModelsByType:
        """The models for factors of each type, of configs that kernels have today."""
        return {dtype: self._fitted(dtype) for dtype in self.models}

    def _fitted(self, dtype: str) -> SurveyModels:
        found = []
        for line in self.models[dtype]:
            number, together, *coefficients = map(float, line.split())
            choice = self.choices[int(number)]
            if (config := config_of(choice)) is not None:
                found.append(Fitted(find(choice[0]), config, together, tuple(coefficients)))
        if not (trees := self.trees.get(dtype)):
            return SurveyModels(found)
        features, thresholds, leaves = np.split(_numbers(trees), (DEPTH, 2 * DEPTH), axis=1)
        return SurveyModels(found, Correction(features.T.astype(np.int64), thresholds.T, leaves / _LEAVES))

    def merged(self, entries: Iterable[Entry], models: ModelsByType | None = None) -> "Table":
        """This table with newer entries, in the parameters of now: see `best_of_kernels`; and with newer models."""
        kept = best_of_kernels((*self.entries, *entries))
        return Table.of(self.gpu, self.capability, kept, {**self.fitted, **(models or {})})

    def measured(self, problem: Problem, addresses: Addresses = Addresses()) -> Iterator[Entry]:
        """Entries of a problem, or else on the one of a type that takes the same time; bias and activation,
        and gaps between lines that do not change their alignment, do not matter."""
        lines = self._lines.get(f"{problem.m} {problem.n} {problem.k} {problem.batch}", ())
        for case in same_speed_cases(timed_case(problem)) if lines else ():
            if found := [line for same, *line in lines if same == case]:
                dense = problem_of(problem.m, problem.n, problem.k, case, problem.batch)
                if ProblemSizes.of(problem, addresses).unaligned == ProblemSizes.of(dense).unaligned:
                    yield from self._entries_of(found)
                return

    def best_of(self, case: str, kernels: Callable[[str], bool], order: str | None) -> Iterator[Entry]:
        """The best entry, by `rank`, of each problem of a case and of that of a type that takes the same time: of
        kernels that exist and count, with an order of sums if one is given, measured next to cuBLAS.

        No other entries are made than have to be: a model's first step waits for this."""
        wanted = {str(number): choice[0] for number, choice in enumerate(self.choices) if kernels(choice[0])}

        def ranked(cell: Sequence[str]) -> tuple[bool, float]:
            errs = cell[3] != _UNKNOWN and float(cell[3]) > ACCURATE_WITHIN
            return errs and find(wanted[cell[0]]).meets(None), -float(cell[1])

        lines = [line for of_sizes in self._lines.values() for line in of_sizes]
        for of, line in (line for one in same_speed_cases(case) for same, *line in lines if same == one):
            sizes, *texts = line.split("|")
            cells = [cell for cell in map(str.split, texts) if cell[0] in wanted and cell[2] != _UNKNOWN]
            entries = self._entries_of((of, f"{sizes}|{' '.join(cell)}") for cell in sorted(cells, key=ranked))
            yield from islice((one for one in entries if order is None or one.order == order), 1)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All measurements, one by one, in the parameters that kernels have now, without configs that are gone."""
        return tuple(self._entries_of((case, line) for case, lines in self.cases.items() for line in lines))

    @cached_property
    def _lines(self) -> dict[str, list[tuple[str, str, str]]]:
        """By sizes, problems' lines after the case whose products take the same time, and their own."""
        found: dict[str, list[tuple[str, str, str]]] = {}
        for case, lines in self.cases.items():
            same = same_speed_cases(case)[0]
            for line in lines:
                found.setdefault(line.partition("|")[0], []).append((same, case, line))
        return found

    def _entries_of(self, problems: Iterable[Sequence[str]]) -> Iterator[Entry]:
        """The measurements of problems, each given by its case and its line."""
        for case, line in problems:
            sizes, *cells = line.split("|")
            m, n, k, batch = map(int, sizes.split())
            for cell in cells:
                number, gflops, *others, run = cell.split()
                choice = self.choices[int(number)]
                if (config := config_of(choice)) is not None:
                    revision, after_other_work = self.runs[int(run)]
                    baseline, error = (None if one == _UNKNOWN else float(one) for one in others)
                    speeds = float(gflops), baseline, error
                    yield Entry(m, n, k, case, choice[0], config, *speeds, revision, after_other_work, batch)


def _read(facts: Any) -> Table:
    """The table that a file's JSON holds.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: it holds none.
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
    return Table(gpu, (major, minor), facts.get("models", {}), facts.get("trees", {}), runs, choices, facts["cases"])


def _check(table: Table) -> None:
    """Read all numbers of a table.

    Raises:
        ValueError, TypeError, AttributeError: some are none, or out of range.
    """
    count = len(table.choices)
    for kernel, names, values in table.choices:
        kinds = {str: (kernel, *names), int: values}
        if len(names) != len(values) or not all(isinstance(one, kind) for kind in kinds for one in kinds[kind]):
            raise ValueError(f"kernels must have a name, and integers for all parameters, got {kernel!r}")
    for lines in filter(None, table.models.values()):
        numbers = _numbers(lines)
        known = numbers.shape[1] == 2 + len(TERMS) and np.isfinite(numbers).all()
        if not (known and numbers.min() >= 0 and numbers[:, 0].max() < count):
            raise ValueError(f"models must be of a choice and have {len(TERMS)} coefficients, at least 0")
    for lines in filter(None, table.trees.values()):
        numbers, length = _numbers(lines), 2 * DEPTH + 2**DEPTH
        features = numbers[:, :DEPTH]
        known = numbers.shape[1] == length and np.isfinite(numbers).all()
        if not (known and 0 <= features.min() <= features.max() < FEATURES):
            raise ValueError(f"trees must ask {DEPTH} times for one of {FEATURES} features, and have {2**DEPTH} leaves")
    for case in table.cases:
        if not _CASE.fullmatch(case):
            raise ValueError(f"a case must read LAYOUT TYPE [EPILOGUE], as in 'NN float32 bias+gelu', got {case!r}")
    rows = [line.split("|") for lines in table.cases.values() for line in lines]
    sizes = np.array([list(map(int, row[0].split())) for row in rows], np.int64).reshape(len(rows), _SIZES)
    cells = _numbers([cell for row in rows for cell in row[1:]]).reshape(-1, _NUMBERS)
    choice, gflops, baseline, error, run = cells.T
    speeds = np.concatenate((gflops, baseline[~np.isnan(baseline)]))
    if not (np.isfinite(speeds) & (speeds > 0)).all() or (error < 0).any() or (sizes < 0).any():
        raise ValueError("sizes must be at least 0, and speeds above it")
    for name, numbers, most in (("choice", choice, count), ("run", run, len(table.runs))):
        if not ((numbers >= 0) & (numbers < most) & (numbers % 1 == 0)).all():
            raise ValueError(f"a {name} must be one of {most}")


def _choice(kernel: str, config: Mapping[str, int]) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
    return kernel, tuple(config), tuple(config.values())


def _numbers(lines: Iterable[str]) -> Floats:
    return np.array([[math.nan if one == _UNKNOWN else float(one) for one in line.split()] for line in lines])


def _trees(correction: Correction) -> list[str]:
    leaves = np.round(correction.leaves * _LEAVES).astype(int)
    parts = correction.features.T.tolist(), correction.thresholds.T.tolist(), leaves.tolist()
    return [_line(*features, *thresholds, *of_tree) for features, thresholds, of_tree in zip(*parts, strict=True)]


def _line(*numbers: float | None) -> str:
    return " ".join(_UNKNOWN if one is None else f"{one:.{_DIGITS}g}" for one in numbers)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _lines(value: Any) -> str:
    """JSON with an element of each list a line, in lists alone or by name."""
    if isinstance(value, Mapping):
        return "{\n" + ",\n".join(f"{_json(name)}:{_lines(one)}" for name, one in value.items()) + "}"
    return "[\n" + ",\n".join(map(_json, value)) + "]"


def file_name(gpu: str) -> str:
    """The file name of a GPU's table: 'NVIDIA H200' has nvidia_h200.json."""
    return re.sub(r"[^a-z0-9]+", "_", gpu.lower()).strip("_") + ".json"
