"""Which kernels some work launches on the GPU, whatever library it calls: read from a CUDA graph of one run.

Driver API: "Graph Management" (cuGraphGetNodes, cuGraphGetEdges, cuGraphKernelNodeGetParams).
"""

import ctypes
from functools import lru_cache
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

from cuda.bindings import driver

from tilewright.runtime.base import Work
from tilewright.runtime.driver import check, values


class CapturedKernel(NamedTuple):
    """One launch of a kernel."""

    name: str
    """As in C++, with template arguments, but without return type and parameters."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]


def captured_kernels(work: Work, stream: Any) -> list[CapturedKernel]:
    """The kernels that one run of some work launches, in their order. They are captured and not executed.

    Args:
        work: run 0 of it is captured.
        stream: where it launches; not the default stream. Its GPU's context is current.

    Raises:
        LaunchError: the work does what cannot be captured.
    """
    # Relaxed, as where works are timed: a library may do things on its first call that the other modes forbid.
    check(driver.cuStreamBeginCapture(stream.handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    try:
        work(0, stream)
    except BaseException:
        status, graph = driver.cuStreamEndCapture(stream.handle)
        if status == driver.CUresult.CUDA_SUCCESS:
            driver.cuGraphDestroy(graph)
        raise
    graph = check(driver.cuStreamEndCapture(stream.handle))
    try:
        kernel = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
        return [_kernel(one) for one in _nodes_in_order(graph) if check(driver.cuGraphNodeGetType(one)) == kernel]
    finally:
        driver.cuGraphDestroy(graph)


def _nodes_in_order(graph: Any) -> list[Any]:
    """The nodes of a graph, each behind those that it depends on."""
    _, count = values(driver.cuGraphGetNodes(graph))
    nodes, _ = values(driver.cuGraphGetNodes(graph, count))
    *_, count = values(driver.cuGraphGetEdges(graph))
    before, after, *_ = values(driver.cuGraphGetEdges(graph, count))
    by_address = {int(node): node for node in nodes or ()}
    order = TopologicalSorter[int](dict.fromkeys(by_address, ()))
    for first, second in zip(before or (), after or (), strict=True):
        order.add(int(second), int(first))
    return [by_address[address] for address in order.static_order()]


def _kernel(node: Any) -> CapturedKernel:
    parameters = check(driver.cuGraphKernelNodeGetParams(node))
    if int(parameters.func):
        name = check(driver.cuFuncGetName(parameters.func))
    else:  # the driver then names the kernel by its other kind of handle
        name = check(driver.cuKernelGetName(parameters.kern))
    return CapturedKernel(
        short_name(demangle(name.decode())),
        (parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ),
        (parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ),
    )


def demangle(name: str) -> str:
    """The C++ name of a symbol: 'void f<4>(float*)' of '_Z1fILi4EEvPf'; other names as they are.

    They stay so too where the machine has no C++ runtime library to ask.
    """
    runtime = _cpp_runtime()
    if runtime is None or not name.startswith("_Z"):
        return name
    function = runtime["__cxa_demangle"]
    function.restype = ctypes.c_void_p
    status = ctypes.c_int(-1)
    pointer = function(name.encode(), None, None, ctypes.byref(status))
    if status.value != 0 or not pointer:
        return name
    text = ctypes.string_at(pointer).decode()
    free = runtime.free
    free.argtypes = [ctypes.c_void_p]
    free(pointer)
    return text


def short_name(name: str) -> str:
    """A function's C++ name without return type and parameters: 'f<4>' of 'void f<4>(float*)'."""
    name = name.removeprefix("void ")
    if not name.endswith(")"):
        return name
    depth = 0
    for index in range(len(name) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(name[index], 0)
        if depth == 0:
            return name[:index]
    return name


@lru_cache
def _cpp_runtime() -> ctypes.CDLL | None:
    """The C++ runtime library, whose demangler is part of its ABI; it has C's `free` too."""
    for library in ("libstdc++.so.6", "libc++abi.so.1"):
        try:
            return ctypes.CDLL(library)
        except OSError:
            continue
    return None
