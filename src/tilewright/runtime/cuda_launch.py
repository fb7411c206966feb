"""Launches the steps of a plan from Python, through the driver's own functions; what its tensor maps are made of.

Driver API: "Execution Control" (cuLaunchKernelEx), "Tensor Map Object Management" (cuTensorMapEncodeTiled).
"""

import ctypes
import struct
from collections.abc import Mapping
from functools import lru_cache

from cuda.bindings.driver import CUresult, CUtensorMapDataType, CUtensorMapL2promotion, CUtensorMapSwizzle

from tilewright.core.dtypes import ELEMENT_TYPES
from tilewright.core.problem import Scalars
from tilewright.kernels.tensor_box import TensorBox
from tilewright.runtime.driver import check
from tilewright.runtime.launcher import DRIVER
from tilewright.runtime.plan import Step
from tilewright.runtime.tensor_maps import TensorLayout

_MAP_ALIGNMENT = 64

MAP_WORDS = struct.Struct("=9Q9I")
"""Extents along 5 dimensions, bytes from one element to the next along all but the first; a box's extents; element
type, swizzle, promotion and dimensions. As `MapWords` in steps.h."""

_DATA_TYPES = {
    name: getattr(CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{map_type}")
    for name, map_type in (*((one.name, one.map_type) for one in ELEMENT_TYPES.values()), ("tf32", "TFLOAT32"))
}

_SWIZZLES = {
    size: getattr(CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{name}")
    for size, name in ((0, "NONE"), (32, "32B"), (64, "64B"), (128, "128B"))
}

_PROMOTION = int(CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B)
"""How much the L2 cache fetches at least. With 256 bytes, products whose rows begin within its lines (2056 in bfloat16)
take longer, and no others are faster: "maps of 128 bytes" in docs/lab-notebook.md."""


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int * 16))


class _LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_uint),
    )


def describe(layout: TensorLayout) -> bytes:
    """Words of a tensor map without its address: the driver makes the map where a launch knows the address."""
    extents, strides, box = layout.in_all_dimensions()
    return MAP_WORDS.pack(*extents, *strides, *box, *_of_box(layout.box, "tf32" if layout.rounds else layout.dtype))


@lru_cache
def _of_box(box: TensorBox, dtype: str) -> tuple[int, ...]:
    return int(_DATA_TYPES[dtype]), int(_SWIZZLES[box.swizzle]), _PROMOTION, box.dimensions


def launch(step: Step, addresses: Mapping[str, int], scalars: Scalars, stream: int) -> None:
    """Launch a step on a stream; the GPU's context is current.

    Args:
        step: what to launch.
        addresses: of operands and of the launch's own memory, by a slot's name for them.
        scalars: alpha and beta.
        stream: its handle.

    Raises:
        LaunchError: the driver refuses the launch.
    """
    driver = driver_library()
    memory = (ctypes.c_ubyte * (len(step.arguments) + _MAP_ALIGNMENT))()  # a tensor map lies on such a boundary
    start = -ctypes.addressof(memory) % _MAP_ALIGNMENT
    base = ctypes.addressof(memory) + start
    ctypes.memmove(base, step.arguments, len(step.arguments))
    for offset, kind, source, shift in step.slots:
        if kind == "scalar":
            struct.pack_into("=f", memory, start + offset, getattr(scalars, source))
            continue
        address = addresses[source] + shift if addresses[source] else 0
        if kind == "pointer":
            struct.pack_into("=Q", memory, start + offset, address)
        else:
            _write_map(driver, base + offset, address, step.arguments[offset:])
    attribute = _Attribute(step.attribute)
    attribute.value[0] = 1
    count = int(step.attribute != 0)
    config = _LaunchConfig(step.grid, step.block, step.shared_bytes, stream, ctypes.pointer(attribute), count)
    parameters = (ctypes.c_void_p * len(step.offsets))(*(base + offset for offset in step.offsets))
    checked(driver.cuLaunchKernelEx(ctypes.byref(config), step.function, parameters, None))


def checked(status: int) -> None:
    """Raise LaunchError where what a function of the driver's library returned is an error."""
    check((CUresult(status),))


def _write_map(driver: ctypes.CDLL, target: int, address: int, described: bytes) -> None:
    """Make a tensor map of what a step says of it (`describe`)."""
    *shape, data_type, swizzle, promotion, dimensions = MAP_WORDS.unpack_from(described)
    extents, strides = (ctypes.c_uint64 * 5)(*shape[:5]), (ctypes.c_uint64 * 4)(*shape[5:9])
    box, each = (ctypes.c_uint32 * 5)(*shape[9:]), (ctypes.c_uint32 * 5)(1, 1, 1, 1, 1)
    where = target, data_type, dimensions, ctypes.c_void_p(address)
    checked(driver.cuTensorMapEncodeTiled(*where, extents, strides, box, each, 0, swizzle, promotion, 0))


@lru_cache
def driver_library() -> ctypes.CDLL:
    """The CUDA driver's library, which says what functions take that are called from Python for each step."""
    driver = ctypes.CDLL(DRIVER)
    handle, address, word, size = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_size_t
    driver.cuLaunchKernelEx.argtypes = (ctypes.POINTER(_LaunchConfig), handle, ctypes.POINTER(handle), handle)
    driver.cuTensorMapEncodeTiled.argtypes = (handle,)  # the rest says itself what it is
    driver.cuMemcpyAsync.argtypes = (address, address, size, handle)
    driver.cuStreamWriteValue32_v2.argtypes = driver.cuStreamWaitValue32_v2.argtypes = (handle, address, word, word)
    driver.cuEventRecord.argtypes = (handle, handle)
    driver.cuStreamWaitEvent.argtypes = (handle, handle, word)
    driver.cuCtxPushCurrent_v2.argtypes = driver.cuCtxPopCurrent_v2.argtypes = (handle,)
    return driver
