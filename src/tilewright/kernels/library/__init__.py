"""The library: kernels for matmul() and what stands behind it, each a `.cu` file and a module that declares it."""

from importlib import import_module
from pkgutil import iter_modules

from tilewright.kernels.kernel import Kernel

KERNELS: tuple[Kernel, ...] = tuple(
    kernel
    for one in iter_modules(__path__)
    for kernel in getattr(import_module(f"{__name__}.{one.name}"), "KERNELS", ())
)
"""The kernels that modules of this folder declare, in the order of their names."""
