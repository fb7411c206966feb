"""Programs of JAX on four devices of the host; run by test_sharded_programs.py, in a process that has them.

Each check runs with XLA's own product, as programs on a CPU do, and with the handler and a stand-in for the driver, as
programs on GPUs do.
"""

from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.sharding_impls import GSPMDSharding
from jax.interpreters import mlir
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from xla_on_host import NEEDS, LaunchedEngine, build

import tilewright
from tilewright.frameworks.jax import lowering
from tilewright.frameworks.jax.product import local_p, product_p
from tilewright.runtime import xla_handler

calls = import_module("tilewright.api.call")
MESHES = {"explicit": AxisType.Explicit, "auto": AxisType.Auto}


@pytest.fixture(scope="module")
def handler(driver_library):
    handler = build()
    handler.open(driver_library.path)
    return handler


@pytest.fixture(params=["XLA", "handler"])
def engine(request, monkeypatch):
    """Engine that multiplies: None for XLA."""
    jax.clear_caches()
    if request.param == "XLA":
        mlir.register_lowering(product_p, lowering._lower_to_xla, platform="cpu", cacheable=False)
        yield None
    else:
        engine = LaunchedEngine(request.getfixturevalue("driver"), NEEDS)
        handler = request.getfixturevalue("handler")
        numbers = iter(range(1 << 30))
        monkeypatch.setattr(calls, "_gpu", lambda number: engine)
        monkeypatch.setattr(lowering, "_gpus", lambda: [0])
        monkeypatch.setattr(xla_handler, "load", lambda: handler)
        monkeypatch.setattr(lowering, "_name", lambda planned: f"{id(engine)} {next(numbers)}")
        mlir.register_lowering(product_p, lowering._lower_to_handler, platform="cpu", cacheable=False)
        mlir.register_lowering(local_p, lowering._lower_local, platform="cpu", cacheable=False)
        yield engine
    jax.clear_caches()


def mesh_of(engine, number):
    """A mesh for a case of this number: cases take turns, and each has one kind with XLA's product, the other with the
    handler's."""
    return make_mesh(list(MESHES)[(number + (engine is None)) % 2])


def make_mesh(kind):
    return jax.make_mesh((2, 2), ("x", "y"), axis_types=(MESHES[kind],) * 2)


def draw(*shape):
    return np.random.default_rng(shape).standard_normal(shape, np.float32)


def check(result, expected, tolerance=2e-5):
    assert result.shape == expected.shape
    np.testing.assert_allclose(np.float32(result), np.float32(expected), rtol=tolerance, atol=tolerance)


def sharded(mesh, *arrays_and_specs):
    return [jax.device_put(array, NamedSharding(mesh, spec)) for array, spec in arrays_and_specs]


def compiled(function, *operands, **settings):
    """A program, and which collectives it has."""
    program = jax.jit(function, **settings).lower(*operands).compile()
    text = program.as_text()
    return program, {
        name for name in ("all-gather", "all-reduce", "all-to-all", "collective-permute") if f" {name}" in text
    }


def multiplied(engine):
    """Sizes of the products that devices made."""
    return {(plan.problem.m, plan.problem.n, plan.problem.k) for plan in engine.planned}


# Operands, how they are sharded, how the result is, what each device multiplies, and which collectives there are.
DIVIDED = {
    "rows": ((8, 12), P("x"), (12, 16), P(), P("x"), (4, 16, 12), set()),
    "columns": ((8, 12), P(), (12, 16), P(None, "y"), P(None, "y"), (8, 8, 12), set()),
    "rows and columns": ((8, 12), P("x"), (12, 16), P(None, "y"), P("x", "y"), (4, 8, 12), set()),
    "rows along two axes": ((8, 12), P(("x", "y")), (12, 16), P(), P(("x", "y")), (2, 16, 12), set()),
    "k": ((8, 12), P(None, "x"), (12, 16), P("x"), P(), (8, 16, 6), {"all-reduce"}),
    "rows and k": ((8, 12), P("x", "y"), (12, 16), P("y"), P("x"), (4, 16, 6), {"all-reduce"}),
    "batch": ((4, 8, 12), P("x"), (4, 12, 16), P("x"), P("x"), (8, 16, 12), set()),
    "batch and k": ((4, 8, 12), P("x", None, "y"), (4, 12, 16), P("x", "y"), P("x"), (8, 16, 6), {"all-reduce"}),
    "a batch of a": ((4, 8, 12), P("x"), (12, 16), P(None, "y"), P("x", None, "y"), (16, 8, 12), set()),
    "a batch of b": ((8, 12), P(), (4, 12, 16), P(None, None, "y"), P(None, None, "y"), (8, 8, 12), set()),
    "batches that broadcast": ((2, 1, 8, 12), P("x"), (4, 12, 16), P("y"), P("x", "y"), (8, 16, 12), set()),
}


@pytest.mark.parametrize("case", DIVIDED)
def test_what_is_sharded_stays_so(engine, case):
    shape_a, spec_a, shape_b, spec_b, spec, each, moved = DIVIDED[case]
    mesh = make_mesh("auto" if engine else "explicit")
    a, b = draw(*shape_a), draw(*shape_b)
    operands = sharded(mesh, (a, spec_a), (b, spec_b))
    program, found = compiled(tilewright.matmul, *operands)
    result = program(*operands)
    check(result, a @ b)
    assert result.sharding.is_equivalent_to(NamedSharding(mesh, spec), result.ndim)
    assert found == moved
    if engine:
        assert multiplied(engine) == {each}


def weights(shape):
    return np.cos(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)


def gradients(multiply, *operands):
    """Gradients of a sum of a product's results with unequal weights."""

    def loss(*operands):
        result = multiply(*operands)
        return (result * weights(result.shape)).sum()

    return jax.jit(jax.grad(loss, tuple(range(len(operands)))))(*operands)


def summed(values, shape):
    """A gradient, added up over what an operand was broadcast along."""
    return values.reshape(-1, *shape).sum(0) if values.size > np.prod(shape) else values


@pytest.mark.parametrize(
    ("number", "case"), enumerate(["rows and columns", "rows and k", "batch and k", "a batch of a", "a batch of b"])
)
def test_gradients_of_sharded_operands(engine, number, case):
    mesh = mesh_of(engine, number)
    shape_a, spec_a, shape_b, spec_b, *_ = DIVIDED[case]
    a, b = draw(*shape_a), draw(*shape_b)
    operands = sharded(mesh, (a, spec_a), (b, spec_b))
    dy = weights((a @ b).shape)
    expected = summed(dy @ b.swapaxes(-1, -2), a.shape), summed(a.swapaxes(-1, -2) @ dy, b.shape)
    for found, right, operand in zip(gradients(tilewright.matmul, *operands), expected, operands, strict=True):
        check(found, right)
        assert jax.typeof(found).sharding == jax.typeof(operand).sharding


@pytest.mark.parametrize("side", ["row", "column"])
def test_an_epilogue_follows_the_sum_over_devices(engine, side):
    a, b = draw(8, 12), draw(12, 16)
    bias, along = (draw(16), P()) if side == "row" else (draw(8, 1), P("x"))
    operands = sharded(make_mesh("auto"), (a, P("x", "y")), (b, P("y")), (bias, along))

    def layer(a, b, bias):
        return tilewright.matmul(a, b, bias=bias, activation="relu", alpha=0.5)

    program, moved = compiled(layer, *operands)
    check(program(*operands), np.maximum(0.5 * (a @ b) + bias, 0))
    assert moved == {"all-reduce"}
    dy = np.where(0.5 * (a @ b) + bias > 0, weights((8, 16)), 0)
    expected = 0.5 * dy @ b.T, 0.5 * a.T @ dy, dy.sum(0 if side == "row" else 1, keepdims=side == "column")
    for found, right in zip(gradients(layer, *operands), expected, strict=True):
        check(found, right)


def test_partial_sums_are_added_up_in_float32(engine):
    a, b = np.full((8, 12), 1, np.float32), np.full((12, 16), 1, np.float32)
    a[:, 0], a[:, 6:] = 256, 2**-6
    a, b = (jnp.asarray(one).astype("bfloat16") for one in (a, b))
    operands = sharded(make_mesh("auto"), (a, P(None, "x")), (b, P("x")))
    # 261.09375 is 262 in bfloat16, but 260 as the sum of 261 and 0.09375, each rounded to bfloat16.
    check(jax.jit(tilewright.matmul)(*operands), np.full((8, 16), 262), 0)


@pytest.mark.parametrize("spec", [P("x"), P(None, ("x", "y")), P()])
def test_what_is_asked_of_a_result(engine, spec):
    mesh = make_mesh("auto")
    a, b = draw(8, 12), draw(12, 16)
    for of_a, of_b in ((P(), P()), (P(None, "x"), P("x")), (P("x"), P("x")), (P(None, "x"), P())):
        operands = sharded(mesh, (a, of_a), (b, of_b))
        found = jax.jit(tilewright.matmul, out_shardings=NamedSharding(mesh, spec))(*operands)
        check(found, a @ b)
        assert found.sharding.is_equivalent_to(NamedSharding(mesh, spec), 2)


@pytest.mark.parametrize("mesh", MESHES)
def test_transposed_factors_are_read_where_they_lie(engine, mesh):
    mesh = make_mesh(mesh)
    a, b = draw(12, 8), draw(16, 12)
    operands = sharded(mesh, (a, P("y", "x")), (b, P(None, "y")))
    check(jax.jit(lambda a, b: tilewright.matmul(a.T, b.T))(*operands), a.T @ b.T)
    if engine:
        assert multiplied(engine) == {(4, 16, 6)}
        assert {plan.problem.layout for plan in engine.planned} == {"TT"}


@pytest.mark.parametrize("settings", [{"kernel": "naive"}, {"batch_invariant": True}], ids=["kernel", "invariant"])
def test_what_may_not_be_divided_along_k_is_gathered(engine, settings):
    if engine is None:
        pytest.skip("XLA's product takes neither")
    a, b = draw(8, 12), draw(12, 16)
    operands = sharded(make_mesh("auto"), (a, P("x", "y")), (b, P("y")))
    check(jax.jit(lambda a, b: tilewright.matmul(a, b, **settings))(*operands), a @ b)
    assert multiplied(engine) == {(4, 16, 12)}


def test_sizes_that_no_number_of_devices_divides(engine):
    mesh = make_mesh("auto")
    a, b = draw(7, 10), draw(10, 3)

    def function(a, b):
        padded = jax.lax.with_sharding_constraint(jnp.pad(a, ((0, 1), (0, 2))), NamedSharding(mesh, P("x", "y")))
        return tilewright.matmul(padded[:7, :9] * 2, b[:9])

    check(jax.jit(function, out_shardings=NamedSharding(mesh, P()))(a, b), 2 * a[:, :9] @ b[:9])


MAPPED = {
    "rows": (P("x"), P(), P("x")),
    "columns": (P(), P(None, "x"), P(None, "x")),
    "rows and columns": (P("x"), P(None, "y"), P("x", "y")),
    "k": (P(None, "x"), P("x"), P()),
}


@pytest.mark.parametrize(("number", "case"), enumerate(MAPPED))
def test_shard_map(engine, number, case):
    """Where axes are explicit, what varies along them is checked."""
    of_a, of_b, of_result = MAPPED[case]
    mesh = mesh_of(engine, number)
    checked = AxisType.Explicit in mesh.axis_types
    a, b = draw(8, 12), draw(12, 16)
    operands = sharded(mesh, (a, of_a), (b, of_b))

    def part(a, b):
        found = tilewright.matmul(a, b)
        return jax.lax.psum(found, "x") if case == "k" else found

    mapped = jax.shard_map(part, mesh=mesh, in_specs=(of_a, of_b), out_specs=of_result, check_vma=checked)
    check(jax.jit(mapped)(*operands), a @ b)
    dy = weights((8, 16))
    for found, right in zip(gradients(mapped, *operands), (dy @ b.T, a.T @ dy), strict=True):
        check(found, right)


def test_shard_map_of_a_bias_and_c(engine):
    mesh = make_mesh("auto")
    a, b, c, bias = draw(8, 12), draw(12, 16), draw(8, 16), draw(16)
    specs = P("x"), P(), P("x"), P()
    operands = sharded(mesh, *zip((a, b, c, bias), specs, strict=True))

    def layer(a, b, c, bias):
        return tilewright.matmul(a, b, c=c, beta=0.5, bias=bias, activation="relu")

    dy = np.where(a @ b + 0.5 * c + bias > 0, weights((8, 16)), 0)
    expected = dy @ b.T, a.T @ dy, 0.5 * dy, dy.sum(0)
    mapped = jax.shard_map(layer, mesh=mesh, in_specs=specs, out_specs=P("x"))
    for found, right in zip(gradients(mapped, *operands), expected, strict=True):
        check(found, right)


def test_shard_map_over_one_of_two_axes(engine):
    """The other axis is XLA's: what lies divided along it is gathered."""
    mesh = make_mesh("auto")
    a, b = draw(8, 12), draw(12, 16)
    operands = sharded(mesh, (a, P("x", "y")), (b, P("y")))
    specs = {"in_specs": (P("x"), P()), "out_specs": P("x"), "axis_names": {"x"}}
    check(jax.jit(jax.shard_map(tilewright.matmul, mesh=mesh, **specs))(*operands), a @ b)


def test_layers_in_a_scan_and_vmap(engine):
    x, w = draw(8, 12), draw(3, 12, 12) / 4
    operands = sharded(make_mesh("auto"), (x, P("x")), (w, P(None, None, "y")))

    def layers(x, w):
        return jax.lax.scan(lambda x, w: (tilewright.matmul(x, w, activation="relu"), None), x, w)[0]

    expected = x
    for one in w:
        expected = np.maximum(expected @ one, 0)
    check(jax.jit(layers)(*operands), expected)
    check(jax.jit(jax.vmap(tilewright.matmul, (None, 0)))(*operands), x @ w)


REFUSED = {
    "k": (((8, 12), P(None, "x")), ((12, 16), P("y"))),
    "a batch": (((2, 8, 12), P("x")), ((2, 12, 16), P("y"))),
    "an axis twice": (((8, 12), P("x")), ((12, 16), P(None, "x"))),
}


@pytest.mark.parametrize("case", REFUSED)
def test_types_whose_shardings_contradict_each_other(engine, case):
    (shape_a, of_a), (shape_b, of_b) = REFUSED[case]
    operands = sharded(make_mesh("explicit"), (draw(*shape_a), of_a), (draw(*shape_b), of_b))
    with pytest.raises(Exception, match=r"a is sharded as .* and b as .*: jax.reshard"):
        jax.jit(tilewright.matmul)(*operands)
    operands = sharded(make_mesh("auto"), (draw(*shape_a), of_a), (draw(*shape_b), of_b))
    check(jax.jit(tilewright.matmul)(*operands), draw(*shape_a) @ draw(*shape_b))


@pytest.mark.parametrize("case", ["rows and columns", "rows and k", "batches that broadcast"])
def test_the_older_partitioner(engine, case):
    shape_a, spec_a, shape_b, spec_b, *_, moved = DIVIDED[case]
    a, b = draw(*shape_a), draw(*shape_b)
    operands = sharded(make_mesh("auto"), (a, spec_a), (b, spec_b))
    jax.config.update("jax_use_shardy_partitioner", False)
    try:
        program, found = compiled(tilewright.matmul, *operands)
        check(program(*operands), a @ b)
        assert found == moved
        unnamed = GSPMDSharding(jax.devices(), operands[0].sharding._to_xla_hlo_sharding(a.ndim))
        check(jax.jit(tilewright.matmul, in_shardings=(unnamed, None))(a, b), a @ b)
    finally:
        jax.config.update("jax_use_shardy_partitioner", True)
