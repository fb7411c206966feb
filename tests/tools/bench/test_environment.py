"""Environment in a record."""

import datetime
import getpass
import json
import platform
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilewright import version
from tilewright.runtime.cuda import CudaEngine
from tilewright.tools.bench import environment as module
from tilewright.tools.bench.environment import environment, gpu_state
from tilewright.tools.bench.records import GpuState

EMULATOR = SimpleNamespace(name="emulator", device_name="a CPU", capability=None, cache_bytes=0)


def test_versions_and_machine():
    facts = environment(EMULATOR)
    assert json.loads(json.dumps(facts)) == facts
    assert facts["tilewright"] == version.__version__
    assert facts["engine"] == "emulator"
    assert facts["python"] == platform.python_version()
    assert {"numpy", "cuda-core", "nvidia-cuda-nvrtc"} <= facts["libraries"].keys()
    assert facts["cpu"]["cores"] >= 1
    assert "gpu" not in facts
    age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(facts["date"])
    assert datetime.timedelta(0) <= age < datetime.timedelta(minutes=1)


def test_nothing_personal():
    text = json.dumps(environment(EMULATOR))
    words = set(re.findall(r"[\w.-]+", text))
    assert not words & {platform.node(), getpass.getuser()}
    assert str(Path.home()) not in text
    assert str(Path(version.__file__).parent) not in text


def test_the_revision_can_be_named(monkeypatch):
    monkeypatch.setenv(module.REVISION_VARIABLE, "v1.2-3-gabc-dirty")
    assert environment(EMULATOR)["revision"] == "v1.2-3-gabc-dirty"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A folder that stands in for the package's."""
    monkeypatch.delenv(module.REVISION_VARIABLE, raising=False)
    (tmp_path / "version.py").write_text("")
    monkeypatch.setattr(version, "__file__", str(tmp_path / "version.py"))
    return tmp_path


def git(folder, *words):
    identity = ("-c", "user.name=Nobody", "-c", "user.email=nobody@example.com")
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


def test_the_revision_is_the_checkouts(package):
    assert "revision" not in environment(EMULATOR)
    git(package, "init")
    (package / "other.py").write_text("")
    git(package, "add", "other.py")
    git(package, "commit", "-m", "one")
    assert "revision" not in environment(EMULATOR), "somebody else's checkout: the package is not in it"
    git(package, "add", "version.py")
    git(package, "commit", "-m", "two")
    clean = environment(EMULATOR)["revision"]
    assert len(clean) >= 7
    (package / "version.py").write_text("changed")
    assert environment(EMULATOR)["revision"] == f"{clean}-dirty"


def test_a_machine_that_tells_nothing(monkeypatch, package):
    """No git, no compiler, no /proc, no packages: the facts are left out, and nothing fails."""
    monkeypatch.setenv("PATH", str(package))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(module, "_LIBRARIES", ("no-such-package",))
    facts = environment(EMULATOR)
    assert "revision" not in facts
    assert "compiler" not in facts
    assert facts["libraries"] == {}


class StandInSensors:
    """NVIDIA's management library, of a GPU that does not say how warm it is."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    class NVMLError(Exception):
        pass

    def __init__(self, present=True):
        self._present = present
        self.open = 0

    def nvmlInit(self):  # noqa: N802 the library's own name, as the next
        if not self._present:
            raise self.NVMLError
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        assert uuid == "GPU-123"
        return "the GPU"

    def nvmlDeviceGetClockInfo(self, gpu, kind):  # noqa: N802
        assert gpu == "the GPU"
        return {1: 1755, 2: 3201}[kind]

    def nvmlDeviceGetPowerUsage(self, gpu):  # noqa: N802
        return 688_200

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu):  # noqa: N802
        return 5_432_100

    def nvmlDeviceGetTemperature(self, gpu, sensor):  # noqa: N802
        raise self.NVMLError


@pytest.fixture
def on_a_gpu():
    """An engine of a GPU that nothing runs on."""
    engine = CudaEngine.__new__(CudaEngine)
    engine.name, engine.device = "cuda", SimpleNamespace(uuid="123")
    return engine


def test_the_state_of_a_gpu_is_what_its_sensors_say(monkeypatch, on_a_gpu):
    sensors = StandInSensors()
    monkeypatch.setitem(sys.modules, "pynvml", sensors)
    assert gpu_state(on_a_gpu) == GpuState(sm_clock_mhz=1755, memory_clock_mhz=3201, power_w=688.2, energy_j=5432.1)
    assert sensors.open == 0


@pytest.mark.parametrize("library", [None, StandInSensors(present=False)])
def test_a_gpu_without_sensors_has_no_state(monkeypatch, on_a_gpu, library):
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert gpu_state(on_a_gpu) is None
    assert gpu_state(EMULATOR) is None
