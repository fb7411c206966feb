"""Copies of matrices between the memories of several GPUs, by their copy engines.

Driver API: "Peer Context Memory Access" and "Memory Management" (cuMemcpy3DPeerAsync), which copies lines with gaps.
"""

from functools import lru_cache

from cuda.bindings import driver

from tilewright.runtime.cuda import CudaEngine
from tilewright.runtime.driver import check

Lines = tuple[int, int]
"""Lines of a matrix in a GPU's memory: the address of the first, and bytes from one to the next."""


def copy_lines(
    to: CudaEngine, target: Lines, source_gpu: CudaEngine, source: Lines, length: int, count: int, stream: int
) -> None:
    """Start to copy lines from one GPU to another, on a stream of either.

    Args:
        to, target: where to.
        source_gpu, source: where from.
        length, count: bytes of a line, and how many lines there are.
        stream: its handle.

    Raises:
        LaunchError: the driver refuses it.
    """
    if not length or not count:
        return
    _reach(to, source_gpu)
    (to_address, to_pitch), (from_address, from_pitch) = target, source
    if to_pitch == from_pitch == length:
        length, count = length * count, 1
    copy = driver.CUDA_MEMCPY3D_PEER()
    copy.srcMemoryType = copy.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.srcDevice, copy.dstDevice = from_address, to_address
    copy.srcContext, copy.dstContext = driver.CUcontext(source_gpu.context), driver.CUcontext(to.context)
    if count > 1:
        copy.srcPitch, copy.dstPitch = from_pitch, to_pitch
    copy.WidthInBytes, copy.Height, copy.Depth = length, count, 1
    check(driver.cuMemcpy3DPeerAsync(copy, stream))


@lru_cache
def _reach(one: CudaEngine, other: CudaEngine) -> None:
    """Have copies between two GPUs go directly, where they can; else the driver makes them through the host."""
    for gpu, peer in ((one, other), (other, one)):
        if check(driver.cuDeviceCanAccessPeer(gpu.device.device_id, peer.device.device_id)):
            with gpu.current:
                (status,) = driver.cuCtxEnablePeerAccess(driver.CUcontext(peer.context), 0)
            if status != driver.CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED:
                check((status,))
