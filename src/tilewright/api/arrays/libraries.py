"""Which library an array is of."""

import numbers
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright import api
from tilewright.api.arrays.library import Library, type_name
from tilewright.core.errors import ArrayError


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


def read_library(arrays: Mapping[str, Any]) -> tuple[Library, Mapping[str, Any], bool]:
    """The library of a call's arrays, the arrays as it takes them, and whether it records the call.

    Raises:
        ArrayError, DtypeError: an array is none, is none any more, or cannot be a constant of the library.
    """
    arrays = _with_constants(arrays)
    library = library_of("a", arrays["a"])
    return library, arrays, library.records(arrays)


def number_of(argument: str, value: Any) -> Any:
    """The number that a scalar of NumPy, or an array without dimensions, holds; what is neither, as it is.

    Raises:
        ProblemError: the array is none that can be read without waiting for a GPU, or that a library records.
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, numbers.Real) or getattr(value, "shape", None) != ():
        return value
    return library_of(argument, value).number(argument, value)


def _with_constants(arrays: Mapping[str, Any]) -> Mapping[str, Any]:
    """Arrays of a call, those of NumPy as arrays of JAX where another is one: constants, as they are to `jax.numpy`.

    Raises:
        ArrayError, DtypeError: one is of a subclass, or has an element type that is not supported, and JAX might
            convert it.
    """
    kind = type(arrays["a"])
    for array in arrays.values():
        if array is not None and type(array) is not kind:
            break
    else:
        return arrays
    kinds: list[type] = [type(array) for array in arrays.values() if array is not None]
    for library in dict.fromkeys(map(_library_of_type, kinds)):
        arrays = {
            name: library.constant(name, array) if isinstance(array, np.ndarray) and name != "out" else array
            for name, array in arrays.items()
        }
    return arrays


@lru_cache(maxsize=256)
def _library_of_type(kind: type) -> Library:
    known = api.libraries()
    roots = (base.__module__.partition(".")[0] for base in kind.__mro__)
    found: Library = next((known[root] for root in roots if root in known), known[""])
    return found
