"""Which engine to use: by name, or the best that this machine has."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tilewright.core.errors import EngineNotFoundError, EngineUnavailableError, ProblemError
from tilewright.runtime.base import ENGINES, Engine

CHOICES = ("auto", *ENGINES)
"""Names by which an engine can be asked for."""


def resolve_engine(engine: str | Engine = "auto") -> Engine:
    """The engine of a name; an engine itself is handed back.

    'auto' is 'cuda' on a machine with a GPU that kernels can run on, else 'emulator'. Each engine is made
    once in a process.

    Raises:
        EngineNotFoundError: it is no engine, nor the name of one; the message gives the choices.
        EngineUnavailableError: this machine lacks what the engine needs; the message says what.
    """
    if not isinstance(engine, str):
        if isinstance(engine, type) or not hasattr(engine, "capability"):
            raise EngineNotFoundError(f"engine must be one of {', '.join(CHOICES)}, or an Engine, got {engine!r}")
        return engine
    if engine not in CHOICES:
        raise EngineNotFoundError(f"engine must be one of {', '.join(CHOICES)}, got {engine!r}")
    if engine == "auto":
        engine = "emulator" if cuda_unavailable() else "cuda"
    return _made(engine)


@lru_cache
def cuda_unavailable() -> str | None:
    """Why this machine cannot run kernels on a GPU; None where it can."""
    try:
        from tilewright.runtime.driver import unavailable  # noqa: PLC0415
    except ImportError as error:
        return f"the CUDA bindings for Python cannot be loaded ({error})"
    return unavailable()


def gpus_named(devices: str | Sequence[int]) -> tuple[int, ...]:
    """Numbers of GPUs, each of which can be used.

    Args:
        devices: 'all', or numbers.

    Raises:
        ProblemError: it is neither, or names none, or one twice.
        EngineUnavailableError: one of them cannot be used; the message says which and why.
    """
    numbers: tuple[Any, ...] = tuple(devices) if isinstance(devices, Sequence) and not isinstance(devices, str) else ()
    known = all(type(one) is int for one in numbers) and len(set(numbers)) == len(numbers) > 0
    if not known and devices != "all":
        raise ProblemError(f"devices must be 'all' or different numbers of GPUs, got {devices!r}")
    if reason := cuda_unavailable():
        raise EngineUnavailableError(f"devices={devices!r} cannot be used: {reason}")
    from tilewright.runtime.driver import gpu_count, unavailable  # noqa: PLC0415 - loads the CUDA bindings

    if devices == "all":
        return tuple(range(gpu_count()))
    for one in numbers:
        if reason := unavailable(one):
            raise EngineUnavailableError(f"GPU {one} of devices={devices!r} cannot be reached: {reason}")
    return numbers


def present_gpu() -> tuple[str, tuple[int, int]] | None:
    """Name and compute capability of the GPU that the cuda engine would use; None where there is none."""
    if cuda_unavailable():
        return None
    from cuda.core import Device  # noqa: PLC0415 it is slow to load

    device = Device(0)
    major, minor = device.compute_capability
    return device.name, (major, minor)


@lru_cache
def _made(name: str) -> Engine:
    """The engine of a name. Its libraries are slow to load, so they are imported when it is asked for."""
    if name == "emulator":
        from tilewright.emulator.engine import EmulatorEngine  # noqa: PLC0415

        return EmulatorEngine()
    if reason := cuda_unavailable():
        raise EngineUnavailableError(f"the cuda engine cannot run here: {reason}")
    from tilewright.runtime.cuda import CudaEngine  # noqa: PLC0415

    return CudaEngine()
