"""A kernel's machine code on one GPU, and how it is launched."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from cuda.bindings.driver import (
    CUfunction_attribute,
    CUlaunchAttribute,
    CUlaunchAttributeID,
    CUlaunchConfig,
    cuKernelGetFunction,
    cuKernelSetAttribute,
    cuLaunchKernel,
    cuLaunchKernelEx,
)
from cuda.core import Device, LaunchConfig, ObjectCode, Stream, launch
from cuda.core import Kernel as Function

from tilewright import gpus
from tilewright.engines import nvrtc, tensor_maps
from tilewright.engines.base import Matrix
from tilewright.engines.driver import check
from tilewright.engines.launch_arguments import LaunchArguments, with_maps
from tilewright.errors import LaunchError
from tilewright.kernels.spec import VECTOR_BYTES, Config, Kernel, Launch, Specialization, Workspace
from tilewright.problem import ITEM_BYTES, RESULT_DTYPE, Problem

_MAX_GRID = (2**31 - 1, 65535, 65535)

_MOST_ARGUMENTS = 4096
"""Sets of operands whose arguments are kept: as many as a benchmark rotates through."""

_DEPENDENT_LAUNCHES = (9, 0)
"""Compute capability from which on a launch may begin while the one before it runs."""


class CudaExecutable:
    """A kernel's machine code on one GPU."""

    def __init__(
        self, kernel: Kernel, config: Config, specialization: Specialization, cubin: nvrtc.Cubin, device: Device
    ) -> None:
        self.kernel = kernel
        self.config = config
        self.specialization = specialization
        self.report = cubin.report
        self.function: Function = ObjectCode.from_cubin(cubin.code, name=kernel.name).get_kernel(cubin.entry)
        self._limits = gpus.limits(device.compute_capability)
        self._room = _Room.of(device, cubin.report.shared_bytes or 0)
        self._overlaps = kernel.overlaps and device.compute_capability >= _DEPENDENT_LAUNCHES
        self._call: _Call | None = None
        self._raw = check(cuKernelGetFunction(self.function.handle)) if kernel.tensor_maps else None
        if kernel.shared_bytes(config) > 0:  # more than 48 KiB must be asked for; a launch reports what is too much
            attribute = CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(cuKernelSetAttribute(attribute, self._room.of_block, self.function.handle, device.device_id))

    def call(self, problem: Problem) -> "_Call":
        """What a launch of this problem needs besides its pointers; kept until another problem comes.

        Raises:
            LaunchError: the geometry is one that a GPU refuses, or the code lacks guards that the problem needs.
        """
        call = self._call
        if call is None or (call.problem is not problem and call.problem != problem):
            self._check_guards(problem)
            geometry = self.kernel.launch(problem, self.config).bundled(self.kernel.bundle(self.config))
            self._check_geometry(geometry)
            if self.kernel.packs:
                geometry = self._room.spread(geometry)
            workspace = self.kernel.workspace(problem, self.config)
            call = self._call = _Call.of(problem, geometry, workspace, self._overlaps)
        return call

    def start(
        self,
        call: "_Call",
        stream: Stream,
        a: Matrix,
        b: Matrix,
        c: Matrix,
        workspace: tuple[int, ...],
    ) -> None:
        """Launch on a stream; the GPU's context is current.

        Args:
            call: from `call`.
            stream: where to launch.
            a, b, c: the operands.
            workspace: addresses of the workspace and its tickets, where the kernel takes them.
        """
        if self._raw is None:
            sizes_and_alpha = (call.m, call.n, call.k, call.alpha)
            operands = (a.pointer, call.lda, b.pointer, call.ldb, call.beta, c.pointer, call.ldc)
            launch(stream, call.launch, self.function, *sizes_and_alpha, *operands, *workspace)
            return
        key = (a.pointer, b.pointer, c.pointer, *workspace)
        arguments = call.arguments.get(key)
        if arguments is None:
            if len(call.arguments) >= _MOST_ARGUMENTS:
                call.arguments.clear()
            layouts = tensor_maps.layouts(self.kernel, self.config, call.problem, a, b)
            arguments = call.arguments[key] = with_maps(call.problem, layouts, c.pointer, workspace)
        if self._overlaps:
            check(cuLaunchKernelEx(_dependent(call.geometry, int(stream.handle)), self._raw, arguments.address, 0))
            return
        grid, block, shared_bytes = call.geometry
        check(cuLaunchKernel(self._raw, *grid, *block, shared_bytes, stream.handle, arguments.address, 0))

    def _check_guards(self, problem: Problem) -> None:
        self.kernel.check(problem)
        needed = self.kernel.specialize(problem, self.config, (0, 0, 0))
        if needed.dtype != self.specialization.dtype:
            raise LaunchError(f"{self.kernel.name} was compiled for {self.specialization.dtype}, got {needed.dtype}")
        if needed.edges and not self.specialization.edges:
            raise LaunchError(
                f"{self.kernel.name} was compiled without bounds checks; {problem.shape} is no multiple of its tile"
            )
        if self.specialization.aligned and not needed.aligned:
            raise LaunchError(
                f"{self.kernel.name} was compiled for aligned rows: lda and ldb must be multiples of "
                f"{VECTOR_BYTES // ITEM_BYTES[problem.dtype]} and ldc of {VECTOR_BYTES // ITEM_BYTES[RESULT_DTYPE]}, "
                f"got {problem.lda}, {problem.ldb} and {problem.ldc}"
            )

    def _check_geometry(self, geometry: Launch) -> None:
        name, limits = self.kernel.name, self._limits
        if math.prod(geometry.block) > limits.threads_per_block or geometry.block[2] > limits.block_z:
            raise LaunchError(
                f"{name}: a block must have at most {limits.threads_per_block} threads, "
                f"{limits.block_z} along z, got {geometry.block}"
            )
        if any(blocks > most for blocks, most in zip(geometry.grid, _MAX_GRID, strict=True)):
            raise LaunchError(f"{name}: a grid must have at most {_MAX_GRID} blocks, got {geometry.grid}")
        if geometry.shared_bytes > self._room.of_block:
            raise LaunchError(
                f"{name}: a block must have at most {self._room.of_block} bytes of dynamic shared memory, "
                f"got {geometry.shared_bytes}"
            )


class _Room(NamedTuple):
    """Shared memory that is left to the dynamic part of a kernel's blocks."""

    multiprocessors: int
    of_multiprocessor: int
    """Bytes that all blocks on one have, with those below."""
    taken: int
    """Bytes of a block that the system and its static variables take."""
    of_block: int
    """Bytes that a block may ask for."""

    @classmethod
    def of(cls, device: Device, static_bytes: int) -> "_Room":
        facts = device.properties
        return cls(
            facts.multiprocessor_count,
            facts.max_shared_memory_per_multiprocessor,
            facts.reserved_shared_memory_per_block + static_bytes,
            facts.max_shared_memory_per_block_optin - static_bytes,
        )

    def spread(self, geometry: Launch) -> Launch:
        """The same launch, of blocks that ask for so much that they fill no multiprocessor while others have none.

        Blocks that begin while the launch before theirs ends gather on the multiprocessors that are free first.
        """
        most = -(-math.prod(geometry.grid) // self.multiprocessors)
        too_many = self.of_multiprocessor // (most + 1) + 1 - self.taken
        return geometry._replace(shared_bytes=max(geometry.shared_bytes, min(too_many, self.of_block)))


class _Call(NamedTuple):
    """A launch of one problem, but for the pointers.

    Its numbers are NumPy's, since cuda.core passes a Python int as 64 bits and a float as a double.
    """

    problem: Problem
    geometry: Launch
    launch: LaunchConfig
    workspace: Workspace | None
    arguments: dict[tuple[int, ...], LaunchArguments]
    """Of kernels that take tensor maps, by the pointers that are in them."""
    m: np.int32
    n: np.int32
    k: np.int32
    alpha: np.float32
    lda: np.int32
    ldb: np.int32
    beta: np.float32
    ldc: np.int32

    @classmethod
    def of(cls, problem: Problem, geometry: Launch, workspace: Workspace | None, overlaps: bool) -> "_Call":
        return cls(
            problem,
            geometry,
            LaunchConfig(
                grid=geometry.grid,
                block=geometry.block,
                shmem_size=geometry.shared_bytes,
                programmatic_stream_serialization=overlaps,
            ),
            workspace,
            {},
            m=np.int32(problem.m),
            n=np.int32(problem.n),
            k=np.int32(problem.k),
            alpha=np.float32(problem.alpha),
            lda=np.int32(problem.lda),
            ldb=np.int32(problem.ldb),
            beta=np.float32(problem.beta),
            ldc=np.int32(problem.ldc),
        )


@lru_cache(maxsize=1024)
def _dependent(geometry: Launch, stream: int) -> CUlaunchConfig:
    """Of a launch that may begin while the one before it on the stream still runs. Never changed once it is made."""
    overlap = CUlaunchAttribute()
    overlap.id = CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    overlap.value.programmaticStreamSerializationAllowed = 1
    config = CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = geometry.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = geometry.block
    config.sharedMemBytes = geometry.shared_bytes
    config.hStream = stream
    config.attrs = [overlap]
    config.numAttrs = 1
    return config
