"""JAX as `matmul` knows it: how its arrays are read, and what XLA multiplies."""

from collections.abc import Callable
from typing import Any

from tilewright.core.errors import ArrayError
from tilewright.frameworks.jax.arrays import Jax


class RecordingJax(Jax):
    """Its operation imports JAX, which has been imported where there is an array of it."""

    def recorder(self, grouped: bool = False) -> Callable[..., Any]:
        if grouped:
            raise ArrayError("grouped_matmul takes no arrays that JAX traces or that lie on its GPU")
        from tilewright.frameworks.jax.call import matmul  # noqa: PLC0415 - imports JAX, which has been imported here

        return matmul
