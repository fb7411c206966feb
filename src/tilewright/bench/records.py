"""Records of measurements, and the JSON files that hold them."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from tilewright.errors import RecordsError
from tilewright.files import save_json


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Times(_Model):
    """Microseconds a run, over the samples."""

    min: float
    median: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> "Times":
        """Sum up samples, microseconds each."""
        return cls(min=min(samples), median=statistics.median(samples))


class LaunchedKernel(_Model):
    """A kernel that a library launched: its name in C++, and its grid and block along x, y and z."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]


class Baseline(_Model):
    """What was timed beside the kernel, in the same run, on the same problem."""

    name: str
    version: str
    time_us: Times
    gflops: float
    kernels: list[LaunchedKernel] | None = None
    """What one run of it launches on the GPU, in order: several where k is split and summed up. None where that was not
    asked for, empty where it runs on no GPU."""
    error: float | None = None
    """Relative Frobenius error of its result against float64. None where beta is not 0, or the result not finite."""


class Error(_Model):
    """Relative Frobenius error against float64, and the largest that counts as right."""

    relative_frobenius: float | None
    """None where the result holds NaN or infinity."""
    limit: float


class Record(_Model):
    """One measurement of one kernel with one config on one problem."""

    kernel: str
    rung: int
    config: dict[str, int]
    m: int
    n: int
    k: int
    alpha: float = 1.0
    beta: float = 0.0
    dtype: str
    engine: str
    time_us: Times
    gflops: float
    baseline: Baseline | None
    ratio: float | None
    """The kernel's speed over the baseline's, from the medians."""
    error: Error
    verified: bool
    picked: str | None = None
    """The kernel that the selector picked, where `kernel` is 'best'."""
    precision: str | None = None
    """What kernel and baseline round factors to, as 'tf32'; None where they take them as they come."""

    @property
    def error_ratio(self) -> float | None:
        """The kernel's error over the baseline's on the same operands; None where one of them is not known."""
        ours, theirs = self.error.relative_frobenius, self.baseline and self.baseline.error
        return ours / theirs if ours is not None and theirs else None

    @property
    def shape(self) -> str:
        """The sizes as text: 'MxNxK'."""
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def arithmetic(self) -> str:
        """What factors are multiplied in: their element type, or what they are rounded to."""
        return self.precision or self.dtype


class Run(_Model):
    """What one bench run measured, and where."""

    environment: dict[str, Any]
    records: list[Record]

    @property
    def verified(self) -> bool:
        """Whether every result was right."""
        return all(record.verified for record in self.records)

    def save(self, path: Path) -> None:
        """Write the run as JSON. The file appears whole or not at all.

        Raises:
            RecordsError: the file cannot be written.
        """
        save_json(path, self.model_dump(), f"the records to {path}")

    @classmethod
    def load(cls, path: Path) -> "Run":
        """Read a run back.

        Raises:
            RecordsError: the file cannot be read, or is not a file of records; the message says what is wrong.
        """
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise RecordsError(f"cannot read the records in {path}: {error.strerror}") from error
        except (ValidationError, UnicodeDecodeError) as error:
            raise RecordsError(f"{path} is not a file of records: {error}") from error
