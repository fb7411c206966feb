"""The course: one idea a rung, each a `.cu` file and the Kernel that declares it."""

from importlib import import_module
from pkgutil import iter_modules

from tilewright.kernels.spec import Kernel

_MODULES = [import_module(f"{__name__}.{one.name}") for one in iter_modules(__path__)]

RUNGS: tuple[Kernel, ...] = tuple(module.KERNEL for module in _MODULES if hasattr(module, "KERNEL"))
"""Every rung that a module of this folder declares, in the order of their names."""
