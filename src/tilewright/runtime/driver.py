"""Functions of the CUDA driver besides cuda.core's: a usable GPU, its context, its memory, its errors."""

import contextlib
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from cuda.bindings import driver
from cuda.core import Device
from cuda.core._utils.cuda_utils import CUDAError

from tilewright.core import gpus
from tilewright.core.errors import LaunchError

OLDEST = (13, 0)
"""CUDA version that the driver must support: a compiler's code runs on no driver of an older major version."""


def unavailable(device_id: int = 0) -> str | None:
    """Why kernels cannot run on a GPU of this machine; None where they can."""
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError:
        return "no NVIDIA driver is installed (libcuda.so.1 is not found)"
    if status != driver.CUresult.CUDA_SUCCESS:
        return f"the NVIDIA driver finds no usable GPU ({_words(status)})"
    version = check(driver.cuDriverGetVersion())
    supported = (version // 1000, version % 1000 // 10)
    if supported < OLDEST:
        return f"the NVIDIA driver supports CUDA {_dotted(supported)}, {_dotted(OLDEST)} or newer is needed"
    count = check(driver.cuDeviceGetCount())
    if device_id not in range(count):
        return f"there is no GPU {device_id}: the driver finds {count}, counted from 0"
    device, oldest = Device(device_id), min(gpus.COMPUTE_CAPABILITIES)
    if device.compute_capability < oldest:
        capability = _dotted(device.compute_capability)
        return f"{device.name} has compute capability {capability}, {_dotted(oldest)} or newer is needed"
    return None


def gpu_count() -> int:
    """GPUs that the driver shows this process."""
    return int(check(driver.cuDeviceGetCount()))


class Current:
    """In a `with` block: this GPU's context is current, and CUDA's errors come out as LaunchError.

    The caller's own context is current again afterwards.
    """

    def __init__(self, context: Any) -> None:
        self._context = context

    def __enter__(self) -> None:
        check(driver.cuCtxPushCurrent(self._context))

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        driver.cuCtxPopCurrent()
        if isinstance(error, CUDAError):
            raise LaunchError(f"the GPU reports {error}") from error


@contextlib.contextmanager
def outside_of_captures() -> Iterator[None]:
    """In a `with` block, this thread may allocate memory and wait while one of its streams is captured."""
    before = check(driver.cuThreadExchangeStreamCaptureMode(driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    try:
        yield
    finally:
        check(driver.cuThreadExchangeStreamCaptureMode(before))


class Allocation:
    """Bytes of device memory.

    They are freed with the object, and then synchronously: not before work that may still use them has ended.
    """

    def __init__(self, current: Current, size: int) -> None:
        with current:
            status, pointer = driver.cuMemAlloc(max(size, 1))
        if status == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise MemoryError(f"the GPU has less than the {size} bytes of free memory that are needed")
        check((status,))
        self.pointer = int(pointer)
        # At exit the driver frees everything itself, perhaps before Python comes to it.
        weakref.finalize(self, _free, current, self.pointer).atexit = False


def check(result: tuple[Any, ...]) -> Any:
    """The value that a driver function returned next to its status.

    Raises:
        LaunchError: the status is an error; the driver's words are in the message.
    """
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise LaunchError(f"the GPU reports {_words(status)}")
    return values[0] if values else None


def values(result: tuple[Any, ...]) -> tuple[Any, ...]:
    """All that a driver function returned next to its status; raises as `check`."""
    check(result[:1])
    return result[1:]


def _free(current: Current, pointer: int) -> None:
    with current, outside_of_captures():
        driver.cuMemFree(pointer)


def _words(status: Any) -> str:
    _, text = driver.cuGetErrorString(status)
    return f"{status.name}: {text.decode()}" if text else str(status.name)


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
