"""matmul() inside programs of JAX, on the host: values, derivatives, batches and errors."""

import re

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import tilewright  # noqa: E402
from tilewright import ArrayError, DtypeError, EngineUnavailableError, ProblemError  # noqa: E402
from tilewright.problem import PRECISIONS  # noqa: E402

ACTIVATIONS = {
    None: lambda x: x,
    "relu": jax.nn.relu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
    "silu": jax.nn.silu,
}
SHAPES = {
    "matrices": ((5, 7), (7, 3)),
    "a vector": ((7,), (7, 3)),
    "two vectors": ((7,), (7,)),
    "matrix and vector": ((5, 7), (7,)),
    "batches": ((2, 5, 7), (2, 7, 3)),
    "a batch of a": ((2, 4, 5, 7), (7, 3)),
    "a batch of b": ((5, 7), (2, 7, 3)),
    "batches that broadcast": ((2, 1, 5, 7), (4, 7, 3)),
    "nothing": ((0, 7), (7, 3)),
    "no products": ((5, 0), (0, 3)),
}


def draw(*shape, dtype="float32"):
    return jnp.asarray(np.random.default_rng(shape).standard_normal(shape, np.float32)).astype(dtype)


def reference(a, b):
    return jnp.matmul(a, b, precision="highest", preferred_element_type="float32")


def check(result, expected, tolerance=1e-4):
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(np.float32(result), np.float32(expected), rtol=tolerance, atol=tolerance)


def gradients(function, *operands):
    """Of a sum of the function's results with unequal weights."""

    def weighed(*operands):
        result = function(*operands)
        return (result * jnp.cos(jnp.arange(result.size, dtype=result.dtype)).reshape(result.shape)).sum()

    return jax.jit(jax.grad(weighed, tuple(range(len(operands)))))(*operands)


@pytest.mark.parametrize(("a", "b"), SHAPES.values(), ids=SHAPES)
def test_values_and_gradients(a, b):
    a, b = draw(*a), draw(*b)
    check(jax.jit(tilewright.matmul)(a, b), reference(a, b))
    for ours, expected in zip(gradients(tilewright.matmul, a, b), gradients(reference, a, b), strict=True):
        check(ours, expected)


@pytest.mark.parametrize(
    ("activation", "bias"), list(zip(ACTIVATIONS, [(3,), (5, 1), (1, 3), (5, 1), (3,)], strict=True))
)
def test_bias_and_activation(activation, bias):
    operands = draw(2, 5, 7), draw(7, 3), draw(*bias)

    def ours(a, b, bias):
        return tilewright.matmul(a, b, bias=bias, activation=activation, alpha=0.5)

    def expected(a, b, bias):
        return ACTIVATIONS[activation](0.5 * reference(a, b) + bias)

    check(jax.jit(ours)(*operands), expected(*operands))
    for one, other in zip(gradients(ours, *operands), gradients(expected, *operands), strict=True):
        check(one, other)


def test_a_bias_of_one_column():
    a, b, bias = draw(5, 7), draw(7, 1), draw(1, 1)
    check(jax.jit(lambda *x: tilewright.matmul(*x[:2], bias=x[2]))(a, b, bias), reference(a, b) + bias)


@pytest.mark.parametrize(("alpha", "beta"), [(0.0, -0.5), (2.0, 0.0), (2.0, -0.5)])
def test_c_and_scalars(alpha, beta):
    operands = draw(5, 7), draw(7, 3), draw(5, 3)

    def ours(a, b, c):
        return tilewright.matmul(a, b, c=c, alpha=alpha, beta=beta, activation="silu")

    def expected(a, b, c):
        return jax.nn.silu(alpha * reference(a, b) + beta * c)

    check(jax.jit(ours)(*operands), expected(*operands))
    for one, other in zip(gradients(ours, *operands), gradients(expected, *operands), strict=True):
        check(one, other)


def test_what_is_not_to_be_read_is_not():
    a, b, c = draw(5, 7), draw(7, 3), draw(5, 3)
    nothing = jnp.full((5, 3), jnp.nan)
    check(jax.jit(lambda a, b, c: tilewright.matmul(a, b, c=c))(a, b, nothing), reference(a, b))
    zero = jax.jit(lambda a, b, c: tilewright.matmul(a, b, c=c, alpha=0, beta=2))(a * jnp.nan, b, c)
    check(zero, 2 * c)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_nan_stays_nan(activation):
    a = jnp.asarray([[jnp.nan, 1.0], [jnp.inf, -jnp.inf], [1.0, 2.0]])
    result = jax.jit(lambda a, b: tilewright.matmul(a, b, activation=activation))(a, jnp.ones((2, 1)))
    assert list(np.isnan(result[:, 0])) == [True, True, False]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("out_dtype", [None, "float32", jnp.bfloat16])
def test_types(dtype, out_dtype):
    a, b, bias = draw(5, 7, dtype=dtype), draw(7, 3, dtype=dtype), draw(3)
    kind = jnp.dtype(out_dtype or dtype)

    def ours(a, b, bias):
        return tilewright.matmul(a, b, bias=bias.astype(kind), activation="gelu", out_dtype=out_dtype)

    def expected(a, b, bias):
        return jax.nn.gelu(reference(a, b) + bias.astype(kind), approximate=False).astype(kind)

    check(jax.jit(ours)(a, b, bias), expected(a, b, bias), 1e-2)
    for one, other in zip(gradients(ours, a, b, bias), gradients(expected, a, b, bias), strict=True):
        check(one, other, 3e-2)


def test_derivatives_of_second_order_in_both_modes():
    def function(a, b, bias):
        return tilewright.matmul(a, b, bias=bias, activation="gelu_tanh")

    check_grads(function, (draw(3, 4), draw(4, 2), draw(2)), order=2, modes=("fwd", "rev"), atol=2e-2, rtol=2e-2)
    check_grads(tilewright.matmul, (draw(2, 3, 4), draw(4, 2)), order=2, modes=("fwd", "rev"), atol=2e-2, rtol=2e-2)


def test_a_derivative_along_one_factor_takes_one_product():
    a, b = draw(5, 7), draw(7, 3)
    program = str(jax.make_jaxpr(lambda a: jax.jvp(lambda a: tilewright.matmul(a, b), (a,), (a,)))(a))
    assert program.count("tilewright_product") == 2


VMAPS = {
    "a": ((0, None, None), (6, 5, 7), (7, 3), (3,)),
    "b": ((None, 0, None), (5, 7), (6, 7, 3), (3,)),
    "bias": ((None, None, 0), (5, 7), (7, 3), (6, 3)),
    "all": ((0, 0, 0), (6, 5, 7), (6, 7, 3), (6, 3)),
    "other axes": ((1, 2, 1), (5, 6, 7), (7, 3, 6), (3, 6)),
    "a, and a batch of b": ((0, None, None), (6, 5, 7), (2, 7, 3), (3,)),
    "a bias, and a batch of both": ((None, None, 0), (2, 5, 7), (2, 7, 3), (6, 3)),
    "columns": ((0, None, 0), (6, 5, 7), (2, 7, 3), (6, 5, 1)),
}


@pytest.mark.parametrize(("axes", "a", "b", "bias"), VMAPS.values(), ids=VMAPS)
def test_vmap(axes, a, b, bias):
    operands = draw(*a), draw(*b), draw(*bias)

    def ours(a, b, bias):
        return tilewright.matmul(a, b, bias=bias, activation="silu")

    def expected(a, b, bias):
        return jax.nn.silu(reference(a, b) + bias)

    check(jax.jit(jax.vmap(ours, axes))(*operands), jax.vmap(expected, axes)(*operands))
    mapped = [gradients(jax.vmap(function, axes), *operands) for function in (ours, expected)]
    for one, other in zip(*mapped, strict=True):
        check(one, other)


def test_vmap_of_vmap_and_of_gradients():
    a, b = draw(4, 6, 5, 7), draw(6, 7, 3)
    check(jax.vmap(jax.vmap(tilewright.matmul), (0, None))(a, b), reference(a, b))
    per_example = jax.vmap(jax.grad(lambda x, w: tilewright.matmul(x, w, activation="relu").sum(), 1), (0, None))
    expected = jax.vmap(jax.grad(lambda x, w: jax.nn.relu(reference(x, w)).sum(), 1), (0, None))
    check(per_example(a[0], b[0]), expected(a[0], b[0]))


def test_scan_checkpoint_and_loops():
    w, x = draw(6, 6) / 3, draw(4, 6)

    def layers(multiply):
        layer = jax.checkpoint(lambda x: jnp.tanh(multiply(x, w)))
        return lambda x: jax.lax.scan(lambda x, _: (layer(x), None), x, length=5)[0]

    check(jax.jit(layers(tilewright.matmul))(x), layers(reference)(x))
    check(gradients(layers(tilewright.matmul), x)[0], gradients(layers(reference), x)[0])
    looped = jax.lax.fori_loop(0, 3, lambda _, x: tilewright.matmul(x, w), x)
    check(looped, x @ w @ w @ w)


def test_a_program_is_traced_and_compiled_once():
    traced = []

    @jax.jit
    def function(a, b):
        traced.append(a)
        return tilewright.matmul(a, b)

    for seed in range(3):
        function(draw(5, 7) + seed, draw(7, 3))
    assert len(traced) == 1
    assert function._cache_size() == 1


def test_constants_of_a_program():
    a, b = draw(5, 7), draw(7, 3)
    check(jax.jit(lambda b: tilewright.matmul(a, b))(b), reference(a, b))
    check(jax.jit(lambda a: tilewright.matmul(a, b))(a), reference(a, b))


def test_arrays_outside_of_programs():
    a, b = draw(5, 7), draw(7, 3)
    result = tilewright.matmul(a, b, bias=b[0], activation="relu")
    assert isinstance(result, jax.Array)
    check(result, jax.nn.relu(reference(a, b) + b[0]))


A, B, C = draw(5, 7), draw(7, 3), draw(5, 3)
REFUSED = {
    "shapes": (lambda a: tilewright.matmul(a, B.T), ArrayError, "b must have 7 rows"),
    "batches": (
        lambda a: tilewright.matmul(jnp.stack([a] * 2), jnp.stack([B] * 3)),
        ArrayError,
        "batches must be equal or 1",
    ),
    "prepared": (tilewright.prepare, ArrayError, "b wants a gradient, is traced, or is run by XLA"),
    "scalar": (lambda a: tilewright.matmul(a, a[0, 0]), ArrayError, "b must be a vector, a matrix or a batch"),
    "library": (lambda a: tilewright.matmul(a, np.asarray(B)), ArrayError, "b must be of the same library as a"),
    "other library": (lambda a: tilewright.matmul(np.asarray(A), a.T), ArrayError, "b must be of the same library"),
    "types": (lambda a: tilewright.matmul(a, B.astype("float16")), DtypeError, "b must have the element type of a"),
    "type": (lambda a: tilewright.matmul(a.astype(int), B), DtypeError, "a has element type int32"),
    "out_dtype": (lambda a: tilewright.matmul(a, B, out_dtype="float64"), DtypeError, "out_dtype must be one of"),
    "out": (lambda a: tilewright.matmul(a, B, out=C), ArrayError, "out must be an array that can be written"),
    "bias": (lambda a: tilewright.matmul(a, B, bias=jnp.ones(4)), ArrayError, "bias must have 3 elements"),
    "c": (lambda a: tilewright.matmul(a, B, c=A, beta=1.0), ArrayError, "c must be 5 x 3"),
    "no c": (lambda a: tilewright.matmul(a, B, beta=1.0), ArrayError, "c must be given where beta is not 0"),
    "traced alpha": (lambda a: tilewright.matmul(a, B, alpha=a[0, 0]), ProblemError, "alpha must be a number"),
    "precision": (lambda a: tilewright.matmul(a, B, precision="fp16x"), ProblemError, "did you mean 'fp16x3'"),
    "precision of half": (
        lambda a: tilewright.matmul(a.astype("float16"), B.astype("float16"), precision="ieee"),
        DtypeError,
        "precision is for float32 factors",
    ),
    "activation": (lambda a: tilewright.matmul(a, B, activation="rely"), ProblemError, "did you mean 'relu'"),
    "engine": (lambda a: tilewright.matmul(a, B, engine="emulator"), ArrayError, "engine must be left out"),
    "kernel": (lambda a: tilewright.matmul(a, B, kernel="naive"), EngineUnavailableError, "by a kernel on a GPU alone"),
    "plan": (lambda a: tilewright.plan(a, B), ArrayError, "call matmul instead"),
}


@pytest.mark.parametrize(("function", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_while_it_is_traced(function, error, words):
    with pytest.raises(error, match=words):
        jax.jit(function)(A)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_precision_is_that_of_derivatives_and_batches_too(precision):
    a, b, bias = draw(2, 5, 7), draw(7, 3), draw(3)

    def loss(a, b, bias):
        return (tilewright.matmul(a, b, bias=bias, activation="silu", precision=precision) ** 2).sum()

    programs = [
        jax.make_jaxpr(jax.grad(loss, (0, 1, 2)))(a, b, bias),
        jax.make_jaxpr(jax.vmap(lambda bias: tilewright.matmul(a, b, bias=bias, precision=precision)))(draw(4, 3)),
        jax.make_jaxpr(lambda *t: jax.jvp(loss, (a, b, bias), t))(a, b, bias),
    ]
    promised = [re.findall(r"precision=([^,]*), rung", str(program)) for program in programs]
    assert [len(one) >= least for one, least in zip(promised, (3, 1, 3), strict=True)] == [True] * 3
    assert {one for some in promised for one in some} == {"None" if precision == "float32" else f"'{precision}'"}
    for ours, expected in zip(
        gradients(lambda a, b: tilewright.matmul(a, b, precision=precision), a, b),
        gradients(reference, a, b),
        strict=True,
    ):
        check(ours, expected)


def test_batch_invariance_is_that_of_derivatives_too_and_needs_a_gpu():
    a, b = draw(2, 5, 7), draw(7, 3)

    def loss(a, b):
        return (tilewright.matmul(a, b, activation="silu", batch_invariant=True) ** 2).sum()

    program = str(jax.make_jaxpr(jax.grad(loss, (0, 1)))(a, b))
    assert set(re.findall(r"batch_invariant=(\w+)", program)) == {"True"}
    assert program.count("batch_invariant=True") >= 3
    with pytest.raises(EngineUnavailableError, match="batch_invariant needs a GPU and the compiled handler"):
        jax.jit(loss)(a, b)
