"""Environment of a measurement: versions, machine, GPU. Nothing that names a person, a host or a folder."""

import datetime
import os
import platform
import subprocess
from collections.abc import Callable, Iterable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from tilewright import version
from tilewright.core.errors import EngineUnavailableError
from tilewright.emulator.host import cores, cpu_name
from tilewright.runtime.base import Engine
from tilewright.runtime.host_compiler import find_compiler
from tilewright.tools.bench.records import GpuState

T = TypeVar("T")

REVISION_VARIABLE = "TILEWRIGHT_REVISION"
"""Environment variable that says which source revision this is, where the package is a copy without its history."""

_LIBRARIES = ("numpy", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cublas", "nvmath-python")


def environment(engine: Engine | None) -> dict[str, Any]:
    """Environment of runs on this engine, or on none, as JSON has it. Unknown facts are left out.

    Clocks are those of the moment: ask right after the runs.
    """
    facts = {
        "tilewright": version.__version__,
        "revision": _revision(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "engine": engine.name if engine else None,
        "python": platform.python_version(),
        "libraries": _known(
            {name: _or_none(partial(metadata.version, name), metadata.PackageNotFoundError) for name in _LIBRARIES}
        ),
        "os": _or_none(lambda: platform.freedesktop_os_release()["PRETTY_NAME"], OSError, KeyError)
        or platform.system(),
        "cpu": _known({"name": cpu_name(), "architecture": platform.machine(), "cores": cores()}),
        "compiler": _or_none(lambda: find_compiler().version, EngineUnavailableError),  # the emulator's
        "gpu": gpu_facts(engine) if engine and engine.name == "cuda" else None,
    }
    return _known(facts)


def _known(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: fact for name, fact in facts.items() if fact is not None}


def _revision() -> str | None:
    """The commit of the package's own checkout, '-dirty' where files differ from it."""
    named = os.environ.get(REVISION_VARIABLE)
    if named:
        return named
    folder = Path(version.__file__).parent
    if _output("git", "-C", str(folder), "ls-files", "--error-unmatch", "version.py") is None:
        return None  # no checkout, or somebody else's that the package is installed in
    return _output("git", "-C", str(folder), "describe", "--always", "--tags", "--dirty")


def _or_none(function: Callable[[], T], *errors: type[Exception]) -> T | None:
    """Result of a function; None where it raises one of these errors."""
    try:
        return function()
    except errors:
        return None


def _output(*command: str) -> str | None:
    """Output of a command; None where it fails or does not exist."""
    run = partial(subprocess.run, command, capture_output=True, text=True, check=True, timeout=10)
    done = _or_none(run, OSError, subprocess.SubprocessError)
    return (done and done.stdout.strip()) or None


def gpu_facts(engine: Any) -> dict[str, Any]:
    """Facts about the GPU of an engine that runs on one, as JSON has them: name, driver, clocks."""
    from cuda.bindings.driver import cuDeviceTotalMem, cuDriverGetVersion  # noqa: PLC0415 only where there is a GPU

    from tilewright.runtime import nvrtc  # noqa: PLC0415
    from tilewright.runtime.driver import check  # noqa: PLC0415

    device, cuda = engine.device, check(cuDriverGetVersion())
    facts = {
        "name": engine.device_name,
        "compute_capability": "{}.{}".format(*device.compute_capability),
        "multiprocessors": device.properties.multiprocessor_count,
        "memory_bytes": check(cuDeviceTotalMem(device.device_id)),
        "l2_bytes": engine.cache_bytes,
        "driver_cuda": f"{cuda // 1000}.{cuda % 1000 // 10}",
        "nvrtc": "{}.{}".format(*nvrtc.version()),
    }
    return facts | _known(_sensed(engine, _SETTINGS) or {})


_QUESTIONS = {
    "driver": ("nvmlSystemGetDriverVersion",),
    "sm_clock_mhz": ("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
    "sm_clock_max_mhz": ("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM"),
    "memory_clock_mhz": ("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),
    "memory_clock_max_mhz": ("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_MEM"),
    "power_limit_w": ("nvmlDeviceGetPowerManagementLimit",),
    "power_w": ("nvmlDeviceGetPowerUsage",),
    "energy_j": ("nvmlDeviceGetTotalEnergyConsumption",),
    "temperature_c": ("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
}
"""Questions to NVIDIA's management library: a function each, which may take a constant besides the GPU."""
_SETTINGS = "driver", "sm_clock_mhz", "sm_clock_max_mhz", "memory_clock_mhz", "memory_clock_max_mhz", "power_limit_w"


def _sensed(engine: Any, names: Iterable[str]) -> dict[str, Any] | None:
    """The library's answers to questions of these names about an engine's GPU, None for those that it does not have;
    watts and joules of what it has in thousandths. None where the library or its bindings are not there to ask."""
    try:
        import pynvml  # noqa: PLC0415 an extra

        pynvml.nvmlInit()
    except ImportError:
        return None
    except pynvml.NVMLError:
        return None

    def ask(question: str, *arguments: Any) -> Any:
        try:
            return getattr(pynvml, question)(*arguments)
        except pynvml.NVMLError:
            return None

    try:
        gpu = ask("nvmlDeviceGetHandleByUUID", f"GPU-{engine.device.uuid}")
        found: dict[str, Any] = {}
        for name in names:
            question, *constants = _QUESTIONS[name]
            of = [] if question.startswith("nvmlSystem") else [gpu, *(getattr(pynvml, one) for one in constants)]
            answer = None if None in of else ask(question, *of)
            found[name] = answer / 1000 if answer is not None and name.endswith(("_w", "_j")) else answer
        return found
    finally:
        pynvml.nvmlShutdown()


def gpu_state(engine: Engine) -> GpuState | None:
    """Readings of the sensors of an engine's GPU at this moment; None where there is no GPU, or nothing to ask."""
    found = _sensed(engine, GpuState.model_fields) if engine.name == "cuda" else None
    return None if found is None else GpuState(**found)
