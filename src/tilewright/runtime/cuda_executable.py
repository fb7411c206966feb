"""A kernel's machine code on one GPU, and the geometry that it is launched with."""

import math
from functools import cached_property
from typing import NamedTuple

from cuda.bindings import driver
from cuda.core import Device, ObjectCode
from cuda.core import Kernel as Function

from tilewright.core import gpus
from tilewright.core.errors import LaunchError
from tilewright.core.hardware import ceil_div
from tilewright.core.problem import Problem
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel, Launch
from tilewright.kernels.support import Variant
from tilewright.runtime import nvrtc
from tilewright.runtime.driver import check
from tilewright.runtime.plan import COOPERATIVE, OVERLAPS

_MOST_BLOCKS = 2**31 - 1
"""Blocks of a grid, along x, at most."""

_MOST_EXTENTS = (_MOST_BLOCKS, 65535, 65535)
"""Blocks of a grid, along x, y and z, at most."""

_DEPENDENT_LAUNCHES = (9, 0)
"""Compute capability from which on a launch may begin while the one before it runs."""


class CudaExecutable:
    """A kernel's machine code on one GPU."""

    _held: int | None = None
    """Blocks that a multiprocessor runs at once, of a kernel that synchronises its grid."""
    at_once = _MOST_BLOCKS
    """Blocks of all clusters that run at once. How many fit is each GPU's own: a cluster lies within a group of
    multiprocessors, of which some are switched off."""

    def __init__(self, kernel: Kernel, config: Config, variant: Variant, cubin: nvrtc.Cubin, device: Device) -> None:
        self.kernel = kernel
        self.config = config
        self.variant = variant
        self.report = cubin.report
        self.function: Function = ObjectCode.from_cubin(cubin.code, name=kernel.name).get_kernel(cubin.entry)
        self.handle = int(check(driver.cuKernelGetFunction(self.function.handle)))
        """Address of the driver.CUfunction."""
        overlaps = kernel.overlaps and device.compute_capability >= _DEPENDENT_LAUNCHES
        self.attribute = COOPERATIVE if cubin.cooperative else OVERLAPS if overlaps else 0
        """Attribute of its launches, see `Step.attribute`."""
        self._limits = gpus.limits(device.compute_capability)
        facts, static_bytes = device.properties, cubin.report.shared_bytes or 0
        self._room = _DynamicShared(
            facts.multiprocessor_count,
            facts.max_shared_memory_per_multiprocessor,
            facts.reserved_shared_memory_per_block + static_bytes,
            facts.max_shared_memory_per_block_optin - static_bytes,
        )
        self._spreads = kernel.relayouts(config) is not None
        self._bundle = kernel.bundle(config)
        # More than 48 KiB must be asked for; a launch reports what is too much.
        if kernel.shared_bytes(config, variant.layout) > 0:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(driver.cuKernelSetAttribute(attribute, self._room.of_block, self.function.handle, device.device_id))
        if self.attribute == COOPERATIVE:
            one = self._of_one
            where = driver.CUfunction(self.handle), math.prod(one.block), one.shared_bytes
            self._held = check(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(*where))
        if kernel.schedule and (cluster := kernel.cluster(config)) > 1:
            one, launch = self._of_one, driver.CUlaunchConfig()
            launch.gridDimX, launch.gridDimY, launch.gridDimZ = cluster, 1, 1
            launch.blockDimX, launch.blockDimY, launch.blockDimZ = one.block
            launch.sharedMemBytes = one.shared_bytes
            found = check(driver.cuOccupancyMaxActiveClusters(driver.CUfunction(self.handle), launch))
            self.at_once = cluster * max(int(found), 1)

    def geometry(self, problem: Problem, blocks: int | None = None) -> Launch:
        """Grid, block and shared memory of a launch; blocks: how many, where that does not follow from the problem.

        Raises:
            LaunchError: it is a geometry that a GPU refuses.
        """
        if self.kernel.is_user_kernel:
            grid = self.kernel.launch(problem, self.config, self._room.multiprocessors).grid
            if not all(1 <= blocks <= most for blocks, most in zip(grid, _MOST_EXTENTS, strict=True)):
                extents = " x ".join(map(str, _MOST_EXTENTS))
                raise LaunchError(f"{self.kernel.name}: a grid must have 1 to {extents} blocks, got {grid}")
            if self._held is not None:  # blocks that wait for each other must all run at once
                blocks, most = math.prod(grid), self._held * self._room.multiprocessors
                if blocks > most:
                    raise LaunchError(
                        f"{self.kernel.name} synchronises its grid, of which this GPU runs at most {most} blocks at "
                        f"once, {self._held} on each of {self._room.multiprocessors} multiprocessors; got {blocks}"
                    )
            return self._of_one._replace(grid=grid)
        count = self.kernel.launched(problem, self.config, self._room.multiprocessors, blocks)
        bundles, (_, block, shared_bytes) = ceil_div(count, self._bundle), self._of_one
        if bundles > _MOST_BLOCKS:
            raise LaunchError(f"{self.kernel.name}: a grid must have at most {_MOST_BLOCKS} blocks, got {bundles}")
        if self._spreads:
            shared_bytes = self._room.spread(bundles, shared_bytes)
        return Launch((bundles, 1, 1), block, shared_bytes)

    @cached_property
    def _of_one(self) -> Launch:
        """Launch of one block, or one bundle: all of a launch but the size of its grid."""
        kernel, limits, most = self.kernel, self._limits, self._room.of_block
        one = Launch((1, 1, 1), kernel.block(self.config), kernel.shared_bytes(self.config, self.variant.layout))
        one = one.bundled(self._bundle)
        x, y, z = one.block
        if x * y * z > limits.threads_per_block or z > limits.block_z:
            raise LaunchError(
                f"{kernel.name}: a block must have at most {limits.threads_per_block} threads, "
                f"{limits.block_z} along z, got {one.block}"
            )
        if one.shared_bytes > most:
            raise LaunchError(
                f"{kernel.name}: a block must have at most {most} bytes of dynamic shared memory, "
                f"got {one.shared_bytes}"
            )
        return one


class _DynamicShared(NamedTuple):
    """Shared memory that is left to the dynamic part of a kernel's blocks."""

    multiprocessors: int
    of_multiprocessor: int
    """Bytes that all blocks on one have, with those below."""
    taken: int
    """Bytes of a block that the system and its static variables take."""
    of_block: int
    """Bytes that a block may ask for."""

    def spread(self, blocks: int, shared_bytes: int) -> int:
        """Shared memory to ask for, so much that blocks fill no multiprocessor while others have none.

        Blocks that begin while the launch before theirs ends gather on the multiprocessors that are free first.
        """
        most = ceil_div(blocks, self.multiprocessors)
        too_many = self.of_multiprocessor // (most + 1) + 1 - self.taken
        return max(shared_bytes, min(too_many, self.of_block))
