"""What a measurement was made with: versions, machine, GPU. Nothing that names a person, a host or a folder."""

import contextlib
import datetime
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tilewright import version
from tilewright.bench.records import GpuState
from tilewright.core.errors import EngineUnavailableError
from tilewright.engines.base import Engine
from tilewright.engines.emulator.host import cores, cpu_name
from tilewright.engines.host_compiler import find_compiler

REVISION_VARIABLE = "TILEWRIGHT_REVISION"
"""Environment variable that says which source revision this is, where the package is a copy without its history."""

_LIBRARIES = ("numpy", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cublas", "nvmath-python")


def environment(engine: Engine | None) -> dict[str, Any]:
    """What runs on this engine, or on none, are made with, as JSON takes it. What is unknown is left out.

    Clocks are those of the moment: ask right after the runs.
    """
    facts = {
        "tilewright": version.__version__,
        "revision": _revision(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "engine": engine.name if engine else None,
        "python": platform.python_version(),
        "libraries": _known({name: _installed(name) for name in _LIBRARIES}),
        "os": _operating_system(),
        "cpu": _known({"name": cpu_name(), "architecture": platform.machine(), "cores": cores()}),
        "compiler": _compiler(),
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


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _operating_system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _compiler() -> str | None:
    """The C++ compiler that the emulator uses."""
    try:
        return find_compiler().version
    except EngineUnavailableError:
        return None


def _output(*command: str) -> str | None:
    """What a command prints; None where it fails or does not exist."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip() or None


def gpu_facts(engine: Engine) -> dict[str, Any]:
    """What is known of the GPU of an engine that runs on one, as JSON takes it: name, driver, clocks."""
    from cuda.bindings.driver import cuDeviceTotalMem, cuDriverGetVersion  # noqa: PLC0415 only where there is a GPU

    from tilewright.engines import nvrtc  # noqa: PLC0415
    from tilewright.engines.cuda import CudaEngine  # noqa: PLC0415
    from tilewright.engines.driver import check  # noqa: PLC0415

    assert isinstance(engine, CudaEngine)
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
    return facts | _management(f"GPU-{device.uuid}")


class _Sensors:
    """What NVIDIA's management library says of a GPU. In a `with` block; there is none without the library."""

    def __init__(self, nvml: Any, uuid: str) -> None:
        self._nvml = nvml
        self._gpu = self.ask("nvmlDeviceGetHandleByUUID", uuid)

    def ask(self, question: str, *arguments: Any) -> Any:
        """The answer; None where the library has none."""
        try:
            return getattr(self._nvml, question)(*arguments)
        except self._nvml.NVMLError:
            return None

    def of_gpu(self, question: str, *arguments: Any) -> Any:
        """The same of the GPU."""
        return None if self._gpu is None else self.ask(question, self._gpu, *arguments)

    def clock(self, kind: str, question: str = "nvmlDeviceGetClockInfo") -> Any:
        """A clock in MHz, kind being SM or MEM."""
        return self.of_gpu(question, getattr(self._nvml, f"NVML_CLOCK_{kind}"))

    def watts(self, question: str) -> float | None:
        """What the library has in milliwatts."""
        milliwatts = self.of_gpu(question)
        return None if milliwatts is None else milliwatts / 1000


@contextlib.contextmanager
def _sensors(uuid: str) -> Iterator[_Sensors | None]:
    """The sensors of a GPU, where the library and its bindings are there to ask."""
    try:
        import pynvml  # noqa: PLC0415 an extra

        pynvml.nvmlInit()
    except ImportError:
        yield None
        return
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield _Sensors(pynvml, uuid)
    finally:
        pynvml.nvmlShutdown()


def _management(uuid: str) -> dict[str, Any]:
    """Driver, clocks and power limit."""
    with _sensors(uuid) as sensors:
        if sensors is None:
            return {}
        return _known(
            {
                "driver": sensors.ask("nvmlSystemGetDriverVersion"),
                "sm_clock_mhz": sensors.clock("SM"),
                "sm_clock_max_mhz": sensors.clock("SM", "nvmlDeviceGetMaxClockInfo"),
                "memory_clock_mhz": sensors.clock("MEM"),
                "memory_clock_max_mhz": sensors.clock("MEM", "nvmlDeviceGetMaxClockInfo"),
                "power_limit_w": sensors.watts("nvmlDeviceGetPowerManagementLimit"),
            }
        )


def gpu_state(engine: Engine) -> GpuState | None:
    """What the sensors of an engine's GPU say at this moment; None where there is no GPU, or nothing to ask."""
    if engine.name != "cuda":
        return None
    from tilewright.engines.cuda import CudaEngine  # noqa: PLC0415 only where there is a GPU

    assert isinstance(engine, CudaEngine)
    with _sensors(f"GPU-{engine.device.uuid}") as sensors:
        if sensors is None:
            return None
        return GpuState(
            sm_clock_mhz=sensors.clock("SM"),
            memory_clock_mhz=sensors.clock("MEM"),
            power_w=sensors.watts("nvmlDeviceGetPowerUsage"),
            temperature_c=sensors.of_gpu("nvmlDeviceGetTemperature", 0),
        )
