"""Runs launches of kernels that are no matrix products: their buffers in memory, watched, in several orders."""

import ctypes
import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.errors import LaunchError
from tilewright.emulator.checker import Checker, Finding, padded
from tilewright.emulator.compiler import CHECKED, ZEROED, Build, compile_kernel
from tilewright.emulator.engine import Array, aligned_memory, tensor_map
from tilewright.emulator.program import UNWATCHED, Program, Watch, load_compiled
from tilewright.emulator.schedules import BACKWARDS, Arrays, Seen, first_run, orders, run_again
from tilewright.kernels.source.buffers import Buffer, Map, Maps
from tilewright.kernels.source.lines import arguments_of
from tilewright.kernels.source.source_launch import SourceLaunch
from tilewright.runtime.base import Matrix
from tilewright.runtime.device_errors import check_for_gpu
from tilewright.runtime.side_by_side import Workers
from tilewright.runtime.tensor_maps import of_array

_POISONS = (0xFF, 0xA5)
"""Bytes of what nobody has written: an element that holds the first after one run and the second after another one was
never written."""
_LIKE_ROUNDING = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-4, "float64": 1e-10}
"""How far elements may be apart, compared with the largest one, when threads add up in another order."""


class CheckedLaunch(NamedTuple):
    """Findings of the check of a launch, and its buffers before and after."""

    findings: list[Finding]
    inputs: Arrays
    """Contents of buffers before the launch; poison in those that are 'out'."""
    outputs: Arrays
    """Contents of buffers that may be written, afterwards."""
    notes: list[Finding]
    """Findings that are no fault (`Finding.is_note`)."""


def draw(launch: SourceLaunch, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Contents of a launch's buffers before it begins; one seed always draws the same."""
    random = np.random.default_rng(seed)
    return {buffer.name: _drawn(buffer, random) for buffer in (*launch.contents.buffers, *launch.contents.constants)}


def _drawn(buffer: Buffer, random: np.random.Generator) -> NDArray[Any]:
    dtype = np.dtype(buffer.dtype)
    if buffer.role == "out":
        return _poisoned(buffer, _POISONS[0])
    if buffer.role == "zeros":
        return np.zeros(buffer.shape, dtype)
    drawn = buffer.drawn
    if dtype.kind in "iu":
        low, high = (int(drawn.low), int(drawn.high)) if drawn else (0, 99)
        return random.integers(low, high, buffer.shape, endpoint=True).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 1, buffer.shape, endpoint=True).astype(dtype)
    if drawn:
        return random.uniform(drawn.low, drawn.high, buffer.shape).astype(dtype)
    return random.standard_normal(buffer.shape).astype(dtype)


def _poisoned(buffer: Buffer, poison: int) -> NDArray[Any]:
    return np.full(buffer.bytes, poison, np.uint8).view(buffer.dtype).reshape(buffer.shape)


def compile_launch(launch: SourceLaunch, build: Build) -> Program:
    """The launch's kernel, compiled in this build.

    Raises:
        CompileError: the compiler refuses the source.
        EngineUnavailableError: there is no C++ compiler.
    """
    filled = [one.name for one in launch.contents.constants]
    compiled = partial(
        compile_kernel, launch.file, launch.entry, launch.defines, build, is_user_kernel=True, filled=filled
    )
    return load_compiled(compiled, launch.name, build)


def compile_for_check(launch: SourceLaunch) -> tuple[Program, Program]:
    """The kernel of a launch for `check_launch`, compiled side by side: in the CHECKED build, and in the ZEROED one.

    Raises:
        CompileError, EngineUnavailableError: as `compile_launch`, or no GPU's compiler takes the source.
    """
    with Workers(3) as threads:
        on_gpu = threads.submit(check_for_gpu, launch.file, launch.entry, launch.defines)
        checked, zeroed = threads.map(lambda build: compile_launch(launch, build), (CHECKED, ZEROED))
        on_gpu.result()
    return checked, zeroed


class Placed:
    """A launch's buffers in memory, with room around each of them."""

    def __init__(self, launch: SourceLaunch, arrays: Arrays) -> None:
        """Place copies of arrays."""
        self._launch = launch
        self._constants = {one.name: arrays[one.name].tobytes() for one in launch.contents.constants}
        self.matrices: dict[str, Matrix] = {}
        for buffer in launch.contents.buffers:
            array, length = arrays[buffer.name], buffer.shape[-1]
            self.matrices[buffer.name] = padded(array.reshape(math.prod(buffer.shape[:-1]), length), length)

    def run(self, program: Program, watch: Watch = UNWATCHED) -> None:
        """Launch the kernel.

        Raises:
            LaunchError: a GPU would refuse the launch, or the kernel failed.
        """
        values = []
        for argument in self._launch.contents.arguments:
            if isinstance(argument, Maps):
                values.append(_aligned(b"".join(map(self._tensor_map, argument.maps))))
                continue
            if isinstance(argument, Buffer):
                content = ctypes.string_at(ctypes.addressof(ctypes.c_void_p(self.matrices[argument.name].pointer)), 8)
            else:
                content = np.array(argument.value, argument.dtype).tobytes()
            values.append((ctypes.c_ubyte * len(content)).from_buffer_copy(content))
        for name, content in self._constants.items():
            program.fill(name, content)
        launch = self._launch
        program.launch(launch.grid, launch.block, values, launch.shared_bytes, watch, launch.cluster)

    def failure(self, program: Program, watch: Watch) -> LaunchError | None:
        """Launch the kernel; why it failed, if it did."""
        try:
            self.run(program, watch)
        except LaunchError as failure:
            return failure
        return None

    def _tensor_map(self, one: Map) -> bytes:
        matrix = self.matrices[one.array]
        (shape,) = (buffer.shape for buffer in self._launch.contents.buffers if buffer.name == one.array)
        stride, pointer = matrix.ld * np.dtype(matrix.dtype).itemsize, matrix.pointer
        if one.part is not None:
            pointer, shape = pointer + one.part * math.prod(shape[1:-1]) * stride, shape[1:]
        return tensor_map(of_array(pointer, shape, stride, matrix.dtype, one.box))

    def written(self) -> dict[str, NDArray[Any]]:
        """Contents of the buffers that may be written."""
        return {one.name: self._read(one) for one in self._launch.contents.buffers if one.role != "in"}

    def checked_arrays(self) -> list[Array]:
        """The buffers as the checker takes them."""
        return [
            Array(one.name, matrix, one.role != "out", one.role == "in", matrix.owner.slack)
            for one, matrix in ((one, self.matrices[one.name]) for one in self._launch.contents.buffers)
        ]

    def _read(self, buffer: Buffer) -> NDArray[Any]:
        content = ctypes.string_at(self.matrices[buffer.name].pointer, buffer.bytes)
        return np.frombuffer(content, buffer.dtype).reshape(buffer.shape)


def _aligned(maps: bytes) -> Any:
    """Tensor maps, aligned as the kernel has them."""
    memory = aligned_memory(len(maps))
    memory[:] = np.frombuffer(maps, np.uint8)
    return (ctypes.c_ubyte * len(maps)).from_buffer(memory.data)


def check_launch(launch: SourceLaunch, seed: int = 0) -> CheckedLaunch:
    """Run a launch, and look for what is wrong, as `check` does of matrix products.

    Where shuffles read lanes that take no part, it runs with other values of these. Where nothing is found, it runs
    again in other orders of threads and blocks (`orders`). Integers must be the same then; of floats a sum may be added
    up in another order, so these may differ by its rounding. Elements of 'out' that no run writes are a finding too. At
    last it runs with other contents of local variables that it has not written.

    Args:
        launch: what is checked.
        seed: of the inputs.

    Raises:
        CompileError: the compiler refuses the source.
        EngineUnavailableError: there is no C++ compiler, or, where something is found, no binutils.
    """
    (program, zeroed), inputs = compile_for_check(launch), draw(launch, seed)
    first, findings, notes = first_run(partial(_watched, launch, inputs, program))
    outputs = first.outputs
    if findings:
        return CheckedLaunch(findings, inputs, outputs, notes)
    poisoned = {one.name: _poisoned(one, _POISONS[1]) for one in launch.contents.buffers if one.role == "out"}
    for order, watch in orders(program.has_turns, first.together).items():
        again, error = run_again(partial(_run, launch, {**inputs, **poisoned}, program), watch)
        if error:
            findings.append(Finding("order", None, message=error))
        elif order == BACKWARDS:
            findings += [one for name in poisoned if (one := _unwritten(name, outputs[name], again[name]))]
        if findings:
            break
        words = f"others when threads run {order}"
        findings += [one for name in outputs if (one := _differing("order", name, outputs[name], again[name], words))]
    if not findings:
        again, _ = run_again(partial(_run, launch, inputs, zeroed), Watch(together=first.together))
        kind, words = "uninitialized read", "others when local variables hold zeros before they are written"
        findings += [one for name in outputs if (one := _differing(kind, name, outputs[name], again[name], words))]
    return CheckedLaunch(findings, inputs, outputs, notes)


def _watched(launch: SourceLaunch, inputs: Arrays, program: Program, together: bool, absent_lanes: int) -> Seen:
    """Run a launch under a checker."""
    placed = Placed(launch, inputs)
    source = launch.file, {**launch.macros, **arguments_of(launch.signature.template, launch.entry)}
    checker = Checker(program.library, placed.checked_arrays(), source=source)
    failure = placed.failure(program, Watch(checker, together=together, absent_lanes=absent_lanes))
    return Seen.by([checker], placed.written(), failure, together)


def _run(launch: SourceLaunch, arrays: Arrays, program: Program, watch: Watch) -> tuple[Arrays, LaunchError | None]:
    """Run a launch: what it wrote, and why it failed."""
    placed = Placed(launch, arrays)
    failure = placed.failure(program, watch)
    return placed.written(), failure


def _unwritten(name: str, first: NDArray[Any], second: NDArray[Any]) -> Finding | None:
    poisons = (np.full(first.itemsize, poison, np.uint8).view(f"u{first.itemsize}") for poison in _POISONS)
    bits = f"u{first.itemsize}"
    same = [array.view(bits) == poison for array, poison in zip((first, second), poisons, strict=True)]
    where = np.argwhere(same[0] & same[1])
    if not len(where):
        return None
    return Finding("unwritten", None, message=f"{_some(name, where, first.size)} never written")


def _differing(kind: str, name: str, first: NDArray[Any], other: NDArray[Any], words: str) -> Finding | None:
    if first.dtype.name in _LIKE_ROUNDING:
        one, two = first.astype(np.float64), other.astype(np.float64)
        finite = one[np.isfinite(one)]
        room = _LIKE_ROUNDING[first.dtype.name] * float(np.max(np.abs(finite), initial=0.0))
        where = np.argwhere(~np.isclose(one, two, rtol=0, atol=room, equal_nan=True))
    else:
        where = np.argwhere(first != other)
    if not len(where):
        return None
    return Finding(kind, None, message=f"{_some(name, where, first.size)} {words}")


def _some(name: str, where: NDArray[np.intp], size: int) -> str:
    """The first of some elements and how many there are, with a verb."""
    first = f"{name}[{', '.join(map(str, where[0].tolist()))}]"
    return f"{first} is" if len(where) == 1 else f"{first} and {len(where) - 1} other elements of {size} are"
