"""The journal of tuning: a line of JSON for every config that was tried, from which a run goes on after a break."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tilewright.core.errors import RecordsError, WriteError
from tilewright.core.files import FileKind, parsed
from tilewright.core.problem import Problem, Scalars, Shaped
from tilewright.kernels import kernel as kernels
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.source.source_kernel import SourceKernel
from tilewright.select.tables.cases import timed_case

FORMAT = 2
"""Version of the format of lines. Those of format 1, which have no case, are passed over."""

_HEADERS = Path(kernels.__file__).parent / "include"

_MOST = 2**31 - 1
"""Largest size of a problem."""

Outcome = Literal["timed", "stopped", "wrong", "unfit", "refused", "failed", "hung", "crashed"]
"""Outcome of a config. timed: measured in full; stopped: so much slower than the best that its first short sample was
enough; wrong: its result was; unfit: the GPU cannot hold a block of it; refused: by the compiler; failed: its launch
did; hung: it did not end in time; crashed: it took its process with it."""


class Trial(Shaped, BaseModel):
    """One config tried on one problem."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    device: str
    """Name of the GPU, or of the CPU that emulated one."""
    digest: str
    """Digest of the kernel's source and the headers that it may include: a changed kernel is tried anew."""
    kernel: str
    config: dict[str, int]
    m: int = Field(ge=0, le=_MOST)
    n: int = Field(ge=0, le=_MOST)
    k: int = Field(ge=0, le=_MOST)
    batch: int = Field(default=1, ge=0, le=_MOST)
    case: str
    """Orders, element types and epilogue, as `timed_case` has them."""
    alpha: float = 1.0
    beta: float = 0.0
    outcome: Outcome
    time_us: float | None = Field(default=None, gt=0)
    """Median of the samples; of one short sample where it was stopped."""
    against: float | None = None
    """The incumbent's median in the same samples, in microseconds."""
    incumbent: tuple[str, dict[str, int]] | None = None
    """For a stopped trial: the kernel and config that it was so much slower than."""
    predicted_us: float | None = None
    """Time that the cost model predicted."""
    registers: int | None = None
    spent_s: float = 0.0
    """Seconds that verifying and measuring it took."""
    at_s: float = 0.0
    """Seconds of tuning on this problem by then, over all runs."""
    note: str = ""
    """Message of the compiler, the engine or the operating system."""

    @property
    def problem(self) -> tuple[int, int, int, int, str]:
        """Problem that was computed, the scalars aside: m, n, k, batch and case."""
        return self.m, self.n, self.k, self.batch, self.case

    @property
    def scalars(self) -> Scalars:
        """Alpha and beta."""
        return Scalars(self.alpha, self.beta)

    @property
    def tried(self) -> tuple[str, Config]:
        """The kernel's name and the config, to be compared and looked up."""
        return self.kernel, Config(self.config)

    @property
    def gflops(self) -> float | None:
        """Speed, where it was measured."""
        return 2 * self.batch * self.m * self.n * self.k / self.time_us / 1e3 if self.time_us else None


def _is_journal(content: bytes) -> bool:
    """Whether there is a trial, of whatever version, or what an interrupted write left of the first."""
    for line in content.splitlines():
        fields = parsed(line)
        if isinstance(fields, dict) and {"kernel", "outcome"} <= fields.keys():
            return True
    return _FIRST.startswith(content) or (content.startswith(_FIRST) and b"\n" not in content.rstrip())


KIND = FileKind("a journal of tune", _is_journal)

_FIRST = b'{"format": '
"""Beginning of a line by `Journal.append`."""


def default_path() -> Path:
    """The journal in the user's state folder; it need not exist yet."""
    return platformdirs.user_state_path("tilewright") / "tuning.jsonl"


def source_digest(kernel: Kernel) -> str:
    """Digest by which the journal knows a kernel's source, and how it is launched where a command says so."""
    digest = hashlib.sha256(kernel.source.read_bytes())
    if isinstance(kernel, SourceKernel) and (said := kernel.origin.words + kernel.origin.defines):
        digest.update(repr(said).encode())
    for header in sorted(path for path in _HEADERS.rglob("*") if path.is_file()):
        digest.update(header.relative_to(_HEADERS).as_posix().encode() + b"\0" + header.read_bytes())
    return digest.hexdigest()[:16]


class Journal:
    """The trials in a file. Each is appended as it ends, in one write, so that no interruption loses an earlier one."""

    def __init__(self, path: Path) -> None:
        """Open a journal; it need not exist yet.

        Raises:
            RecordsError: the file cannot be read or written, or is no journal.
        """
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_bytes() if path.exists() else b""
            if text and not KIND.holds(text):
                raise RecordsError(f"cannot keep the journal {path}: the file holds something else")
            self._file = path.open("ab", buffering=0)
            if text and not text.endswith(b"\n"):
                self._file.write(b"\n")  # what an interrupted write left of a line stays a line of its own
        except OSError as error:
            raise WriteError(f"cannot keep the journal {path}: {error.strerror}") from error
        self._trials = list(_parse(text))

    def append(self, trial: Trial) -> None:
        """Write a trial down.

        Raises:
            WriteError: the file cannot be written.
        """
        try:
            fields = {"format": FORMAT, **trial.model_dump(exclude_defaults=True)}
            self._file.write(json.dumps(fields).encode() + b"\n")
        except OSError as error:
            raise WriteError(f"cannot keep the journal {self.path}: {error.strerror}") from error
        self._trials.append(trial)

    def of(self, device: str, kernels: dict[str, str], problem: Problem, scalars: Scalars = Scalars()) -> list[Trial]:
        """The trials of a problem on a device, of kernels by name whose sources still have these digests."""
        wanted = (problem.m, problem.n, problem.k, problem.batch, timed_case(problem))
        return [
            trial
            for trial in self._trials
            if trial.device == device
            and kernels.get(trial.kernel) == trial.digest
            and (trial.problem, trial.scalars) == (wanted, scalars)
        ]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read(path: Path) -> list[Trial]:
    """All trials of a journal, whatever they are of.

    Raises:
        RecordsError: the file cannot be read.
    """
    try:
        return list(_parse(path.read_bytes()))
    except OSError as error:
        raise RecordsError(f"cannot read the journal {path}: {error.strerror}") from error


def _parse(text: bytes) -> Iterator[Trial]:
    for line in text.splitlines():
        if not line.startswith(b"{"):  # of a file that is no journal, which may have a million lines
            continue
        try:
            yield Trial.model_validate_json(line)
        except ValidationError:
            continue  # the rest of an interrupted write, or a trial of another version
