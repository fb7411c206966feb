"""Messages on a machine without a usable GPU. The driver's answers are made up here, so any machine can run this."""

from types import SimpleNamespace

import pytest
from cuda.bindings.driver import CUresult

from tilewright.core.errors import EngineUnavailableError, LaunchError
from tilewright.runtime import cuda, driver


@pytest.fixture
def machine(monkeypatch):
    """Sets what the driver answers; by default it finds one H200."""

    def answer(init=CUresult.CUDA_SUCCESS, version=13000, count=1, capability=(9, 0)):
        ok = CUresult.CUDA_SUCCESS
        monkeypatch.setattr(driver.driver, "cuInit", lambda _: (init,))
        monkeypatch.setattr(driver.driver, "cuDriverGetVersion", lambda: (ok, version))
        monkeypatch.setattr(driver.driver, "cuDeviceGetCount", lambda: (ok, count))
        monkeypatch.setattr(driver.driver, "cuGetErrorString", lambda _: (ok, b"the driver's words"))
        gpu = SimpleNamespace(name="A GPU", compute_capability=capability)
        monkeypatch.setattr(driver, "Device", lambda _: gpu)

    return answer


def test_a_usable_gpu_has_nothing_against_it(machine):
    machine()
    assert driver.unavailable() is None


def test_no_driver(machine, monkeypatch):
    machine()

    def missing(_):
        raise RuntimeError("Failed to dlopen libcuda.so.1")

    monkeypatch.setattr(driver.driver, "cuInit", missing)
    assert driver.unavailable() == "no NVIDIA driver is installed (libcuda.so.1 is not found)"


def test_no_gpu(machine):
    machine(init=CUresult.CUDA_ERROR_NO_DEVICE)
    reason = "the NVIDIA driver finds no usable GPU (CUDA_ERROR_NO_DEVICE: the driver's words)"
    assert driver.unavailable() == reason


@pytest.mark.parametrize(("version", "named"), [(12080, "12.8"), (11040, "11.4")])
def test_a_driver_that_is_too_old(machine, version, named):
    machine(version=version)
    assert driver.unavailable() == f"the NVIDIA driver supports CUDA {named}, 13.0 or newer is needed"


def test_a_gpu_that_is_not_there(machine):
    machine(count=2)
    assert driver.unavailable(1) is None
    assert driver.unavailable(2) == "there is no GPU 2: the driver finds 2, counted from 0"
    assert driver.unavailable(-1) == "there is no GPU -1: the driver finds 2, counted from 0"


def test_a_gpu_that_is_too_old(machine):
    machine(capability=(7, 0))
    assert driver.unavailable() == "A GPU has compute capability 7.0, 7.5 or newer is needed"


def test_the_engine_says_why_it_cannot_run(machine):
    machine(version=12080)
    with pytest.raises(EngineUnavailableError, match=r"the cuda engine cannot run here: .* CUDA 12\.8"):
        cuda.CudaEngine()


def test_a_drivers_error_comes_with_its_words(machine):
    machine()
    assert driver.check((CUresult.CUDA_SUCCESS,)) is None
    assert driver.check((CUresult.CUDA_SUCCESS, 7)) == 7
    with pytest.raises(LaunchError, match="the GPU reports CUDA_ERROR_ILLEGAL_ADDRESS: the driver's words"):
        driver.check((CUresult.CUDA_ERROR_ILLEGAL_ADDRESS, None))
