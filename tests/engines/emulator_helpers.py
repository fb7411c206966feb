"""What the emulator's tests share: launching a small kernel on NumPy arrays."""

import ctypes

import numpy as np

from tilewright.engines.emulator import launch_source


def launch(source, *arguments, entry="kernel", grid=(1, 1, 1), block=(1, 1, 1), **options):
    """Run the kernel of a source. Arrays are passed by pointer, ints as int, floats as float."""
    launch_source(source, entry, grid, block, [_as_ctypes(argument) for argument in arguments], **options)


def _as_ctypes(argument):
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    return ctypes.c_float(argument) if isinstance(argument, float) else ctypes.c_int(argument)
