"""The course: one idea a rung, each a `.cu` file and the Kernel that declares it."""

from importlib import import_module
from pkgutil import iter_modules

from tilewright.kernels.kernel import Kernel

RUNGS: tuple[Kernel, ...] = tuple(import_module(f"{__name__}.{one.name}").KERNEL for one in iter_modules(__path__))
"""The rung that each module of this folder declares, in the order of their names."""
