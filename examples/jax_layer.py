"""A network of two layers in JAX, trained: products with bias and activation, inside jit, grad, vmap and scan."""

import jax
import jax.numpy as jnp

import tilewright


def network(parameters, x):
    w1, b1, w2, b2 = parameters
    hidden = tilewright.matmul(x, w1, bias=b1, activation="gelu")
    return tilewright.matmul(hidden, w2, bias=b2)


def loss(parameters, x, y):
    return jnp.mean((network(parameters, x) - y) ** 2)


@jax.jit
def train(parameters, x, y):
    """100 steps of gradient descent, as one program."""

    def step(parameters, _):
        value, gradients = jax.value_and_grad(loss)(parameters, x, y)
        return [p - 0.05 * g for p, g in zip(parameters, gradients, strict=True)], value

    return jax.lax.scan(step, parameters, length=100)


keys = jax.random.split(jax.random.key(0), 3)
x = jax.random.normal(keys[0], (256, 8))
y = jnp.sin(x.sum(axis=1, keepdims=True))
parameters = [
    jax.random.normal(keys[1], (8, 64)) / 3,
    jnp.zeros(64),
    jax.random.normal(keys[2], (64, 1)) / 8,
    jnp.zeros(1),
]
plan = tilewright.plan(x, parameters[0], bias=parameters[1], activation="gelu")
print("tilewright:", plan.describe().splitlines()[0])
if plan.problem is None:
    print("Without a GPU the network computes and trains the same, and slowly: its products are NumPy's.")
parameters, losses = train(parameters, x, y)
print(f"step 1: loss {losses[0]:.3f}, step 100: loss {losses[-1]:.3f}")

per_example = jax.jit(jax.vmap(jax.grad(loss), (None, 0, 0)))(parameters, x[:5, None], y[:5, None])
print("the gradients of five examples:", [gradient.shape for gradient in per_example])
