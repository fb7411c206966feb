"""The format of tuned tables: one file a GPU, versioned, checked as it is read, written whole or not at all."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tilewright.errors import KernelNotFoundError, RecordsError
from tilewright.files import faults, json_kind, save
from tilewright.kernels import find, orders
from tilewright.kernels.old_configs import completed, upgraded
from tilewright.kernels.spec import PROMISES, Kernel
from tilewright.problem import Problem
from tilewright.tables.cases import timed_case
from tilewright.tables.cover import does_for, fewest

FORMAT = 2
"""Version of the format that is written. Files of format 1, all of row-major float32 results, are read too."""

KEEP_WITHIN = 1.5
"""A table keeps what is at most this many times slower than the fastest on its problem, of each kernel's best, which
serve operands that the fastest cannot take, and of the few configs that cover all problems, to show how each does
where."""

KEEP_NEAR = 1.05
"""The same of all other configs."""

ACCURATE_WITHIN = 1.5
"""How many times cuBLAS's error a kernel may err, to be preferred. Where cuBLAS splits k, its sums are shorter ones."""


KIND = json_kind("a tuned table", "format", "gpu", "entries")

_Problem = tuple[int, int, int, int, str]
_Choice = tuple[str, tuple[tuple[str, int], ...]]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class _Measured(_Model):
    m: int = Field(ge=0)
    n: int = Field(ge=0)
    k: int = Field(ge=0)
    kernel: str
    config: dict[str, int]
    gflops: float = Field(gt=0)
    """By `Timed.usual_us`: of runs back to back and of runs after other work, where both were measured."""
    baseline_gflops: float | None = Field(default=None, gt=0)
    """cuBLAS's likewise, in the same run: in TF32 next to kernels that round to it."""
    error_ratio: float | None = Field(default=None, ge=0)
    """Its error over cuBLAS's, against float64 on the same operands."""
    revision: str | None = None
    """Revision of the source that was measured."""
    apart: bool = False
    """Whether runs after other work were measured."""


class Entry(_Measured):
    """One kernel with one config, measured on one problem."""

    batch: int = Field(default=1, ge=0)
    case: str = Field(pattern=r"^[NT]{2} \w+(->\w+)?( [\w+]+)?$")
    """Orders, element types and epilogue, as `timed_case` has them."""

    def completed(self) -> "Entry":
        """The same, parameters that came after it at their defaults, where a kernel still has such a config."""
        config = completed(self.kernel, self.config)
        return self if config == self.config else self.model_copy(update={"config": config})

    @property
    def problem(self) -> _Problem:
        """What was computed: m, n, k, batch and case."""
        return self.m, self.n, self.k, self.batch, self.case

    @property
    def dtype(self) -> str:
        """Element type of the factors."""
        return self.case.split(" ")[1].partition("->")[0]

    @property
    def work(self) -> int:
        """Multiply-adds."""
        return self.batch * self.m * self.n * self.k

    @property
    def accurate(self) -> bool:
        """Whether its error is known to be at most `ACCURATE_WITHIN` times cuBLAS's, or not known at all.

        A kernel that keeps less than float32's promise counts as accurate: it is picked only where that is asked for.
        """
        return self.error_ratio is None or self.error_ratio <= ACCURATE_WITHIN or not self.keeps(None)

    def keeps(self, promise: str | None) -> bool:
        """Whether its kernel keeps what a problem promises: `Kernel.keeps`. One that no longer exists does."""
        return promise in _kept_by(self.kernel)

    def adds_in(self, order: str | None) -> bool:
        """Whether its config has an order of sums, `Kernel.sum_order`; every one has where that is None."""
        return order is None or _order_of(self.kernel, tuple(self.config.items())) == order

    @property
    def precision(self) -> str | None:
        """What its kernel keeps of float32, `Kernel.precision`; None of one that no longer exists."""
        return _precision(self.kernel)

    @property
    def rounds(self) -> bool:
        """Whether its kernel rounds factors to TF32, as the baseline then does too."""
        return self.precision == "tf32"

    @property
    def time_us(self) -> float:
        """Microseconds of a run."""
        return 2 * self.work / self.gflops / 1e3

    @property
    def shape(self) -> str:
        """The sizes, as 'MxNxK'; of a batch, '8 of MxNxK'."""
        sizes = f"{self.m}x{self.n}x{self.k}"
        return sizes if self.batch == 1 else f"{self.batch} of {sizes}"

    @property
    def choice(self) -> _Choice:
        """Kernel and config."""
        return self.kernel, tuple(sorted(self.config.items()))

    @property
    def identity(self) -> tuple[object, ...]:
        """What a newer entry replaces: problem, kernel and config."""
        return (*self.problem, *self.choice)


class Table(_Model):
    """What was measured on one GPU."""

    format: Literal[2] = 2
    gpu: str
    """The name that its driver gives it."""
    capability: tuple[int, int]
    entries: tuple[Entry, ...]

    @classmethod
    def load(cls, path: Path) -> "Table":
        """Read a table.

        Raises:
            RecordsError: the file cannot be read, or is not a table of these formats; the message says what is wrong.
        """
        try:
            found = _FORMATS.validate_json(path.read_text(encoding="utf-8"))
            if isinstance(found, _OldTable):
                return found.upgraded()
            return found.model_copy(update={"entries": tuple(entry.completed() for entry in found.entries)})
        except OSError as error:
            raise RecordsError(f"cannot read the table {path}: {error.strerror}") from error
        except (ValidationError, UnicodeDecodeError) as error:
            raise RecordsError(f"{path} is not a table of format 1 or {FORMAT}: {faults(error)}") from error

    def save(self, path: Path) -> None:
        """Write the table, an entry a line. The file appears whole or not at all.

        Raises:
            RecordsError: the file cannot be written.
        """
        head = self.model_dump_json(exclude={"entries"})[:-1]
        lines = ",\n".join(f"  {entry.model_dump_json()}" for entry in self.entries)
        save(path, f'{head},"entries":[\n{lines}\n]}}\n'.encode(), f"the table {path}")

    def holds(self, problem: Problem) -> bool:
        """Whether there are entries of a problem's sizes, batch and case."""
        wanted = (problem.m, problem.n, problem.k, problem.batch, timed_case(problem))
        return any(entry.problem == wanted for entry in self.entries)

    def merged(self, entries: Iterable[Entry]) -> "Table":
        """This table with newer entries: each replaces the one of its problem, kernel and config.

        What is slower than `KEEP_WITHIN` or `KEEP_NEAR` times the fastest on its problem is left out, unless that is
        of a kernel which may not be picked where a stricter precision is asked for, adds in another order than
        batch-invariant products do, or splits factors first, which takes no time of a product whose b is prepared.
        """
        by_identity = {entry.identity: entry for entry in (*self.entries, *entries)}
        ranked = sorted(by_identity.values(), key=_rank)
        kernels = {entry.kernel for entry in ranked}
        keeping = dict.fromkeys(frozenset(name for name in kernels if one in _kept_by(name)) for one in PROMISES)
        keeping |= dict.fromkeys(frozenset(filter(_splits, names)) for names in keeping)
        near = [_near_the_fastest([entry for entry in ranked if entry.kernel in names]) for names in keeping]
        near += [_near_the_fastest([entry for entry in ranked if entry.adds_in(order)]) for order in orders.ALL]
        kept = list({entry.identity: entry for some in near for entry in some}.values())
        kept.sort(key=lambda entry: (entry.case, entry.work, entry.problem, -entry.gflops))
        return self.model_copy(update={"entries": tuple(kept)})


@lru_cache
def _kept_by(kernel: str) -> tuple[str | None, ...]:
    """The promises that a kernel keeps; all of them where there is no such kernel any more."""
    found = _found(kernel)
    return tuple(promise for promise in PROMISES if found is None or found.keeps(promise))


@lru_cache(maxsize=4096)
def _order_of(kernel: str, config: tuple[tuple[str, int], ...]) -> str | None:
    """A config's order of sums; None where it has none, or there is no such kernel or config any more."""
    now, found = upgraded(kernel, dict(config)), _found(kernel)
    return None if now is None or found is None else found.sum_order(now)


def _splits(kernel: str) -> bool:
    found = _found(kernel)
    return found is not None and found.splits


def _precision(kernel: str) -> str | None:
    found = _found(kernel)
    return None if found is None else found.precision


@lru_cache
def _found(kernel: str) -> Kernel | None:
    """None where there is no such kernel any more."""
    try:
        return find(kernel)
    except KernelNotFoundError:
        return None


def _near_the_fastest(ranked: Sequence[Entry]) -> list[Entry]:
    """Those of entries, the best first, that are not much slower than the fastest on their problem."""
    best = best_by_problem(ranked)
    firsts: dict[tuple[_Problem, str], Entry] = {}
    for entry in ranked:
        firsts.setdefault((entry.problem, entry.kernel), entry)
    useful = set(fewest(does_for((entry.problem, entry.choice, entry.accurate, entry.time_us) for entry in ranked)))

    def within(entry: Entry) -> float:
        first = firsts[entry.problem, entry.kernel] is entry
        return KEEP_WITHIN if first or entry.choice in useful else KEEP_NEAR

    return [entry for entry in ranked if entry.gflops * within(entry) >= best[entry.problem].gflops]


class _OldEntry(_Measured):
    dtype: str


class _OldTable(_Model):
    """A table of format 1."""

    format: Literal[1]
    gpu: str
    capability: tuple[int, int]
    entries: tuple[_OldEntry, ...]

    def upgraded(self) -> Table:
        """The same in format 2, without configs that no longer exist; of those that are one now, the faster."""
        kept: dict[object, Entry] = {}
        for old in sorted(self.entries, key=lambda entry: entry.gflops):
            if (config := upgraded(old.kernel, old.config)) is not None:
                fields = old.model_dump(exclude={"dtype", "config"})
                entry = Entry(**fields, case=f"NN {old.dtype}", config=dict(config))
                kept[entry.identity] = entry
        return Table(gpu=self.gpu, capability=self.capability, entries=()).merged(kept.values())


_FORMATS: TypeAdapter[Table | _OldTable] = TypeAdapter(Annotated[Table | _OldTable, Field(discriminator="format")])


def best_by_problem(entries: Iterable[Entry]) -> dict[_Problem, Entry]:
    """Of each problem the fastest entry, of those that err little if some do."""
    best: dict[_Problem, Entry] = {}
    for entry in sorted(entries, key=_rank):
        best.setdefault(entry.problem, entry)
    return best


def _rank(entry: Entry) -> tuple[bool, float]:
    return not entry.accurate, -entry.gflops


def file_name(gpu: str) -> str:
    """What the table of a GPU is called: 'NVIDIA H200' has nvidia_h200.json."""
    return re.sub(r"[^a-z0-9]+", "_", gpu.lower()).strip("_") + ".json"
