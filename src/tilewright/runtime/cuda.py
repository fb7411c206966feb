"""The cuda engine: runs kernels on an NVIDIA GPU, through NVRTC and cuda.core."""

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, Protocol

import numpy as np
from cuda.bindings import driver
from cuda.core import LEGACY_DEFAULT_STREAM, Device, Event, EventOptions, Stream
from cuda.core.graph import Graph
from numpy.typing import NDArray

from tilewright.core import gpus
from tilewright.core.errors import EngineUnavailableError, LaunchError
from tilewright.core.problem import Order, Scalars
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Variant
from tilewright.runtime import background, nvrtc, precompiled, tensor_maps
from tilewright.runtime.arguments import pack, shape_of
from tilewright.runtime.base import Engine, Matrix, Work, array_of, matrix_at, memory_lines
from tilewright.runtime.cuda_executable import CudaExecutable
from tilewright.runtime.cuda_launch import describe, launch
from tilewright.runtime.driver import Allocation, Current, check, outside_of_captures, unavailable
from tilewright.runtime.plan import SLOTS, CachedOperand, Memory, Needs, Plan, Pointers, Step
from tilewright.runtime.relayouts import Job, numbers
from tilewright.runtime.staging import STAGED_BYTES, HostStaging, Wait
from tilewright.runtime.workspaces import Workspaces

_OTHER_BYTES = 16
"""Bytes that `start_other` sets."""

WARM_UP_S = 0.1
"""Works run untimed for this long before the first sample: an idle GPU takes a while to raise its clocks."""

REPLAY_MS = 2.0
"""A timed replay lasts about this long or longer, so that the gaps at its ends do not count."""

MOST_LAUNCHES = 2000
"""Launches in a replay, however short they are, where the operand sets are no more than that."""

ROTATION_MS = 100.0
"""A replay goes through all operand sets, unless that takes longer than this."""

_TIMED = EventOptions(timing_enabled=True)


class Replay(Protocol):
    """Runs that were recorded, as a graph's."""

    def launch(self, stream: Stream) -> object:
        """Start them all, one after the other."""


class CudaEngine(Engine):
    """One NVIDIA GPU. Matrices live in its memory; work runs on the engine's own stream unless another is given.

    May be used from several threads. A thread's current CUDA context is left as it was.

    Raises:
        EngineUnavailableError: this machine has no such GPU, or no driver for it; the message says which.
    """

    def __init__(self, device_id: int = 0) -> None:
        reason = unavailable(device_id)
        if reason is not None:
            raise EngineUnavailableError(f"the cuda engine cannot run here: {reason}")
        self.device = Device(device_id)
        callers = check(driver.cuCtxGetCurrent())
        self.device.set_current()
        try:
            handle = self.device.context.handle
            self.current = Current(handle)
            self.stream = self.device.create_stream()
        finally:
            check(driver.cuCtxSetCurrent(callers))
        major, minor = self.device.compute_capability
        self.context = int(handle)
        """Address of the GPU's CUcontext."""
        self.name = "cuda"
        self.device_name = self.device.name
        self.capability: tuple[int, int] | None = (major, minor)
        self.multiprocessors = self.device.properties.multiprocessor_count
        self.cache_bytes = self.device.properties.l2_cache_size
        self.arch = gpus.limits((major, minor)).arch
        self._workspaces = Workspaces(self.device, self.current)
        # The compiled launcher may come between the steps of a plan here: it has memory of its own.
        self._launchers_workspaces = Workspaces(self.device, self.current)
        self._one_plan = threading.Lock()
        self._executables: dict[tuple[Kernel, Config, Variant], CudaExecutable] = {}

    @cached_property
    def _of_other_work(self) -> Allocation:
        return Allocation(self.current, _OTHER_BYTES)

    @property
    def loaded(self) -> int:
        """How many kernels are loaded, each config and variant by itself."""
        return len(self._executables)

    def compile(self, kernel: Kernel, config: Config, variant: Variant) -> CudaExecutable:
        """Compile a kernel for this GPU, or take it from memory, an installed wheel, or the cache on disk.

        Raises:
            CompileError: the compiler refuses the source; its message is in the error.
            ConfigError: the kernel needs a newer GPU.
        """
        key = (kernel, config, variant)
        executable = self._executables.get(key)
        if executable is None:
            assert self.capability is not None
            if error := kernel.support.why_not_on(kernel.name, self.capability, variant.factors):
                raise error
            executable = self._executables[key] = self._from_wheel(*key) or self._load(
                *key, background.begun((*key, self.arch)) or nvrtc.compile(*key, self.arch)
            )
        return executable

    def _from_wheel(self, kernel: Kernel, config: Config, variant: Variant) -> CudaExecutable | None:
        """A kernel as an installed wheel has it; None where none has it, or the driver does not load it."""
        cubin = precompiled.find(kernel, config, variant, self.arch)
        if cubin is not None:
            with contextlib.suppress(LaunchError):
                return self._load(kernel, config, variant, cubin)
        return None

    def _load(self, kernel: Kernel, config: Config, variant: Variant, cubin: nvrtc.Cubin) -> CudaExecutable:
        with self.current:
            return CudaExecutable(kernel, config, variant, cubin, self.device)

    def codes(self, needed: Sequence[Job], capturing: Callable[[], bool] | None) -> list[Any]:
        """The code of launches, loaded.

        Raises:
            PendingCode: it is being compiled, where the thread does not wait for that (`background.never_waiting`).
        """
        if not background.waits():
            keys = [(job.kernel, job.config, job.variant) for job in needed]
            missing = [key for key in keys if key not in self._executables and not precompiled.has(*key, self.arch)]
            background.require({(*key, self.arch): partial(nvrtc.compile, *key, self.arch) for key in missing})
        return super().codes(needed, capturing)

    def code(self, job: Job, capturing: Callable[[], bool] | None) -> CudaExecutable:
        """The code of a launch, loaded; it cannot be loaded in a capture."""
        found = self._executables.get((job.kernel, job.config, job.variant))
        if found is None:
            if capturing is not None and capturing():
                raise LaunchError(
                    "the stream is being captured, and the code of this product is not compiled: multiply arrays of "
                    "this kind once before the capture, or call tilewright.plan with them"
                )
            found = self.compile(job.kernel, job.config, job.variant)
        return found

    def step(self, job: Job, executable: CudaExecutable) -> Step:
        """A launch of this code, with its tensor maps and parameters."""
        kernel, config, problem = job.kernel, job.config, job.problem
        layouts = tensor_maps.layouts(kernel, config, problem, job.variant.aligned)
        maps = {name: describe(layout) for name, layout in layouts.items()}
        scheduled = kernel.scheduled(problem, config, self.multiprocessors)
        arguments, slots = pack(kernel, problem, job.sources, maps, scheduled.division, numbers(job.copies))
        blocks = scheduled.blocks if job.blocks is None else job.blocks
        if scheduled.any_number and blocks > executable.at_once:
            blocks = executable.at_once
        grid, block, shared_bytes = executable.geometry(problem, blocks)
        how, offsets = executable.attribute, shape_of(kernel.arguments).offsets
        return Step(executable.handle, grid, block, shared_bytes, how, arguments, offsets, slots)

    def start(self, plan: Plan, pointers: Pointers, scalars: Scalars = Scalars(), stream: Any = None) -> None:
        """Start the launches of a plan.

        Args:
            plan: from this engine's `plan`.
            pointers: of operands in this GPU's memory; they must live until the work has ended.
            scalars: alpha, which is not 0, and beta.
            stream: None for the engine's own, an object with `__cuda_stream__`, or a stream's handle as an integer.

        Raises:
            LaunchError: the driver refuses a launch. A kernel that fails later shows in `synchronize` and `download`.
            MemoryError: the plan needs a workspace, and the GPU's memory is full.
        """
        if plan.kernel.is_user_kernel:  # the others take any
            plan.kernel.check_scalars(scalars)
        if not plan.steps:
            return
        on = self.stream if stream is None else _as_stream(stream)
        with self._one_plan, self.current:
            needs = plan.needs
            own = Needs(counters=needs.counters) if pointers.scratch else needs
            memory = self._workspaces.memory(int(on.handle), own) if any(own) else Memory()
            if pointers.scratch:
                copies = pointers.scratch + needs.relayout_begin
                memory = memory._replace(workspace=pointers.scratch, relayout=copies)
            addresses = dict(zip(SLOTS, pointers, strict=True))
            addresses["C"] = pointers.c or pointers.d
            addresses["workspace"] = memory.workspace if needs.workspace_bytes else 0
            addresses["counters"] = memory.counters if needs.counters else 0
            addresses["relayout"] = memory.relayout
            for step in plan.steps:
                launch(step, addresses, scalars, int(on.handle))

    def keep(self, cached: CachedOperand, pointer: int, stream: Any) -> Matrix:
        """Memory with a copy of the operand at this address, made on a stream; the work has ended on return.

        Raises:
            LaunchError: the driver refuses a launch, or the stream is being captured.
            MemoryError: the GPU's memory is full.
        """
        if self.capturing(stream):
            raise LaunchError(
                "the stream is being captured, and what is cached of a prepared array for this product is not made: "
                "multiply arrays of this kind once before the capture, or call tilewright.plan with them"
            )
        on = self.stream if stream is None else _as_stream(stream)
        with self.current, outside_of_captures():
            memory = Allocation(self.current, cached.bytes)
            check(driver.cuMemsetD8Async(memory.pointer, 0, cached.bytes, on.handle))
            addresses = {"A": pointer, "B": pointer, "cached": memory.pointer}
            launch(cached.step, addresses, Scalars(), int(on.handle))
            on.sync()
        return Matrix(memory.pointer, 1, cached.bytes, cached.bytes, "uint8", owner=memory)

    @cached_property
    def staging(self) -> HostStaging:
        """Staging that copies arrays of the host."""
        return HostStaging(self.device, self.current, self.stream)

    def workspace(self, stream: int, needs: tuple[int, int, int]) -> Memory:
        """Memory for a launch of the compiled launcher on a stream, by its handle; see `Workspaces.memory`."""
        return self._launchers_workspaces.memory(stream, Needs(*needs))

    def capturing(self, stream: Any) -> bool:
        """Whether launches on a stream are being captured into a graph."""
        on = self.stream if stream is None else _as_stream(stream)
        with self.current:
            status = check(driver.cuStreamIsCapturing(on.handle))
        return bool(status != driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)

    def upload(self, array: NDArray[Any], ld: int = 0, order: Order = "row") -> Matrix:
        """Copy an array of 2 dimensions, or of 3 (a batch), to the GPU, with ld elements a row (or column, by the
        order; 0: no gap); the gaps hold NaN.

        Raises:
            ArrayError: it has another number of dimensions.
            ProblemError: ld is smaller than a row.
            MemoryError: the GPU's memory is full.
        """
        lines = memory_lines(array, ld, order)
        memory = Allocation(self.current, lines.nbytes)
        if lines.nbytes >= STAGED_BYTES:
            self.staging.load(memory.pointer, lines)()
        elif lines.nbytes:
            with self.current:
                check(driver.cuMemcpyHtoDAsync(memory.pointer, lines.ctypes.data, lines.nbytes, self.stream.handle))
                self.stream.sync()
        return matrix_at(memory.pointer, array, lines.shape[1], order, memory)

    def empty(self, rows: int, cols: int, dtype: str = "float32") -> Matrix:
        """Memory for a row-major matrix without gaps; nothing was written to it, so its elements are undefined.

        Raises:
            MemoryError: the GPU's memory is full.
        """
        memory = Allocation(self.current, rows * cols * np.dtype(dtype).itemsize)
        return Matrix(memory.pointer, rows, cols, max(cols, 1), dtype, owner=memory)

    def download(self, matrix: Matrix) -> NDArray[Any]:
        """Copy a matrix, or a batch, to a new host array, after all work started on the GPU has ended.

        Raises:
            LaunchError: some of that work failed.
        """
        self.synchronize()
        count, length = matrix.lines
        lines = np.empty((count, matrix.ld), dtype=matrix.dtype)
        if count and length:
            elements = (count - 1) * matrix.ld + length  # the memory may end with the last line's last one
            with self.current:
                size = elements * lines.itemsize
                check(driver.cuMemcpyDtoHAsync(lines.ctypes.data, matrix.pointer, size, self.stream.handle))
                self.stream.sync()
        return array_of(lines[:, :length], matrix)

    def free_bytes(self) -> int:
        """Memory of the GPU that nobody has allocated."""
        with self.current:
            return int(check(driver.cuMemGetInfo()))

    def mark(self) -> Event:
        """Event that is reached when the work started so far on the engine's own stream has ended."""
        with self.current:
            return self.stream.record()

    def load(self, pointer: int, array: NDArray[Any], after: Event | None = None) -> Wait:
        """Start to copy an array to the GPU; see `Engine.load`.

        Raises (the function too):
            LaunchError: the driver refuses it, or work before it failed.
        """
        return self.staging.load(pointer, array, after)

    def store(self, array: NDArray[Any], pointer: int, after: Event) -> Wait:
        """Start to copy memory of the GPU to an array; see `Engine.store`.

        Raises (the function too):
            LaunchError: the driver refuses it, or work before it failed.
        """
        return self.staging.store(array, pointer, after)

    def synchronize(self) -> None:
        """Wait until all work on the GPU, on any stream, has ended.

        Raises:
            LaunchError: some of it failed. The process cannot use this GPU any more then.
        """
        with self.current:
            check(driver.cuCtxSynchronize())

    def start_other(self, stream: Any = None) -> None:
        """Start to set a few bytes of the GPU's memory: work that no launch can overlap, as other kernels mostly are.

        Raises:
            LaunchError: the driver refuses it.
        """
        on = self.stream if stream is None else _as_stream(stream)
        with self.current:
            check(driver.cuMemsetD8Async(self._of_other_work.pointer, 0, _OTHER_BYTES, on.handle))

    def time(
        self, works: Sequence[Work], samples: int, *, rotation: int = 1, on_sample: Callable[[], None] = lambda: None
    ) -> list[list[float]]:
        """Time several works against each other by replaying, for each, a graph of many runs between two events.

        Replays of the works take turns, one sample each, so that drift of the clocks hits all alike. The
        next replay is queued while one runs, so that the GPU does not wait for the host between them.

        Args:
            works: what to time; each is warmed up first.
            samples: timed samples of each.
            rotation: how many runs it takes until a work comes back to the same operands. A replay covers
                them all unless that takes longer than `ROTATION_MS`.
            on_sample: called after every sample.

        Returns:
            for each work its samples: microseconds a run.

        Raises:
            LaunchError: a work failed.
        """
        with self.current:
            run_ms = self._warm_up(works)
            replays = [self._replay(work, rotation, ms) for work, ms in zip(works, run_ms, strict=True)]
        return self.time_replays(replays, samples, on_sample)

    def time_replays(
        self, replays: Sequence[tuple[Replay, int]], samples: int, on_sample: Callable[[], None] = lambda: None
    ) -> list[list[float]]:
        """Time what was recorded: replays take turns, one sample each, and the next is queued while one runs.

        Args:
            replays: what to replay, and how many runs each has.
            samples: timed samples of each.
            on_sample: called after every sample.

        Returns:
            for each its samples: microseconds a run.

        Raises:
            LaunchError: a run failed.
        """
        times: list[list[float]] = [[] for _ in replays]
        queued: deque[tuple[list[float], int, Event, Event]] = deque()

        def finish() -> None:
            results, launches, start, end = queued.popleft()
            end.sync()
            results.append(float(end - start) * 1e3 / launches)
            on_sample()

        with self.current:
            for _ in range(samples):
                for (graph, launches), results in zip(replays, times, strict=True):
                    start = self.stream.record(options=_TIMED)
                    graph.launch(self.stream)
                    queued.append((results, launches, start, self.stream.record(options=_TIMED)))
                    if len(queued) > 1:
                        finish()
            while queued:
                finish()
        return times

    def run_us(self, work: Work) -> float:
        """Microseconds of one run, with what it takes the host to start it."""
        with self.current:
            return 1e3 * self._elapsed_ms(partial(work, 0, self.stream))

    def record(self, work: Work, launches: int) -> Graph:
        """A graph of runs, one after the other: what `time_replays` takes."""
        with self.current:
            return self._record(work, launches)

    def _warm_up(self, works: Sequence[Work]) -> list[float]:
        """Run all works in turn until the clocks are up; returns for each the milliseconds of its shortest run.

        Not of the last: one that something held up for milliseconds would make a replay of a few launches, whose time
        is that of starting a graph.
        """
        end = time.perf_counter() + WARM_UP_S
        run_ms = [math.inf] * len(works)
        while True:
            run_ms = [
                min(ms, self._elapsed_ms(partial(work, 0, self.stream))) for ms, work in zip(run_ms, works, strict=True)
            ]
            if time.perf_counter() >= end:
                return run_ms

    def _replay(self, work: Work, rotation: int, run_ms: float) -> tuple[Graph, int]:
        """A graph of as many runs as make a replay long enough to be timed, and how many that are."""
        launches = max(1, min(rotation, int(ROTATION_MS / run_ms)))
        most = rotation * max(1, MOST_LAUNCHES // rotation)
        while True:
            graph = self._record(work, launches)
            if run_ms * launches >= ROTATION_MS / 2:
                return graph, launches
            replay_ms = self._elapsed_ms(partial(graph.launch, self.stream))
            if replay_ms >= REPLAY_MS or launches >= most:
                return graph, launches
            enough = 1.2 * REPLAY_MS / replay_ms * launches
            launches = min(most, rotation * math.ceil(enough / rotation))

    def _record(self, work: Work, launches: int) -> Graph:
        """A graph of runs, one after the other."""
        builder = self.device.create_graph_builder().begin_building()
        for index in range(launches):
            work(index, builder.stream)
        graph = builder.end_building().complete()
        graph.upload(self.stream)
        return graph

    def _elapsed_ms(self, start_work: Callable[[], None]) -> float:
        """Milliseconds from the start to the end of some work, as the GPU sees it; never 0."""
        start = self.stream.record(options=_TIMED)
        start_work()
        end = self.stream.record(options=_TIMED)
        end.sync()
        return max(float(end - start), 1e-3)


def _as_stream(stream: Any) -> Stream:
    """A stream of this or another library as cuda.core's own."""
    if isinstance(stream, Stream):
        return stream
    if isinstance(stream, int):
        return _from_handle(stream)
    if hasattr(stream, "__cuda_stream__"):
        return _from_handle(stream.__cuda_stream__()[1])
    takes = "None, an object with __cuda_stream__ or a handle"
    raise LaunchError(f"stream must be {takes}, got {type(stream).__name__}")


@lru_cache
def _from_handle(handle: int) -> Stream:
    return Stream.from_handle(handle) if handle else LEGACY_DEFAULT_STREAM
