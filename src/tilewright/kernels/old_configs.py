"""Configs as earlier records, journals and tables wrote them down, in the parameters of today.

Until format 2, WAVE counted the blocks that share the last tiles on a whole GPU, always an H200 of 132 multiprocessors;
WORKERS counts those of one multiprocessor. Parameters that had one useful value are constants of their kernels now.
Kernels of terms had PROMOTE: they promote their sums with every step along k now.
"""

from collections.abc import Mapping
from functools import lru_cache

from tilewright.core.errors import ConfigError, KernelNotFoundError
from tilewright.kernels import find
from tilewright.kernels.renamed import RENAMED
from tilewright.kernels.source_lines import is_source
from tilewright.kernels.spec import Config

_MULTIPROCESSORS = 132

_CONSTANT = {
    ("tma_packed", "STAGES"): 2,
    ("tma_packed", "CHUNK"): 0,
    ("tma_packed", "RASTER"): 1,
    ("split_k", "LANES_M"): 4,
    ("skinny", "MULTIPROCESSORS"): _MULTIPROCESSORS,
    ("gemm_fp8_nn", "STORED"): 0,
}
"""By kernel, the parameters that it lost, and the values that they have in its source."""

_WHATEVER = {(kernel, "PROMOTE") for kernel in ("gemm_bf16x6", "gemm_bf16x3", "gemm_fp16x3")}
"""By kernel, the parameters that it lost, whatever their values were."""


def upgraded(kernel: str, config: Mapping[str, int]) -> Config | None:
    """A config of a kernel in today's parameters, those that came later at their defaults.

    What is in today's parameters already stays as it is.

    Args:
        kernel: its name.
        config: of format 1 or 2.

    Returns:
        None where the kernel or such a config of it no longer exists.
    """
    return _upgraded(kernel, tuple(config.items()))


def completed(kernel: str, config: Mapping[str, int]) -> dict[str, int]:
    """The same, or the config as it is where the kernel or such a config of it no longer exists."""
    return dict(upgraded(kernel, config) or config)


@lru_cache(maxsize=4096)
def _upgraded(kernel: str, config: tuple[tuple[str, int], ...]) -> Config | None:
    """The same, of items: one object for each config of a table. A source file's stay as they are: what its kernel has
    for parameters may have been said by options."""
    if is_source(kernel):
        return Config(dict(config))
    try:
        found = find(kernel)
    except KernelNotFoundError:
        return None
    names = {parameter.name for parameter in found.parameters}
    values: dict[str, int] = {}
    for name, value in config:
        if name in names:
            values[name] = value
        elif name == "WAVE":
            if value > 1 and value % _MULTIPROCESSORS:
                return None
            values["WORKERS"] = value // _MULTIPROCESSORS
        elif name in RENAMED:
            values[RENAMED[name]] = value
        elif (kernel, name) not in _WHATEVER and _CONSTANT.get((kernel, name)) != value:
            return None
    try:
        return found.config(values)
    except ConfigError:
        return None
