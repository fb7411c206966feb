"""Engines by name."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tilewright.api import engines as registry
from tilewright.core.errors import EngineNotFoundError, EngineUnavailableError
from tilewright.emulator.engine import EmulatorEngine


@pytest.fixture
def reason(monkeypatch):
    """Sets why there is no GPU, or None for there being one."""

    def set_reason(text):
        monkeypatch.setattr(registry, "cuda_unavailable", lambda: text)

    registry._made.cache_clear()
    yield set_reason
    registry._made.cache_clear()


def test_an_engine_is_handed_back():
    engine = SimpleNamespace(capability=None)
    assert registry.resolve_engine(engine) is engine


@pytest.mark.parametrize("engine", [3, None, ["cuda"], EmulatorEngine])
def test_what_is_no_engine_is_refused(engine):
    with pytest.raises(EngineNotFoundError, match="engine must be one of auto, cuda, emulator"):
        registry.resolve_engine(engine)


def test_the_emulator_is_made_once():
    engine = registry.resolve_engine("emulator")
    assert isinstance(engine, EmulatorEngine)
    assert engine.name == "emulator"
    assert registry.resolve_engine("emulator") is engine


def test_auto_is_the_emulator_where_there_is_no_gpu(reason):
    reason("no NVIDIA driver is installed")
    assert registry.resolve_engine().name == "emulator"


def test_auto_is_cuda_where_there_is_a_gpu(reason, monkeypatch):
    reason(None)
    gpu = object()
    monkeypatch.setattr("tilewright.runtime.cuda.CudaEngine", lambda: gpu)
    assert registry.resolve_engine("auto") is gpu
    assert registry.resolve_engine("cuda") is gpu


def test_cuda_without_a_gpu_says_why(reason):
    reason("no NVIDIA driver is installed")
    with pytest.raises(EngineUnavailableError, match="the cuda engine cannot run here: no NVIDIA driver is installed"):
        registry.resolve_engine("cuda")


def test_an_unknown_name_gets_the_choices():
    with pytest.raises(ValueError, match="engine must be one of auto, cuda, emulator, got 'gpu'"):
        registry.resolve_engine("gpu")


def test_without_the_cuda_bindings_the_emulator_is_left():
    program = """
import sys
sys.modules["cuda"] = None
from tilewright.api.engines import cuda_unavailable, resolve_engine
print(resolve_engine().name)
print(cuda_unavailable())
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    name, why = run.stdout.splitlines()
    assert name == "emulator"
    assert why.startswith("the CUDA bindings for Python cannot be loaded (")
