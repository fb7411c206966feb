"""A kernel compiled for an engine, and the compiler's report on it."""

from dataclasses import dataclass
from typing import Protocol

from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Variant


@dataclass(frozen=True)
class CompileReport:
    """Compiler's report on a kernel's needs. None where an engine has no such thing."""

    registers: int | None
    """Registers a thread."""
    spill_bytes: int | None
    """Bytes of registers a thread spills to memory: stores plus loads."""
    shared_bytes: int | None
    """Statically declared shared memory of a block, in bytes."""


class Executable(Protocol):
    """A kernel compiled with one config for one engine."""

    kernel: Kernel
    config: Config
    variant: Variant
    report: CompileReport
