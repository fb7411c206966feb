"""matmul() inside programs of JAX on a GPU: launched by the XLA handler."""

import numpy as np
import pytest

import tilewright

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

if not any(device.platform == "gpu" for device in jax.devices()):
    pytest.skip("this JAX sees no GPU", allow_module_level=True)


def draw(*shape, dtype="float32"):
    return jnp.asarray(np.random.default_rng(shape).standard_normal(shape, np.float32)).astype(dtype)


def check(result, expected, tolerance=1e-5):
    assert result.shape == expected.shape
    result, expected = np.float64(result), np.float64(expected)
    assert np.linalg.norm(result - expected) <= tolerance * np.linalg.norm(expected)


def reference(a, b):
    return jnp.matmul(a, b, precision="highest", preferred_element_type="float32")


def calls(function, *operands):
    """How many calls of the handler XLA compiles a function to, and how many copies that transpose."""
    text = jax.jit(function).lower(*operands).compile().as_text()
    return text.count('custom_call_target="tilewright_product"'), text.count(" transpose(")


VIEWS = {
    "NN": lambda a, b: (a, b),
    "TN": lambda a, b: (a.T, b),
    "NT": lambda a, b: (a, b.T),
    "TT": lambda a, b: (a.T, b.T),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (64, 64, 64), (100, 37, 61), (512, 512, 512), (1031, 257, 509)])
def test_layouts(view, sizes):
    m, n, k = sizes
    a, b = view(draw(m, k), draw(k, n))
    a, b = (jnp.array(factor) for factor in (a, b))

    def function(a, b):
        return tilewright.matmul(*view(a, b))

    check(jax.jit(function)(a, b), reference(*view(a, b)))
    assert calls(function, a, b) == (1, 0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_gradients(dtype):
    x, w, bias = draw(8, 100, 96, dtype=dtype), draw(96, 200, dtype=dtype), draw(200, dtype=dtype)

    def loss(multiply):
        return jax.jit(jax.grad(lambda x, w, bias: jnp.tanh(multiply(x, w, bias)).sum(dtype="float32"), (0, 1, 2)))

    ours = loss(lambda x, w, bias: tilewright.matmul(x, w, bias=bias, activation="gelu"))(x, w, bias)
    expected = loss(lambda x, w, bias: jax.nn.gelu(reference(x, w) + bias, approximate=False).astype(dtype))(x, w, bias)
    for one, other in zip(ours, expected, strict=True):
        check(one, other, 1e-4 if dtype == "float32" else 2e-2)


def test_batches_vmap_and_scan():
    a, b, w = draw(6, 70, 50), draw(6, 50, 90), draw(50, 50) / 7
    check(jax.jit(jax.vmap(tilewright.matmul))(a, b), reference(a, b))
    check(jax.jit(jax.vmap(tilewright.matmul, (0, None)))(a, w), reference(a, w))
    scanned = jax.jit(lambda x: jax.lax.scan(lambda x, _: (tilewright.matmul(x, w), None), x, length=20)[0])
    expected = a[0]
    for _ in range(20):
        expected = reference(expected, w)
    check(scanned(a[0]), expected, 1e-4)


@pytest.mark.parametrize("sizes", [(2048, 2048, 2048), (16, 4096, 4096), (128, 512, 65536)])
def test_products_that_divide_k_run_again_and_again(sizes):
    """Their counters are 0 before each launch, whoever had the memory before."""
    m, n, k = sizes
    a, b = draw(m, k), draw(k, n)
    expected = reference(a, b)
    function = jax.jit(lambda a, b: (tilewright.matmul(a, b), jnp.sin(a).sum(), tilewright.matmul(2 * a, b)))
    for _ in range(5):
        one, _, two = function(a, b)
        check(one, expected)
        check(two, 2 * expected)


@pytest.mark.parametrize("sizes", [(64, 256), (16, 4096)], ids=["one launch", "blocks that share tiles"])
def test_programs_that_xla_replays_as_a_graph(sizes):
    """From five operations on, XLA captures a program's calls, and replays them on other memory."""
    rows, width = sizes
    w = draw(width, width) / width**0.5

    def layers(product):
        def run(x):
            for _ in range(8):
                x = jnp.tanh(product(x, w))
            return x

        return jax.jit(run)

    ours, theirs = layers(tilewright.matmul), layers(reference)
    cached = []
    for i in range(5):
        x = draw(rows, width) + i
        cached.append((ours(x), theirs(x)))
    for result, expected in cached:
        check(result, expected, 1e-4)


def test_several_gpus():
    """Each multiplies its rows, or its part of k, and gradients are sharded as the operands."""
    if len(jax.devices()) < 2:
        pytest.skip("needs two GPUs")
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:2])
    a, b = draw(1024, 768), draw(768, 512)
    for of_a, of_b, moved in (("x", None), (None, None), 0), ((None, "x"), ("x", None), 1):
        specs = (jax.sharding.PartitionSpec(*spec) for spec in (of_a, of_b))
        there = [
            jax.device_put(one, jax.sharding.NamedSharding(mesh, spec)) for one, spec in zip((a, b), specs, strict=True)
        ]
        program = jax.jit(tilewright.matmul).lower(*there).compile()
        text = program.as_text()
        assert text.count('custom_call_target="tilewright_product"') == 1
        assert text.count(" all-gather") == 0 and ("all-reduce" in text) == bool(moved)
        for _ in range(5):
            check(program(*there), reference(a, b))
        found = jax.jit(jax.grad(lambda a, b: jnp.tanh(tilewright.matmul(a, b)).sum(), (0, 1)))(*there)
        expected = jax.grad(lambda a, b: jnp.tanh(reference(a, b)).sum(), (0, 1))(a, b)
        for one, other in zip(found, expected, strict=True):
            check(one, other, 1e-4)
