"""Problem: one matrix product, C = alpha * A @ B + beta * C, and its validation."""

import math
import re
from dataclasses import dataclass

from tilewright.errors import DtypeError, ProblemError

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Element types that the ladder multiplies, and the size of an element."""

DTYPES = tuple(ITEM_BYTES)

RESULT_DTYPE = "float32"
"""Element type of C, whatever A and B hold."""

_LARGEST = 2**31 - 2**12  # kernels count in 32-bit integers, up to a tile past the end


@dataclass(frozen=True)
class Problem:
    """C = alpha * A @ B + beta * C, with A of m x k, B of k x n and C of m x n elements, all row-major.

    dtype is the element type of A and B; sums are taken, and C is kept, in float32 for all of them.
    A leading dimension is the distance, in elements, from one row to the next; 0 stands for rows that
    touch. Any size may be 0. With beta = 0, C is written without being read.

    Raises:
        ProblemError: a size or leading dimension is negative, too small for its rows or near
            2**31, or a scalar is not a number.
        DtypeError: dtype is none of `DTYPES`.
    """

    m: int
    n: int
    k: int
    dtype: str = "float32"
    alpha: float = 1.0
    beta: float = 0.0
    lda: int = 0
    ldb: int = 0
    ldc: int = 0

    def __post_init__(self) -> None:
        for name in ("m", "n", "k", "lda", "ldb", "ldc"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise ProblemError(f"{name} must be an integer, got {value!r}")
            if not 0 <= value <= _LARGEST:
                raise ProblemError(f"{name} must be from 0 to {_LARGEST}, got {value}")
        for name, columns in (("lda", self.k), ("ldb", self.n), ("ldc", self.n)):
            tight = max(columns, 1)
            value = getattr(self, name)
            if value == 0:
                object.__setattr__(self, name, tight)
            elif value < tight:
                raise ProblemError(f"{name} must be at least the row length {tight}, got {value}")
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
                raise ProblemError(f"{name} must be a number, got {value!r}")
        if self.dtype not in DTYPES:
            raise DtypeError(f"dtype must be one of {', '.join(DTYPES)}, got {self.dtype!r}")

    @classmethod
    def parse(cls, shape: str, **fields: object) -> "Problem":
        """Read 'MxNxK' (or a single number for a square), as in '4096x4096x4096'.

        Raises:
            ProblemError: the text is not three sizes, or a size is out of range.
        """
        match = re.fullmatch(r"(\d+)(?:[xX*](\d+)[xX*](\d+))?", shape.strip())
        if match is None:
            raise ProblemError(f"shape must read MxNxK, as in 4096x4096x4096, got {shape!r}")
        m, n, k = (int(size or match[1]) for size in match.groups())
        return cls(m, n, k, **fields)  # type: ignore[arg-type]

    @property
    def shape(self) -> str:
        """The sizes as text: 'MxNxK'."""
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def flops(self) -> int:
        """Floating-point operations of the product: 2 * m * n * k."""
        return 2 * self.m * self.n * self.k

    def gflops(self, time_us: float) -> float:
        """GFLOP/s of a run that took time_us microseconds."""
        return self.flops / time_us / 1e3 if time_us > 0 else 0.0
