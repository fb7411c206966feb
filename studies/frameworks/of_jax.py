"""JAX with tilewright next to JAX alone: jitted products, alone and in a program of several."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from studies.frameworks.comparisons import CALL, PROGRAM, check_same, compared
from studies.record import Measurement
from tilewright.api.front import matmul
from tilewright.tools.bench.end_to_end import Stopwatch

NAME = f"JAX {jax.__version__}"

SQUARES = (256, 512, 1024, 2048, 4096, 8192)


def comparisons(squares: Sequence[int] = SQUARES) -> Iterator[Measurement]:
    """Compare float32 products of squares; JAX's own in float32 too, not TF32.

    Raises:
        LaunchError: results differ by more than rounding explains.
    """
    for size in squares:
        yield from _square(size)


def _square(size: int) -> Iterator[Measurement]:
    rng = np.random.default_rng(size)
    x = jnp.asarray(rng.standard_normal((size, size), np.float32))
    w = jnp.asarray(rng.standard_normal((size, size), np.float32) / np.float32(size**0.5))
    length = 32 if size <= 1024 else 8 if size <= 4096 else 2
    for kind, products in ((CALL, 1), (PROGRAM, length)):
        functions = [_chain(matmul, products), _chain(_stock, products)]
        ours, expected = (np.float64(function(x, w)) for function in functions)
        check_same(f"{kind}, {size}", ours, expected, 1e-6 * (1 + products))
        last: list[Any] = [None]
        calls = [_kept(function, x, w, last) for function in functions]
        stopwatch = Stopwatch(partial(jax.block_until_ready, last))
        yield from compared(NAME, kind, str(size), (us / products for us in stopwatch.wall_us(calls)))


def _stock(x: Any, w: Any) -> Any:
    return jnp.matmul(x, w, precision="highest")


def _chain(product: Callable[[Any, Any], Any], length: int) -> Callable[[Any, Any], Any]:
    """A program that multiplies by the same matrix again and again."""

    def program(x: Any, w: Any) -> Any:
        for _ in range(length):
            x = product(x, w)
        return x

    jitted: Callable[[Any, Any], Any] = jax.jit(program)
    return jitted


def _kept(function: Callable[[Any, Any], Any], x: Any, w: Any, last: list[Any]) -> Callable[[], object]:
    """A call whose result can be waited for."""

    def call() -> None:
        last[0] = function(x, w)

    return call
