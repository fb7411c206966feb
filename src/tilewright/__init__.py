"""Matrix multiplication on GPUs with kernels you can read, measure, explain and tune.

`matmul(a, b)` multiplies arrays of NumPy, PyTorch, CuPy and JAX; `list_kernels()` lists the kernels that do it.
`grouped_matmul(a, b, offsets)` multiplies the rows of each group with a matrix of its own, as mixtures of experts do.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilewright import api
from tilewright.errors import (
    ArrayError,
    CompileError,
    ConfigError,
    DtypeError,
    EngineUnavailableError,
    KernelNotFoundError,
    LaunchError,
    ProblemError,
    TilewrightError,
)
from tilewright.version import __version__

if TYPE_CHECKING:
    from tilewright.api.arrays.library import Library
    from tilewright.api.front import ProductPlan, grouped_matmul, matmul, plan, prepare
    from tilewright.api.prepared import Prepared
    from tilewright.core.problem import Problem
    from tilewright.kernels.config import Config
    from tilewright.kernels.kernel import Kernel

__all__ = [
    "ArrayError",
    "CompileError",
    "Config",
    "ConfigError",
    "DtypeError",
    "EngineUnavailableError",
    "Kernel",
    "KernelNotFoundError",
    "LaunchError",
    "Prepared",
    "Problem",
    "ProblemError",
    "ProductPlan",
    "TilewrightError",
    "__version__",
    "grouped_matmul",
    "list_kernels",
    "matmul",
    "plan",
    "prepare",
]


_MODULES = {
    **dict.fromkeys(("ProductPlan", "grouped_matmul", "matmul", "plan", "prepare"), "api.front"),
    "Config": "kernels.config",
    "Kernel": "kernels.kernel",
    "Prepared": "api.prepared",
    "Problem": "core.problem",
}
"""Where names are that are imported when they are asked for: the command line says before how NumPy is to begin."""


def _libraries() -> "Mapping[str, Library]":
    from tilewright.frameworks.table import LIBRARIES  # noqa: PLC0415 as for the names above

    return LIBRARIES


api.libraries = _libraries


def __getattr__(name: str) -> Any:
    if name in ("distributed", "torch"):
        return import_module(f"tilewright.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"tilewright.{_MODULES[name]}"), name)
    if _MODULES[name] == "api.front":
        _libraries()  # of which PyTorch's says what torch.compile traces
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


def list_kernels() -> "tuple[Kernel, ...]":
    """Every kernel: the ladder in the order of its rungs, then those of the library that are no rung."""
    from tilewright.kernels import KERNELS  # noqa: PLC0415 as for the names above

    return KERNELS
