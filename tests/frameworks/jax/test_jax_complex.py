"""matmul() of complex64 inside programs of JAX, on the host: values, derivatives, batches."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import tilewright  # noqa: E402
from tilewright import ArrayError, ProblemError  # noqa: E402

SHAPES = [
    ((5, 7), (7, 3)),
    ((7,), (7, 3)),
    ((7,), (7,)),
    ((2, 5, 7), (2, 7, 3)),
    ((2, 4, 5, 7), (7, 3)),
    ((5, 0), (0, 3)),
]


def draw(*shape, seed=0):
    random = np.random.default_rng([seed, *shape])
    return jnp.asarray((random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(np.complex64))


def stock(a, b, c=0, bias=0, alpha=1, beta=0):
    return alpha * jnp.matmul(a, b, precision="highest") + beta * c + bias


def same(ours, theirs):
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("shape_a", "shape_b"), SHAPES)
def test_values_and_gradients(shape_a, shape_b):
    a, b = draw(*shape_a), draw(*shape_b, seed=1)
    c, bias = draw(*jnp.matmul(a, b).shape, seed=2), draw(shape_b[-1] if len(shape_b) > 1 else 1, seed=3)
    bias = bias if len(shape_b) > 1 else None

    def weighed(function):
        def of(a, b):
            more = {} if bias is None else {"bias": bias}
            result = function(a.conj(), b, c=c, alpha=2 - 1j, beta=2.0, **more)
            weights = jnp.cos(jnp.arange(result.size)).reshape(result.shape)
            return (result * weights).real.sum() + (result * 3j * weights).real.sum()

        return of

    for precision in (None, "3m"):
        same(tilewright.matmul(a, b, precision=precision), jnp.matmul(a, b, precision="highest"))
    found = [jax.jit(jax.value_and_grad(weighed(f), (0, 1)))(a, b) for f in (tilewright.matmul, stock)]
    same(*found)


def test_maps_and_forward_derivatives():
    a, b = draw(3, 5, 7), draw(7, 4)
    same(*(jax.vmap(lambda x: f(x, b))(a) for f in (tilewright.matmul, stock)))  # noqa: B023
    same(*(jax.jit(lambda x: jax.jvp(f, (x, b), (2 * x, b)))(a[0]) for f in (tilewright.matmul, stock)))  # noqa: B023


def test_what_is_refused_is_named():
    a, b = draw(5, 7), draw(7, 3)
    with pytest.raises(ProblemError, match="activation must be None where a is complex64"):
        jax.jit(lambda x: tilewright.matmul(x, b, activation="relu"))(a)
    with pytest.raises(ArrayError, match="bias must have an element for each column where a is complex64"):
        jax.jit(lambda x: tilewright.matmul(x, b, bias=x[:, :1]))(a)
