"""Records of measurements, and the JSON files that hold them."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from tilewright.core.errors import RecordsError
from tilewright.core.files import FileKind, faults, json_kind, save_json
from tilewright.core.gpus import Gpu, capability_of, find_gpu
from tilewright.core.old_words import keys_today
from tilewright.core.problem import Arithmetic, Epilogue, Problem, Scaling, Shaped, Side, orders
from tilewright.kernels.support import PART_PRECISIONS

if TYPE_CHECKING:
    from typing_extensions import Self


FORMAT = 2
"""Version of the format of files. It is raised when a field changes its meaning, not when one is added: fields that are
not known are left out."""


class Facts(BaseModel):
    """Base of all classes that a file of measurements is made of."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _in_words_of_now(cls, facts: Any) -> Any:
        return keys_today(facts, cls.model_fields) if isinstance(facts, dict) else facts


class RunFile(Facts):
    """Results of one run, and the environment that they were measured in."""

    format: int = FORMAT
    environment: dict[str, Any]

    @field_validator("format")
    @classmethod
    def _readable(cls, number: int) -> int:
        if number > FORMAT:
            raise ValueError(f"format {number} is a newer tilewright's: this one reads formats up to {FORMAT}")
        return number

    @property
    def gpu(self) -> Gpu:
        """The GPU of a run whose environment names one."""
        facts = self.environment["gpu"]
        return find_gpu(facts["name"], capability_of(facts["compute_capability"]))

    def save(self, path: Path) -> None:
        """Write the run as JSON. The file appears whole or not at all.

        Raises:
            RecordsError: the file cannot be written.
        """
        save_json(path, self.model_dump(), f"the records to {path}")

    @classmethod
    def kind(cls) -> FileKind:
        """The kind of file that it is written to."""
        required = [name for name, field in cls.model_fields.items() if field.is_required()]
        return json_kind(f"a file of {required[-1]}", *required)

    @classmethod
    def load(cls, path: Path) -> "Self":
        """Read a run back.

        Raises:
            RecordsError: the file cannot be read, or is not a file of such records; the message says what is wrong.
        """
        try:
            run = cls.model_validate_json(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise RecordsError(f"cannot read the records in {path}: {error.strerror}") from error
        except (ValidationError, UnicodeDecodeError) as error:
            raise RecordsError(f"{path} is not a file of records: {faults(error)}") from error
        if "format" not in run.model_fields_set:
            raise RecordsError(f"{path} is not a file of records: it names no format, this one reads {FORMAT}")
        return run


class Times(Facts):
    """Microseconds a run, over the samples."""

    min: float
    median: float
    samples: int | None = None
    """How many there were. None in files from before this was kept, as the next."""
    spread: float | None = None
    """From the first to the third quartile of the samples, over the median; None of a single sample."""

    @classmethod
    def of(cls, samples: Sequence[float]) -> "Times":
        """Sum up samples, microseconds each."""
        median = statistics.median(samples)
        spread = None
        if len(samples) > 1 and median > 0:
            first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
            spread = (third - first) / median
        return cls(min=min(samples), median=median, samples=len(samples), spread=spread)


class Timed(Facts):
    """Times of a kernel or a baseline, microseconds a run."""

    time_us: Times
    """Times of runs back to back, each of which may begin while the one before it ends."""
    after_other_work_us: Times | None = None
    """Times of runs each of which follows other work and begins when that has ended. None on the emulator, and in files
    from before this was measured."""

    @property
    def usual_us(self) -> float:
        """The mean of both medians: what a run takes a caller whose runs follow either as often."""
        after = self.after_other_work_us or self.time_us
        return (self.time_us.median + after.median) / 2


class GpuState(Facts):
    """Readings of a GPU's sensors right after a problem was timed; None for those that are not available."""

    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_w: float | None = None
    """Mean power in the last second."""
    energy_j: float | None = None
    """Energy since the driver was loaded."""
    temperature_c: int | None = None


class LaunchedKernel(Facts):
    """A kernel that a library launched: its name in C++, and its grid and block along x, y and z."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]


class Baseline(Timed):
    """A library's times next to the kernel's, in the same run, on the same problem. Each time is that of the library's
    algorithm that is the fastest by it."""

    name: str
    version: str
    gflops: float
    kernels: list[LaunchedKernel] | None = None
    """Kernels that one run of it launches on the GPU, in order: several where k is split and summed up. None where they
    were not asked for, empty where it runs on no GPU."""
    error: float | None = None
    """Relative Frobenius error of its result against float64. None where beta is not 0, or the result not finite."""


class Error(Facts):
    """Relative Frobenius error against float64, and the largest that counts as right."""

    relative_frobenius: float | None
    """None where the result holds NaN or infinity."""
    limit: float

    def __str__(self) -> str:
        return "NaN" if self.relative_frobenius is None else f"{self.relative_frobenius:.1e}"


class PerCall(Facts):
    """Microseconds a call, of ours and of the framework's own."""

    ours: float
    baseline: float


class EndToEnd(Facts):
    """Times that a caller sees: `tilewright.matmul` and the framework's call on the same tensors, in one run."""

    framework: str
    """Name and version."""
    host_us: PerCall
    """The host's time in a call."""
    wall_us: PerCall
    """Time of a call among calls back to back, the GPU's work included."""


class Result(Shaped, Facts):
    """Result of one kernel with one config on one problem, compared with float64."""

    kernel: str
    rung: int
    config: dict[str, int]
    m: int
    n: int
    k: int
    alpha: float = 1.0
    beta: float = 0.0
    dtype: str
    dtype_b: str | None = None
    """Element type of B, where it is another than A's."""
    promise: str | None = None
    """The precision that was asked for, as `Arithmetic.precision` has it."""
    batch_invariant: bool = False
    """Whether that was asked for, as `Arithmetic.batch_invariant` has it; a baseline is not."""
    engine: str
    error: Error
    verified: bool
    picked: str | None = None
    """The kernel that the selector picked, where `kernel` is 'best'."""
    prepared: bool = False
    """Whether the copy of B that the kernel wants had been made before: see `tilewright.prepare`."""
    precision: str | None = None
    """The kernel's: what it rounds factors to, as 'tf32', or what its products are made of, as 'fp16x3'; None where
    factors are taken as they come."""
    layout: str = "NN"
    """Orders of A and B, N for row-major and T for column-major."""
    batch: int = 1
    out_dtype: str = "float32"
    """Element type of D, C and the bias."""
    scaling: str | None = None
    """Which scales float8 factors have, one of `problem.SCALINGS`; None where they have none."""
    bias: Side | None = None
    """As in `problem.Epilogue`. A baseline has no bias, and no activation."""
    activation: str | None = None

    @property
    def title(self) -> str:
        """Title of the run, as text: 'best: gemm_bf16x6, b prepared', 'best: split_k, batch-invariant'."""
        kernel = f"{self.kernel}: {self.picked}" if self.picked else self.kernel
        prepared = ["b prepared"] * self.prepared
        return ", ".join([kernel, *prepared, *["batch-invariant"] * self.batch_invariant])

    @property
    def problem(self) -> Problem:
        """Problem that was computed; its matrices have no gaps.

        Raises:
            ProblemError, DtypeError: there is no such problem.
        """
        a, b = orders(self.layout)
        arithmetic = Arithmetic(self.dtype, self.out_dtype, self.promise, self.batch_invariant, self.dtype_b)
        epilogue = Epilogue(self.bias, self.activation)
        scaling = Scaling.dense(self.scaling, self.n, self.k)
        return Problem(self.m, self.n, self.k, arithmetic, self.batch, a, b, epilogue=epilogue, scaling=scaling)

    @property
    def case(self) -> str:
        """Orders, element types, precision and epilogue as text, as in 'NT float32 bias+gelu'."""
        return self.problem.case

    @property
    def arithmetic(self) -> str:
        """Arithmetic that factors are multiplied in: the kernel's precision, or their element type."""
        return self.precision or self.dtype


class Record(Result, Timed):
    """One measurement: a kernel's result, and how long it took."""

    gflops: float
    """Speed of runs back to back, as the next two."""
    baseline: Baseline | None
    ratio: float | None
    """The kernel's speed over the baseline's, from the medians."""
    end_to_end: EndToEnd | None = None
    """Times of calls that return a new result; None where they were not asked for."""
    end_to_end_out: EndToEnd | None = None
    """Times of calls that write to an array of the caller's, by out=."""
    gpu_state: GpuState | None = None
    """None on the emulator."""

    @property
    def error_ratio(self) -> float | None:
        """The kernel's error over the baseline's on the same operands; None where one of them is not known."""
        ours, theirs = self.error.relative_frobenius, self.baseline and self.baseline.error
        return ours / theirs if ours is not None and theirs else None

    @property
    def after_other_work_ratio(self) -> float | None:
        """The kernel's speed over the baseline's where runs follow other work; None where that was not measured."""
        ours, theirs = self.after_other_work_us, self.baseline and self.baseline.after_other_work_us
        return theirs.median / ours.median if ours and theirs and ours.median > 0 else None

    @property
    def baseline_arithmetic(self) -> str:
        """The arithmetic of the baseline: it rounds factors as the kernel does, but makes no products of parts."""
        return self.dtype if self.precision in PART_PRECISIONS else self.arithmetic


class Run(RunFile):
    """Measurements of one bench run, and its environment."""

    records: list[Record]
    results: list[Result] = []
    """Results that were verified and not timed."""

    @property
    def every_result(self) -> list[Result]:
        """All verified results: first the timed ones, then those that were not timed."""
        return [*self.records, *self.results]
