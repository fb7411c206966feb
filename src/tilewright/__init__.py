"""Matrix multiplication on GPUs with kernels you can read, measure, explain and tune.

`matmul(a, b)` multiplies arrays of NumPy, PyTorch, CuPy and JAX; `kernels()` lists the ladder of kernels that do it.
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
from tilewright.kernels import LADDER
from tilewright.kernels.spec import Config, Kernel
from tilewright.matmul import matmul
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
    "Problem",
    "ProblemError",
    "TilewrightError",
    "__version__",
    "kernels",
    "matmul",
]


# Stands in the place of the subpackage of the same name, whose import above is done: `import tilewright.kernels.spec`
# and `from tilewright.kernels import LADDER` find it in sys.modules all the same.
def kernels() -> tuple[Kernel, ...]:
    """The ladder: every kernel, in the order of its rungs."""
    return LADDER
