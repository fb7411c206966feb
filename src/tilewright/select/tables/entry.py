"""Entries of tuned tables: one kernel with one config, measured on one problem."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tilewright.core.problem import Shaped
from tilewright.kernels import find
from tilewright.kernels.config import Config

ACCURATE_WITHIN = 1.5
"""How many times cuBLAS's error a kernel may err, to be preferred. Where cuBLAS splits k, its sums are shorter ones."""


@dataclass(frozen=True)
class Entry(Shaped):
    """One kernel with one config, measured on one problem."""

    m: int
    n: int
    k: int
    case: str
    """Orders, element types and epilogue, as `timed_case` has them."""
    kernel: str
    config: Mapping[str, int]
    gflops: float
    """By `Timed.usual_us`: of runs back to back and of runs after other work, where both were measured."""
    baseline_gflops: float | None = None
    """cuBLAS's speed in the same run: in TF32 next to kernels that round to it."""
    error_ratio: float | None = None
    """Its error over cuBLAS's, against float64 on the same operands."""
    revision: str | None = None
    """Revision of the source that was measured."""
    after_other_work: bool = False
    """Whether runs after other work were measured."""
    batch: int = 1

    @property
    def problem(self) -> tuple[int, int, int, int, str]:
        """The problem that was computed: m, n, k, batch and case."""
        return self.m, self.n, self.k, self.batch, self.case

    @property
    def work(self) -> int:
        """Multiply-adds."""
        return self.batch * self.m * self.n * self.k

    @property
    def accurate(self) -> bool:
        """Whether its error is known to be at most `ACCURATE_WITHIN` times cuBLAS's, or not known at all.

        A kernel that keeps less than float32's promise counts as accurate: it is picked only where that is asked for.
        """
        return self.error_ratio is None or self.error_ratio <= ACCURATE_WITHIN or not self.meets(None)

    def meets(self, promise: str | None) -> bool:
        """Whether its kernel keeps what a problem promises: `Kernel.meets`."""
        return find(self.kernel).meets(promise)

    @property
    def order(self) -> str | None:
        """The config's order of sums; None where it has none."""
        return find(self.kernel).sums(Config(self.config)).order

    @property
    def time_us(self) -> float:
        """Microseconds of a run."""
        return 2 * self.work / self.gflops / 1e3

    @property
    def identity(self) -> tuple[object, ...]:
        """Problem, kernel and config: a newer entry with the same ones replaces this one."""
        return *self.problem, self.kernel, Config(self.config)


def rank(entry: Entry) -> tuple[bool, float]:
    """The smallest is the best: what errs little comes before what errs much, then the fastest."""
    return not entry.accurate, -entry.gflops


def best_of_kernels(entries: Iterable[Entry]) -> list[Entry]:
    """The best entry of each problem, kernel and order of sums, and of configs whose consumers take turns (`PINGPONG`)
    and others, since activations cost these alone time; a later one replaces that of its problem and config."""
    by_identity = {entry.identity: entry for entry in entries}
    best: dict[object, Entry] = {}
    for entry in sorted(by_identity.values(), key=rank):
        kind = entry.kernel, entry.order, entry.config.get("PINGPONG")
        best.setdefault((entry.problem, kind), entry)
    return list(best.values())
