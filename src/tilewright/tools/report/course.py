"""How fast the rungs of the course were on a GPU: a file of the package, for where there is none.

`make docs` makes it of the committed records.
"""

from functools import lru_cache
from pathlib import Path

from tilewright.core.gpus import capability_of
from tilewright.tools.bench.records import Facts

FILE = Path(__file__).with_suffix(".json")


class RungSpeed(Facts):
    """How fast a rung was on a GPU, next to cuBLAS in the same run and arithmetic."""

    kernel: str
    config: dict[str, int]
    shape: str
    gflops: float
    baseline_gflops: float
    date: str
    """Date of the run, as in 2026-11-21."""
    revision: str
    """Revision of the sources that were measured."""


class Course(Facts):
    """Speeds of the rungs, all measured on one kind of GPU."""

    gpu: str
    """As its driver calls it."""
    compute_capability: str
    shape: str
    """Shape that rungs were measured on; a rung for other problems says on which."""
    rungs: list[RungSpeed]

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability of the GPU."""
        return capability_of(self.compute_capability)

    @property
    def where(self) -> str:
        """The GPU, and when it was measured, as text."""
        dates = sorted({one.date for one in self.rungs})
        return f"{self.gpu}, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}"


@lru_cache
def measured() -> Course:
    """The speeds that the package comes with."""
    return Course.model_validate_json(FILE.read_text(encoding="utf-8"))
