"""JAX as `matmul` knows it: how its arrays are read, and what XLA multiplies."""

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.core.errors import ArrayError
from tilewright.frameworks.jax.arrays import Jax, is_traced, lies_on_a_gpu


class RecordingJax(Jax):
    """Its operation imports JAX, which has been imported where there is an array of it."""

    def recorder(self, arrays: Mapping[str, Any], grouped: bool = False) -> Callable[..., Any] | None:
        for name, array in arrays.items():
            if not is_traced(array) and getattr(array, "is_deleted", bool)():
                raise ArrayError(f"{name} has no elements any more: it was deleted, or donated to a program")
        if not any(is_traced(array) or lies_on_a_gpu(array) for array in arrays.values()):
            return None
        if grouped:
            raise ArrayError("grouped_matmul takes no arrays that JAX traces or that lie on its GPU")
        from tilewright.frameworks.jax.call import matmul  # noqa: PLC0415 - imports JAX, which has been imported here

        return matmul
