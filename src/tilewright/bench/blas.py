"""How many threads NumPy's BLAS uses."""

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from numpy.linalg import _umath_linalg

_PREFIXES = ("scipy_openblas_", "openblas_")
_SUFFIXES = ("64_", "")
"""Of OpenBLAS's functions: those of NumPy's own wheels first."""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Have one thread compute NumPy's products, where OpenBLAS does: behind a product its other threads look for more
    work for a while, so that a small one takes ten times the CPU time."""
    count, set_count = thread_count(), _function("set_num_threads")
    if not count or set_count is None:
        yield
        return
    set_count(1)
    try:
        yield
    finally:
        set_count(count)


def thread_count() -> int:
    """How many threads compute a product; 0 where that is not known."""
    get_count = _function("get_num_threads")
    return get_count() if get_count else 0


@lru_cache
def _function(name: str) -> Callable[..., Any] | None:
    """A function of OpenBLAS, which NumPy has loaded."""
    library = ctypes.CDLL(_umath_linalg.__file__)  # symbols are looked for in what it is linked with too
    names = (f"{prefix}{name}{suffix}" for prefix in _PREFIXES for suffix in _SUFFIXES)
    return next((getattr(library, one) for one in names if hasattr(library, one)), None)
