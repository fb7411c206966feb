"""Which library an array is of."""

from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.arrays.cupy import CuPy
from tilewright.arrays.jax import Jax
from tilewright.arrays.library import Library, type_name
from tilewright.arrays.numpy import NumPy
from tilewright.arrays.protocols import Other
from tilewright.arrays.torch import Torch
from tilewright.errors import ArrayError

JAX = Jax()
_NUMPY, _OTHER = NumPy(), Other()
_LIBRARIES: dict[str, Library] = {"torch": Torch(), "cupy": CuPy(), "jax": JAX, "jaxlib": JAX}


def library_of(argument: str, array: Any) -> Library:
    """The library that an array is of.

    Raises:
        ArrayError: the object is no array that engines could read.
    """
    kind: type = type(array)
    library = _library_of_type(kind)
    if not hasattr(array, "__dlpack__") and not hasattr(array, "__cuda_array_interface__"):
        raise ArrayError(
            f"{argument} must be an array of NumPy, CuPy, PyTorch or JAX, or speak DLPack or "
            f"__cuda_array_interface__; got {type_name(array)}"
        )
    return library


@lru_cache(maxsize=256)
def _library_of_type(kind: type) -> Library:
    if issubclass(kind, np.ndarray):
        return _NUMPY
    roots = (base.__module__.partition(".")[0] for base in kind.__mro__)
    return next((_LIBRARIES[root] for root in roots if root in _LIBRARIES), _OTHER)
