"""Every kernel by name: the ladder, in the order of its rungs, those of the library that are no rung, and examples."""

import copyreg
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from tilewright.core.errors import ConfigError, KernelNotFoundError, nearest
from tilewright.core.old_words import today
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.ladder import RUNGS
from tilewright.kernels.library import KERNELS as LIBRARY
from tilewright.kernels.source.lines import SUFFIX, is_source
from tilewright.kernels.source.products import from_source
from tilewright.kernels.source.source_kernel import SourceKernel

_UNGROUPED = [one for one in LIBRARY if not one.support.grouped]

LADDER: tuple[Kernel, ...] = tuple(sorted((*RUNGS, *(one for one in _UNGROUPED if one.rung)), key=lambda one: one.rung))

KERNELS: tuple[Kernel, ...] = (*LADDER, *(one for one in _UNGROUPED if not one.rung))
"""The ladder, and the kernels of the library that are no rung of it: those have the number 0."""

GROUPED: tuple[Kernel, ...] = tuple(one for one in LIBRARY if one.support.grouped)
"""Kernels for grouped products, which `grouped_matmul` alone calls."""

BEST = "best"
"""Stands for what the selector picks for a problem, where a command takes it."""

_BY_NAME: Mapping[str, Kernel] = {kernel.name: kernel for kernel in (*KERNELS, *GROUPED)}


@lru_cache
def examples() -> Mapping[str, Path]:
    """Sources with a fault planted, by the names that they are found by. They are among no list of kernels."""
    return {path.stem: path for path in sorted(Path(__file__).with_name("examples").glob(f"*{SUFFIX}"))}


@lru_cache
def _example(name: str) -> Kernel:
    return replace(from_source(examples()[name]), name=name)


def find(name: str) -> Kernel:
    """The kernel of this name, of this rung where the name is a number, of this source file, or an example.

    Raises:
        KernelNotFoundError: no kernel has this name; the message gives the nearest.
        ConfigError, DtypeError: the file's kernel is none that can be called (`from_source`).
    """
    name = today(name, _BY_NAME)
    if name in _BY_NAME:
        return _BY_NAME[name]
    if is_source(name):
        return from_source(name)
    for kernel in LADDER:
        if name == str(kernel.rung):
            return kernel
    if name in examples():
        return _example(name)
    if name == BEST:
        raise KernelNotFoundError(f"{name!r} is no kernel: bench and explain alone take it, for what matmul runs")
    file = f"{name}{SUFFIX}"
    meant = f"; did you mean the file {file}?" if Path(file).is_file() else nearest(name, (*_BY_NAME, *examples()))
    raise KernelNotFoundError(f"no kernel is called {name!r}{meant}")


def resolve(text: str) -> tuple[Kernel, Mapping[str, int]]:
    """The kernel that 'NAME', 'RUNG', either with ':PRESET', or a source file says, and the overrides of its preset.

    As in 'warptiled', '10', 'shared_tiled:fastcuda_v2', 'my_gemm.cu', 'my_gemm.cu:entry'.

    Raises:
        KernelNotFoundError: no kernel or preset has this name; the message gives the nearest.
        ConfigError, DtypeError: as `find`.
    """
    if SUFFIX in text and is_source(text.strip()):
        return find(text.strip()), {}
    name, colon, preset = text.strip().partition(":")
    kernel = find(name)
    return kernel, kernel.preset(preset) if colon else {}


def recorded(kernel: str, config: Mapping[str, int]) -> Config | None:
    """The config that a table, a journal or a record names, parameters that came later at their defaults.

    None where the kernel or such a config of it no longer exists. A source file's stays as it is: what its kernel has
    for parameters may have been said by options.
    """
    if is_source(kernel):
        return Config(config)
    try:
        return find(kernel).config(config)
    except (KernelNotFoundError, ConfigError):
        return None


def _by_name(kernel: Kernel) -> tuple[Any, ...]:
    if isinstance(kernel, SourceKernel) and kernel.name not in examples():
        origin = kernel.origin
        again = partial(from_source, origin.source_name, origin.entry, dict(origin.defines), **dict(origin.words))
        return again, ()
    return find, (kernel.name,)


# Processes tell one another a kernel by its name or origin, since its functions cannot be sent.
copyreg.pickle(Kernel, _by_name)
copyreg.pickle(SourceKernel, _by_name)
