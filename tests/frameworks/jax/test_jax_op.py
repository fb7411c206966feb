"""matmul() inside programs of JAX, on the host: values, derivatives, batches and errors."""

import re

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import tilewright  # noqa: E402
from tilewright import ArrayError, DtypeError, EngineUnavailableError, ProblemError  # noqa: E402
from tilewright.core.problem import PRECISIONS  # noqa: E402

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
    """Gradients of a sum of the function's results with unequal weights."""

    def weighed(*operands):
        result = function(*operands)
        return (result * jnp.cos(jnp.arange(result.size, dtype=result.dtype)).reshape(result.shape)).sum()

    return jax.jit(jax.grad(weighed, tuple(range(len(operands)))))(*operands)


@pytest.mark.first(2)
@pytest.mark.parametrize(("a", "b"), SHAPES.values(), ids=SHAPES)
def test_values_and_gradients(a, b):
    a, b = draw(*a), draw(*b)
    check(jax.jit(tilewright.matmul)(a, b), reference(a, b))
    for ours, expected in zip(gradients(tilewright.matmul, a, b), gradients(reference, a, b), strict=True):
        check(ours, expected)


@pytest.mark.first(1)
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


@pytest.mark.first(1)
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


@pytest.mark.first(1)
@pytest.mark.parametrize("way", ["jit", "vmap", "outside"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("zero", [0, -0.0, 1e-60])
def test_what_is_not_to_be_read_is_not(zero, dtype, way):
    a, b, c = (draw(*shape, dtype=dtype) for shape in ((5, 7), (7, 3), (5, 3)))
    nan_a, nan_b, nan_c = (jnp.full_like(one, jnp.nan) for one in (a, b, c))

    def product(a, b, c, **named):
        def function(a, b, c):
            return tilewright.matmul(a, b, c=c, **named)

        if way == "vmap":
            return jax.vmap(function)(a[None], b[None], c[None])[0]
        return (function if way == "outside" else jax.jit(function))(a, b, c)

    check(product(a, b, nan_c, beta=zero), reference(a, b).astype(dtype), 1e-2)
    check(product(nan_a, nan_b, c, alpha=zero, beta=2), 2 * c)
    check(product(nan_a, nan_b, nan_c, alpha=zero, beta=zero, activation="relu"), jnp.zeros_like(c))


def test_gradients_read_no_more_than_the_product():
    a, b, c = draw(5, 7), draw(7, 3), draw(5, 3)
    zero = gradients(lambda a, b: tilewright.matmul(a, b, c=c, alpha=0, beta=2), a * jnp.nan, b * jnp.nan)
    assert not any(one.any() for one in zero)
    ours = gradients(lambda a, b, c: tilewright.matmul(a, b, c=c), a, b, c * jnp.nan)
    for one, expected in zip(ours, gradients(lambda a, b, c: reference(a, b), a, b, c), strict=True):
        check(one, expected)


def test_an_array_that_was_deleted_is_refused():
    for dtype in ("float32", "bfloat16"):
        a, b = draw(5, 7, dtype=dtype) + 0, draw(7, 3, dtype=dtype)
        a.delete()
        with pytest.raises(ArrayError, match="a has no elements any more: it was deleted, or donated to a program"):
            tilewright.matmul(a, b)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_nan_stays_nan(activation):
    a = jnp.asarray([[jnp.nan, 1.0], [jnp.inf, -jnp.inf], [1.0, 2.0]])
    result = jax.jit(lambda a, b: tilewright.matmul(a, b, activation=activation))(a, jnp.ones((2, 1)))
    assert list(np.isnan(result[:, 0])) == [True, True, False]


@pytest.mark.first(1)
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


@pytest.mark.further
@pytest.mark.parametrize("of_b", ["int8", "uint8"])
def test_sums_of_integers_are_exact(of_b):
    """Also those that float32 does not hold."""
    a = jnp.asarray(np.random.default_rng(0).integers(-128, 128, (5, 9000)), "int8")
    b = jnp.asarray(np.random.default_rng(1).integers(100, 128, (9000, 3)), of_b)
    exact = np.asarray(a, np.int64) @ np.asarray(b, np.int64)
    c = jnp.asarray(exact % 1000003, "int32")
    for way in (lambda function: function, jax.jit):
        ours = way(lambda a, b: tilewright.matmul(a, b))(a, b)
        assert ours.dtype == jnp.int32
        np.testing.assert_array_equal(ours, exact)
        more = way(lambda a, b, c: tilewright.matmul(a, b, c=c, alpha=-3, beta=2, bias=c[0]))(a, b, c)
        np.testing.assert_array_equal(more, -3 * exact + 2 * np.asarray(c, np.int64) + np.asarray(c[0], np.int64))
        rounded = way(lambda a, b: tilewright.matmul(a, b, out_dtype="float32", activation="relu"))(a, b)
        np.testing.assert_array_equal(rounded, np.maximum(exact, 0).astype(np.float32))


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


@pytest.mark.first(1)
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


@pytest.mark.further
def test_vmap_of_vmap_and_of_gradients():
    a, b = draw(4, 6, 5, 7), draw(6, 7, 3)
    check(jax.vmap(jax.vmap(tilewright.matmul), (0, None))(a, b), reference(a, b))
    per_example = jax.vmap(jax.grad(lambda x, w: tilewright.matmul(x, w, activation="relu").sum(), 1), (0, None))
    expected = jax.vmap(jax.grad(lambda x, w: jax.nn.relu(reference(x, w)).sum(), 1), (0, None))
    check(per_example(a[0], b[0]), expected(a[0], b[0]))


@pytest.mark.further
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


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("way", "dtype"), [("jit", "float32"), ("grad", "bfloat16"), ("vmap", "float32"), ("outside", "bfloat16")]
)
@pytest.mark.parametrize("constants", [("a",), ("b",), ("bias",), ("c",), ("b", "bias", "c")], ids=" ".join)
def test_arrays_of_numpy_are_constants(constants, way, dtype):
    shapes = {"a": (5, 7), "b": (7, 3), "bias": (3,), "c": (5, 3)}
    arrays = {name: draw(*shape, dtype=dtype) for name, shape in shapes.items()}
    of_numpy = {name: np.asarray(arrays[name]) for name in constants}
    moving, x = "b" if "a" in constants else "a", jnp.zeros((), dtype)

    def result(arrays):
        def function(x):
            return tilewright.matmul(**{**arrays, moving: arrays[moving] + x}, beta=2.0)

        return {
            "jit": lambda: jax.jit(function)(x),
            "grad": lambda: jax.grad(lambda x: function(x).astype("float32").sum())(x),
            "vmap": lambda: jax.vmap(function)(x[None]),
            "outside": lambda: function(x),
        }[way]()

    found = result({**arrays, **of_numpy})
    assert isinstance(found, jax.Array)
    check(found, result(arrays))


def test_a_constant_is_what_it_was_when_the_program_was_traced():
    b = np.ones((7, 3), np.float32)
    program = jax.jit(lambda a: tilewright.matmul(a, b))
    a, expected = draw(5, 7), reference(draw(5, 7), jnp.ones((7, 3)))
    check(program(a), expected)
    b[:] = 2
    check(program(a), expected)


EXPORTED = {
    "rows": (("m, 5", "5, 3"), ((4, 5), (5, 3)), {}),
    "all sizes": (("m, k", "k, n"), ((4, 5), (5, 3)), {"activation": "gelu"}),
    "vectors": (("k", "k"), ((5,), (5,)), {}),
    "a batch": (("b, m, k", "k, n"), ((2, 4, 5), (5, 3)), {"alpha": 2.0}),
    "batches": (("b, m, k", "b, k, n"), ((2, 4, 5), (2, 5, 3)), {}),
    "sums of symbols": (("m, 2*k", "2*k, n+1"), ((4, 6), (6, 3)), {}),
}


def exported(function, *sizes, **options):
    scope = jax.export.SymbolicScope()
    shapes = [jax.export.symbolic_shape(text, scope=scope) for text in sizes]
    return jax.export.export(jax.jit(function), **options)(*(jax.ShapeDtypeStruct(one, "float32") for one in shapes))


@pytest.mark.first(1)
@pytest.mark.parametrize(("sizes", "shapes", "named"), EXPORTED.values(), ids=EXPORTED)
def test_a_program_is_exported_for_any_sizes(sizes, shapes, named):
    a, b = (draw(*shape) for shape in shapes)

    def product(a, b):
        return tilewright.matmul(a, b, **named)

    def derivative(a, b):
        return jax.grad(lambda a, b: (product(a, b) ** 2).sum(), 1)(a, b)

    for function in (product, derivative):
        check(jax.jit(exported(function, *sizes).call)(a, b), jax.jit(function)(a, b))


@pytest.mark.first(1)
@pytest.mark.parametrize(("bias", "shape"), [("n", (3,)), ("m, 1", (4, 1))])
def test_a_bias_and_c_are_exported_for_any_sizes(bias, shape):
    operands = draw(4, 5), draw(5, 3), draw(*shape), draw(4, 3)

    def function(a, b, bias, c):
        return tilewright.matmul(a, b, bias=bias, c=c, beta=2.0, activation="silu")

    program = exported(function, "m, k", "k, n", bias, "m, n")
    check(jax.jit(program.call)(*operands), jax.jit(function)(*operands))


def test_symbols_that_do_not_fit_are_named():
    with pytest.raises(ArrayError, match="b must have k rows, as a has columns: got b of j x n, and a of m x k"):
        exported(tilewright.matmul, "m, k", "j, n")
    with pytest.raises(ArrayError, match="batches must be equal or 1"):
        exported(tilewright.matmul, "b, m, k", "c, k, n")


def test_on_a_gpu_symbols_are_for_xla():
    with pytest.warns(RuntimeWarning, match="XLA multiplies .* plans are made for sizes, .* for any m, k, n"):
        exported(tilewright.matmul, "m, k", "k, n", platforms=["cuda"])
    for named in ({"kernel": "naive"}, {"batch_invariant": True}):
        with pytest.raises(EngineUnavailableError, match=r"plans are made for sizes, .* for any m, k, n"):
            exported(lambda a, b, named=named: tilewright.matmul(a, b, **named), "m, k", "k, n", platforms=["cuda"])


TWO = {
    "JAX": jnp.float32(2),
    "bfloat16": jnp.bfloat16(2),
    "an integer": jnp.int32(2),
    "NumPy": np.array(2.0),
    "a scalar of NumPy": np.float32(2),
}


@pytest.mark.parametrize("two", TWO.values(), ids=TWO)
def test_scalars_may_be_arrays(two):
    def product(a, b, c):
        return tilewright.matmul(a, b, c=c, alpha=two, beta=two)

    a, b, c = draw(5, 7), draw(7, 3), draw(5, 3)
    for function in (product, jax.jit(product)):
        check(function(a, b, c), 2 * reference(a, b) + 2 * c)


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
    "a constant's type": (
        lambda a: tilewright.matmul(a, np.asarray(B, np.float64)),
        DtypeError,
        r"b has element type float64; .*: pass b.astype\('float32'\)",
    ),
    "a constant's mask": (
        lambda a: tilewright.matmul(np.ma.masked_less(np.asarray(A), 0), a.T),
        ArrayError,
        "a must be a plain numpy.ndarray, got numpy.MaskedArray",
    ),
    "out of NumPy": (
        lambda a: tilewright.matmul(a, B, out=np.empty((5, 3), "f4")),
        ArrayError,
        "out must be of the same library as a",
    ),
    "types": (lambda a: tilewright.matmul(a, B.astype("float16")), DtypeError, "b must have the element type of a"),
    "type": (lambda a: tilewright.matmul(a.astype(int), B), DtypeError, "a has element type int32"),
    "out_dtype": (lambda a: tilewright.matmul(a, B, out_dtype="float64"), DtypeError, "out_dtype must be one of"),
    "out": (lambda a: tilewright.matmul(a, B, out=C), ArrayError, "out must be an array that can be written"),
    "bias": (lambda a: tilewright.matmul(a, B, bias=jnp.ones(4)), ArrayError, "bias must have 3 elements"),
    "c": (lambda a: tilewright.matmul(a, B, c=A, beta=1.0), ArrayError, "c must be 5 x 3"),
    "no c": (lambda a: tilewright.matmul(a, B, beta=1.0), ArrayError, "c must be given where beta is not 0"),
    "traced alpha": (
        lambda a: tilewright.matmul(a, B, alpha=a[0, 0]),
        ProblemError,
        "alpha must be a number when a program is traced, got jax.DynamicJaxprTracer: it is part of the program",
    ),
    "traced beta": (
        lambda a: tilewright.matmul(a, B, c=C, beta=a[0, 0]),
        ProblemError,
        "beta must be a number when a program is traced",
    ),
    "alpha of one dimension": (
        lambda a: tilewright.matmul(a, B, alpha=np.ones(1)),
        ProblemError,
        "alpha must be a number, got array",
    ),
    "complex": (
        lambda a: tilewright.matmul(a.astype("complex64"), B),
        DtypeError,
        "b must have the element type of a: got float32, and complex64 for a",
    ),
    "complex alpha": (
        lambda a: tilewright.matmul(a, B, alpha=2j),
        ProblemError,
        "alpha must be a number, got 2j: it may be complex where a is",
    ),
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


@pytest.mark.first(2)
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
    promised = [re.findall(r"precision=([^,]*), kernel", str(program)) for program in programs]
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
