"""CuPy with tilewright next to CuPy alone: products of squares, end to end."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from studies.frameworks.comparisons import HOST, WALL, check_same, compared
from studies.record import Measurement
from tilewright.api.front import matmul
from tilewright.tools.bench.end_to_end import Stopwatch

SQUARES = (64, 128, 256, 512, 1024, 2048, 4096, 8192)


def comparisons(squares: Sequence[int] = SQUARES) -> Iterator[Measurement]:
    """Compare float32 products of squares.

    Raises:
        LaunchError: results differ by more than rounding explains.
    """
    cupy = importlib.import_module("cupy")
    return of_library(cupy, f"CuPy {cupy.__version__}", cupy.cuda.Device().synchronize, squares)


def of_library(library: Any, name: str, wait: Callable[[], None], squares: Sequence[int]) -> Iterator[Measurement]:
    """Measurements for a library of NumPy's interface.

    Args:
        library: the module.
        name: its name and version.
        wait: returns when all work that was started has ended.
        squares: sizes.
    """
    stopwatch = Stopwatch(wait)
    for size in squares:
        rng = np.random.default_rng(size)
        a, b = (library.asarray(rng.standard_normal((size, size), np.float32)) for _ in "ab")
        ours, expected = (function(a, b).astype("float64") for function in (matmul, library.matmul))
        check_same(f"{name}, {size}", ours, expected, 1e-5)
        calls = [lambda a=a, b=b: matmul(a, b), lambda a=a, b=b: library.matmul(a, b)]
        for kind, times in ((WALL, stopwatch.wall_us), (HOST, stopwatch.host_us)):
            yield from compared(name, kind, str(size), times(calls))
