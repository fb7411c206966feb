"""Gradients of matmul next to those of PyTorch's own operators: backward, twice, forward, and in torch.func."""

import pytest

torch = pytest.importorskip("torch")

from products import SHAPES, draw, matmul, same, stock  # noqa: E402

import tilewright  # noqa: E402
from tilewright import ArrayError  # noqa: E402
from tilewright.core.problem import ACTIVATIONS  # noqa: E402


def operands(shapes, bias=None, c=False):
    """Tensors that want a gradient, by argument."""
    a, b = (draw(*shape) for shape in shapes)
    found = {"a": a, "b": b}
    result = torch.matmul(a, b).shape
    m, n = a.shape[-2] if a.dim() > 1 else 1, b.shape[-1] if b.dim() > 1 else 1
    if bias:
        found["bias"] = draw(*{"row": (n,), "flat": (1, n), "column": (m, 1)}[bias])
    if c:
        found["c"] = draw(*result)
    return found


def backward(function, tensors, **options):
    """The result, and the gradients of a sum in which every element has another weight."""
    result = function(**tensors, **options)
    weights = torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(result.dtype)
    return result, torch.autograd.grad((result * weights).sum(), tuple(tensors.values()), create_graph=True)


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("bias", [None, "row", "flat", "column"])
def test_gradients_of_every_shape(shapes, bias):
    tensors = operands(shapes, bias, c=True)
    for one, other in zip(*(backward(f, tensors, alpha=0.5, beta=2.0) for f in (matmul, stock)), strict=True):
        same(one, other)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shapes", [SHAPES["matrices"], SHAPES["batch x matrix"]], ids=["matrices", "batch"])
def test_gradients_of_activations(shapes, activation):
    tensors = operands(shapes, "row")
    for one, other in zip(*(backward(f, tensors, activation=activation) for f in (matmul, stock)), strict=True):
        same(one, other)


@pytest.mark.first(20)
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_gradients_of_gradients(shapes, activation):
    tensors = operands(shapes, "row")
    found = []
    for function in (matmul, stock):
        _, first = backward(function, tensors, activation=activation)
        penalty = sum((gradient**2).sum() for gradient in first)
        found.append(torch.autograd.grad(penalty, tuple(tensors.values()), allow_unused=True, materialize_grads=True))
    same(*found, tolerance=2e-4)


@pytest.mark.parametrize("wanted", [("a",), ("b",), ("bias",), ("c",), ("a", "bias")])
def test_only_what_is_wanted_has_a_gradient(wanted):
    tensors = operands(SHAPES["matrices"], "row", c=True)
    for name, tensor in tensors.items():
        tensor.requires_grad_(name in wanted)
    for function in (matmul, stock):
        function(**tensors, beta=0.5, activation="relu").sum().backward()
        gradients = {name: tensor.grad for name, tensor in tensors.items()}
        assert {name for name, gradient in gradients.items() if gradient is not None} == set(wanted)
        for tensor in tensors.values():
            tensor.grad = None


def test_a_factor_is_kept_only_for_the_other_ones_gradient():
    a, w = draw(4, 5, grad=False), draw(5, 6)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        matmul(a, w)
    assert [tensor.data_ptr() for tensor in kept] == [a.data_ptr()]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("out_dtype", [None, torch.float32])
def test_gradients_have_the_type_of_what_they_are_of(dtype, out_dtype):
    kind = getattr(torch, dtype)
    tensors = {"a": draw(4, 5, dtype=kind), "b": draw(5, 6, dtype=kind), "bias": draw(6, dtype=out_dtype or kind)}
    for one, other in zip(*(backward(f, tensors, out_dtype=out_dtype) for f in (matmul, stock)), strict=True):
        same(one, other, tolerance=2e-2)


def test_gradients_of_transposed_and_expanded_tensors():
    x, w = draw(3, 7, 5), draw(6, 5)
    found = []
    for function in (matmul, stock):
        result = function(x.transpose(0, 1), w.T)
        found.append(torch.autograd.grad(result.sum(), (x, w)))  # whose own gradient has strides of 0
    same(*found)


def test_backward_products_go_through_the_operator_with_transposes_in_place():
    seen = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            seen.append((function, arguments))
            return function(*arguments, **(keywords or {}))

    x, w = draw(2, 4, 5), draw(6, 5)
    with Watch():
        matmul(x, w.T).backward(torch.ones(2, 4, 6))
    names = [function.name() for function, _ in seen]
    assert names.count("tilewright::matmul") == 3
    assert not {"aten::mm", "aten::bmm", "aten::clone", "aten::_to_copy"} & set(names)
    factors = [arguments[:2] for function, arguments in seen if function.name() == "tilewright::matmul"]
    assert [tuple(a.shape) for a, _ in factors] == [(2, 4, 5), (2, 4, 6), (5, 8)]


TRANSFORMS = {
    "grad": lambda f, x, v: torch.func.grad(f)(x),
    "jvp": lambda f, x, v: torch.func.jvp(f, (x,), (v,))[1],
    "grad of jvp": lambda f, x, v: torch.func.grad(lambda y: torch.func.jvp(f, (y,), (v,))[1])(x),
    "jvp of grad": lambda f, x, v: torch.func.jvp(torch.func.grad(f), (x,), (v,))[1],
    "jvp of jvp": lambda f, x, v: torch.func.jvp(lambda y: torch.func.jvp(f, (y,), (v,))[1], (x,), (v,))[1],
    "hessian": lambda f, x, v: torch.func.hessian(f)(x),
    "jacfwd": lambda f, x, v: torch.func.jacfwd(f)(x),
    "jacrev": lambda f, x, v: torch.func.jacrev(f)(x),
    "vmap of grad": lambda f, x, v: torch.func.vmap(torch.func.grad(f))(torch.stack([x, v, x + v])),
    "grad of vmap": lambda f, x, v: torch.func.grad(lambda y: torch.func.vmap(f)(y).sum())(torch.stack([x, v])),
    "vmap of jvp": lambda f, x, v: torch.func.vmap(lambda y: torch.func.jvp(f, (y,), (v,))[1])(torch.stack([x, v])),
}


@pytest.mark.first(11)
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("activation", [None, "relu", "silu"])
def test_transforms_of_torch_func(transform, activation):
    x, v, w, bias = draw(4, 4, grad=False), draw(4, 4, grad=False), draw(4, 4, grad=False), draw(4, grad=False)
    found = []
    for function in (matmul, stock):

        def number(y, function=function):
            inner = function(y, w.T, bias=bias, activation=activation)
            return (function(inner, y, c=y, beta=0.5) ** 2).sum()

        found.append(transform(number, x, v))
    same(*found, tolerance=1e-3)


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("bias", [None, "row", "column"])
def test_forward_gradients(shapes, bias):
    tensors = operands(shapes, bias, c=True)
    tangents = {name: torch.randn_like(tensor) for name, tensor in tensors.items()}
    found = []
    for function in (matmul, stock):
        with torch.autograd.forward_ad.dual_level():
            duals = {name: torch.autograd.forward_ad.make_dual(tensors[name], tangents[name]) for name in tensors}
            result = function(**duals, alpha=0.5, beta=2.0, activation="relu")
            found.append(torch.autograd.forward_ad.unpack_dual(result).tangent)
    same(*found)
    first, second = (torch.autograd.grad(one.sum(), tensors["a"], allow_unused=True)[0] for one in found)
    same(first, second)


def test_forward_gradient_of_a_bias_alone():
    a, b, bias = draw(3, 4, 5, grad=False), draw(5, 6, grad=False), draw(6, grad=False)
    found = [torch.func.jvp(lambda y, f=f: f(a, b, bias=y), (bias,), (bias,))[1] for f in (matmul, stock)]
    same(*found)


def test_out_cannot_be_given_where_a_gradient_is_recorded():
    a, b, out = draw(4, 5), draw(5, 6), torch.zeros(4, 6)
    with pytest.raises(ArrayError, match="out cannot be given where a gradient is recorded"):
        matmul(a, b, out=out)
    with torch.no_grad():
        assert matmul(a, b, out=out) is out
    same(out, (a @ b).detach())


@pytest.mark.parametrize("named", [{"kernel": "naive"}, {"config": "BM=64"}, {"engine": "emulator"}])
def test_what_is_not_recorded_is_refused(named):
    with pytest.raises(
        ArrayError,
        match="kernel, config, engine, devices and memory_limit cannot be named where PyTorch records a gradient",
    ):
        matmul(draw(4, 5), draw(5, 6), **named)


def test_a_plan_records_no_gradient():
    a, b = draw(4, 5), draw(5, 6)
    with pytest.raises(ArrayError, match="a plan cannot be recorded"):
        tilewright.plan(a, b)
    plan = tilewright.plan(a.detach(), b.detach())
    with pytest.raises(ArrayError, match="a plan cannot be recorded"):
        plan(a, b)
    with torch.no_grad():
        same(plan(a, b), a @ b)
