"""Helpers of the emulator's tests: launching a small kernel on NumPy arrays."""

import contextlib
import ctypes

import numpy as np

from launching import launch_source
from tilewright.core.errors import LaunchError
from tilewright.emulator.checker import Checker
from tilewright.emulator.compiler import CHECKED, compile_kernel
from tilewright.emulator.engine import Array
from tilewright.emulator.program import Watch, load
from tilewright.runtime.base import Matrix


def launch(source, *arguments, entry="kernel", grid=(1, 1, 1), block=(1, 1, 1), **options):
    """Run the kernel of a source. Arrays are passed by pointer, ints as int, floats as float."""
    launch_source(source, entry, grid, block, [_as_ctypes(argument) for argument in arguments], **options)


def _as_ctypes(argument):
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    return ctypes.c_float(argument) if isinstance(argument, float) else ctypes.c_int(argument)


def kinds_found(source, *arrays, block=(1, 1, 1), grid=(1, 1, 1), shared_bytes=0):
    """Kinds of faults that the checker finds in a kernel, which is given these arrays by pointer."""
    library = compile_kernel(source, "kernel", build=CHECKED)
    shapes = ((array.ctypes.data, 1, array.size, array.size, array.dtype.name) for array in arrays)
    checker = Checker(library, [Array(f"array {i}", Matrix(*shape)) for i, shape in enumerate(shapes)])
    arguments = [_as_ctypes(array) for array in arrays]
    with contextlib.suppress(LaunchError):  # after some findings it does not go on
        load(library, "kernel", CHECKED).launch(grid, block, arguments, shared_bytes, Watch(checker))
    return {finding.kind for finding in checker.findings()}
