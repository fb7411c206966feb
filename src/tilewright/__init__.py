"""Matrix multiplication on GPUs with kernels you can read, measure, explain and tune.

`matmul(a, b)` multiplies arrays of NumPy, PyTorch, CuPy and JAX; `list_kernels()` lists the kernels that do it.
`grouped_matmul(a, b, offsets)` multiplies the rows of each group with a matrix of its own, as mixtures of experts do.
"""

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
from tilewright.front import ProductPlan, matmul, plan, prepare
from tilewright.grouped import grouped_matmul
from tilewright.kernels import KERNELS
from tilewright.kernels.spec import Config, Kernel
from tilewright.prepared import Prepared
from tilewright.problem import Problem
from tilewright.version import __version__

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


def list_kernels() -> tuple[Kernel, ...]:
    """Every kernel: the ladder in the order of its rungs, then those of the library that are no rung."""
    return KERNELS
