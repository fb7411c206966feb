"""The operator tilewright::matmul: which calls go to it, shapes, compile, export, vmap, autocast, modes."""

import subprocess
import sys
import warnings
from functools import partial
from importlib import import_module

import pytest

torch = pytest.importorskip("torch")

from products import SHAPES, draw, matmul, same, stock  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

import tilewright  # noqa: E402
from tilewright import ArrayError, DtypeError, ProblemError  # noqa: E402
from tilewright.core.problem import ACTIVATIONS  # noqa: E402

OP = "tilewright::matmul"


class Watch(torch.utils._python_dispatch.TorchDispatchMode):
    """Keeps the names of operators that are called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        self.names.append(function.name())
        return function(*arguments, **(keywords or {}))


class Named(torch.Tensor):
    """A subclass without a meaning of its own."""


def op():
    import tilewright.frameworks.torch.op  # noqa: F401, PLC0415 - defines the operator

    return torch.ops.tilewright.matmul.default


def test_a_plain_call_does_not_go_through_the_operator(monkeypatch):
    a, b = draw(4, 5, grad=False), draw(5, 6, grad=False)
    monkeypatch.setattr(import_module("tilewright.frameworks.torch.op"), "matmul_op", None)
    same(matmul(a, b), a @ b)
    with torch.no_grad():
        same(matmul(a.clone().requires_grad_(), b), a @ b)
    with torch.inference_mode():
        same(matmul(a, torch.nn.Parameter(b)), a @ b)


def test_a_recorded_call_is_one_operator():
    a, b, bias = draw(3, 4, 5), draw(5, 6, grad=False), draw(6)
    with Watch() as watch:
        matmul(a, b, bias=bias, activation="relu")
    assert [name for name in watch.names if name != "aten::detach"] == [OP]


def test_subclasses_go_through_the_operator_and_come_back():
    a = draw(4, 5, grad=False)
    result = matmul(a.as_subclass(Named), a.T)
    assert type(result) is Named
    same(result.as_subclass(torch.Tensor), a @ a.T)


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_meta_tensors_give_the_shape(shapes):
    a, b = (torch.empty(shape, device="meta") for shape in shapes)
    assert matmul(a, b).shape == torch.matmul(a, b).shape


def test_fake_tensors_give_shape_and_type():
    with FakeTensorMode():
        a, b = torch.empty(3, 4, 5, dtype=torch.float16), torch.empty(5, 6, dtype=torch.float16)
        found = matmul(a, b, out_dtype=torch.float32)
    assert (found.shape, found.dtype, found.stride()) == ((3, 4, 6), torch.float32, (24, 6, 1))


REFUSED = {
    "inner": ((4, 5), (6, 7), {}, ArrayError, "b must have 5 rows, as a has columns"),
    "bias": ((4, 5), (5, 6), {"bias": draw(4)}, ArrayError, "bias must have 6 elements, or 4 x 1, got shape"),
    "c": ((4, 5), (5, 6), {"c": draw(6, 4), "beta": 1.0}, ArrayError, "c must be 4 x 6 as a @ b is, got 6 x 4"),
    "no c": ((4, 5), (5, 6), {"beta": 1.0}, ArrayError, "c must be given where beta is not 0"),
    "activation": ((4, 5), (5, 6), {"activation": "geluu"}, ProblemError, "did you mean 'gelu'"),
    "alpha": ((4, 5), (5, 6), {"alpha": float("nan")}, ProblemError, "alpha must be a number"),
    "precision": ((4, 5), (5, 6), {"precision": "fp16x"}, ProblemError, "got 'fp16x'; did you mean 'fp16x3'"),
    "out_dtype": ((4, 5), (5, 6), {"out_dtype": torch.float64}, DtypeError, "out_dtype must be one of float32"),
}


@pytest.mark.parametrize("kind", ["gradient", "meta"])
@pytest.mark.parametrize(("a", "b", "options", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_named(kind, a, b, options, error, words):
    first, second = (draw(*shape) if kind == "gradient" else torch.empty(shape, device="meta") for shape in (a, b))
    if kind == "meta":
        options = {
            key: value.to("meta") if isinstance(value, torch.Tensor) else value for key, value in options.items()
        }
    with pytest.raises(error, match=words):
        matmul(first, second, **options)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_precision_of_16_bit_factors_is_refused(device):
    a, b = (torch.empty(shape, device=device, dtype=torch.float16, requires_grad=True) for shape in ((4, 5), (5, 6)))
    with pytest.raises(DtypeError, match=r"precision is for float32 factors, got precision='ieee' with .* float16"):
        matmul(a, b, precision="ieee")


def test_float64_is_refused_where_a_gradient_is_recorded():
    with pytest.raises(DtypeError, match="float64"):
        matmul(draw(4, 5, dtype=torch.float64), draw(5, 6, dtype=torch.float64))


def integers(dtype, *shape):
    info = torch.iinfo(dtype)
    return torch.randint(info.min, info.max + 1, shape, dtype=dtype)


@pytest.mark.parametrize("types", [(torch.int8, torch.int8), (torch.uint8, torch.int8)], ids=str)
def test_products_of_integers_are_compiled_mapped_and_as_int_mm_has_them(types):
    a, b = integers(types[0], 20, 700), integers(types[1], 700, 24)
    c, expected = integers(torch.int32, 20, 24), (a.long() @ b.long()).int()
    whole = (-3 * expected.long() + 2 * c.long() + c[0].long()).int()
    if types[0] == torch.int8:
        assert torch.equal(torch._int_mm(a, b), expected)
    everything = lambda a, b, c: matmul(a, b, c=c, alpha=-3, beta=2, bias=c[0])  # noqa: E731
    for way in (lambda function: function, partial(torch.compile, backend="aot_eager", fullgraph=True)):
        assert torch.equal(way(matmul)(a, b), expected)
        assert torch.equal(way(everything)(a, b, c), whole)
        assert torch.equal(way(partial(matmul, out_dtype=torch.float32))(a, b), expected.float())
    mapped = torch.vmap(everything, in_dims=(0, None, 0))(a.reshape(4, 5, 700), b, c[:5].expand(4, 5, 24).contiguous())
    together = torch.stack([everything(one, b, c[:5]) for one in a.reshape(4, 5, 700)])
    assert torch.equal(mapped, together)
    meta = matmul(a.to("meta"), b.to("meta"))
    assert (meta.dtype, meta.shape) == (torch.int32, (20, 24))
    bias = torch.zeros(24, requires_grad=True)
    matmul(a, b, bias=bias, out_dtype=torch.float32).sum().backward()
    assert torch.equal(bias.grad, torch.full((24,), 20.0))
    for other in (b.to("meta").float(), b.to("meta").int()):
        with pytest.raises(DtypeError, match="b must have element type"):
            matmul(a.to("meta"), other)


CHECKED = {
    "plain": lambda: (draw(4, 5), draw(5, 6)),
    "bias and activation": lambda: (draw(2, 4, 5), draw(5, 6), draw(6), None, 1.0, 0.0, "gelu"),
    "c": lambda: (draw(4, 5), draw(5, 6), None, draw(4, 6), 0.5, 2.0, "relu"),
    "precision": lambda: (draw(4, 5), draw(5, 6), draw(6), None, 1.0, 0.0, "relu", None, "fp16x3"),
    "half": lambda: (draw(4, 5, dtype=torch.float16), draw(6, 5, dtype=torch.float16).T),
    "no gradient": lambda: (draw(4, 5, grad=False), draw(5, 6, grad=False), None, None, 2.0),
}


@pytest.mark.first(1)
@pytest.mark.parametrize("arguments", CHECKED.values(), ids=CHECKED)
def test_pytorch_finds_no_fault_in_the_operator(arguments):
    found = torch.library.opcheck(op(), arguments(), rtol=1e-2, atol=1e-2)
    assert set(found.values()) == {"SUCCESS"}


def layer(x, w, bias):
    return matmul(matmul(x, w.T, bias=bias, activation="gelu"), w, alpha=2)


def stock_layer(x, w, bias):
    return 2 * stock(stock(x, w.T, bias=bias, activation="gelu"), w)


@pytest.mark.first(1)
@pytest.mark.parametrize(("backend", "dynamic"), [("eager", None), ("aot_eager", True)])
def test_compiled_without_a_graph_break(backend, dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend=backend, fullgraph=True, dynamic=dynamic)
    for rows in (4, 9, 1):
        x, w, bias = draw(rows, 5), draw(6, 5), draw(6)
        found = [f(x, w, bias) for f in (compiled, stock_layer)]
        same(*found)
        same(*(torch.autograd.grad(one.pow(2).sum(), (x, w, bias)) for one in found), tolerance=1e-4)


class Launcher:
    """The compiled launcher, which knows no call."""

    @staticmethod
    def call(*arguments):
        torch._dynamo.graph_break()
        return Launcher


@pytest.mark.first(1)
@pytest.mark.parametrize("launched", [False, True])
def test_matmul_itself_can_be_compiled(monkeypatch, launched):
    if launched:
        monkeypatch.setattr(tilewright.api.gpu, "fast", Launcher)
        monkeypatch.setattr(tilewright.api.gpu, "miss", Launcher)
    torch._dynamo.reset()
    a, b, out = draw(4, 5, grad=False), draw(5, 6, grad=False), torch.empty(4, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = torch.compile(matmul, backend="eager", fullgraph=True)
        same(compiled(a, b), a @ b)
        assert compiled(a, b, out=out, out_dtype="float32") is out
    same(out, a @ b)


def test_exported_with_a_dimension_that_varies():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(5, 6)

        def forward(self, x):
            return matmul(x, self.inner.weight.T, bias=self.inner.bias, activation="relu")

    module, x = Layer(), draw(3, 4, 5, grad=False)
    program = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert op() in targets
    y = draw(7, 4, 5, grad=False)
    same(program.module()(y), torch.relu(module.inner(y)))
    same(program.run_decompositions().module()(y), torch.relu(module.inner(y)))


def test_traced_with_real_tensors_it_is_one_operator():
    from torch.fx.experimental.proxy_tensor import make_fx  # noqa: PLC0415

    a, b = draw(4, 5, grad=False), draw(5, 6, grad=False)
    graph = make_fx(lambda x, y: matmul(x, y, alpha=2.0))(a, b)
    assert [node.target for node in graph.graph.nodes if node.op == "call_function"] == [op()]
    same(graph(2 * a, b), 4 * a @ b)


MAPS = {"a": (0, None), "b": (None, 0), "both": (0, 0), "last": (-1, None), "inner": (1, 2)}


@pytest.mark.parametrize("dims", MAPS.values(), ids=MAPS)
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_vmap_of_factors(shapes, dims):
    factors = []
    for shape, dim in zip(shapes, dims, strict=True):
        if dim is not None:
            at = dim if dim >= 0 else len(shape)
            at = min(at, len(shape))
            shape = (*shape[:at], 3, *shape[at:])
        factors.append(draw(*shape, grad=False))
    dims = tuple(None if dim is None else min(dim, len(shape)) for dim, shape in zip(dims, shapes, strict=True))
    n = shapes[1][-1] if len(shapes[1]) > 1 else 1
    bias = draw(n, grad=False)
    found = [
        torch.vmap(lambda x, y, f=f: f(x, y, bias=bias, alpha=0.5, activation="silu"), in_dims=dims)(*factors)
        for f in (matmul, stock)
    ]
    same(*found)


@pytest.mark.first(40)
@pytest.mark.parametrize("mapped", [("bias",), ("c",), ("a", "bias"), ("b", "c"), ("a", "b", "bias", "c")])
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("bias", ["row", "column"])
def test_vmap_of_what_is_added(shapes, mapped, bias):
    a, b = (draw(*shape, grad=False) for shape in shapes)
    m, n = a.shape[-2] if a.dim() > 1 else 1, b.shape[-1] if b.dim() > 1 else 1
    tensors = {
        "a": a,
        "b": b,
        "bias": draw(*((n,) if bias == "row" else (m, 1)), grad=False),
        "c": draw(*torch.matmul(a, b).shape, grad=False),
    }
    for name in mapped:
        tensors[name] = torch.stack([tensors[name], tensors[name] + 1], -1)
    dims = tuple(-1 if name in mapped else None for name in tensors)

    def mapped_by(function):
        def call(a, b, bias, c):
            return function(a, b, bias=bias, c=c, beta=0.5, activation="gelu")

        return torch.vmap(call, in_dims=dims)(*tensors.values())

    same(mapped_by(matmul), mapped_by(stock))


def test_autocast_casts_as_it_does_for_pytorch():
    a, b, bias = draw(4, 5), draw(5, 6), draw(6)
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = matmul(a, b, bias=bias), torch.addmm(bias, a, b)
        wide = matmul(a, b, out_dtype=torch.float32)
        assert matmul(a.detach(), b.detach()).dtype == torch.bfloat16
    assert ours.dtype == theirs.dtype == torch.bfloat16
    assert wide.dtype == torch.float32
    same(ours, theirs, tolerance=2e-2)
    for one in torch.autograd.grad(ours.float().sum(), (a, b, bias)):
        assert one.dtype == torch.float32


def test_deterministic_and_inference_mode(monkeypatch):
    a, b = draw(4, 5), draw(5, 6)
    torch.use_deterministic_algorithms(True)
    try:
        same(matmul(a, b), a @ b)
    finally:
        torch.use_deterministic_algorithms(False)
    with torch.inference_mode():
        result = op()(a, b)
    assert result.is_inference()


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_the_operator_itself_computes_what_matmul_does(activation):
    a, b, bias, c = (draw(*shape, grad=False) for shape in ((4, 5), (5, 6), (4, 1), (4, 6)))
    options = {"bias": bias, "c": c, "alpha": 0.5, "beta": 2.0, "activation": activation}
    same(op()(a, b, **options), matmul(a, b, **options))


def test_tilewright_does_not_import_pytorch():
    code = "import sys, tilewright\nassert not [name for name in sys.modules if name.partition('.')[0] == 'torch']\n"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_precision_passes_through_every_transform():
    a, b = draw(4, 5), draw(5, 6)
    calls = []

    class Arguments(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            if function.name() == OP:
                calls.append((*arguments, *(keywords or {}).values())[-1])
            return function(*arguments, **(keywords or {}))

    def product(x):
        return matmul(x, b, precision="fp16x3")

    with Arguments():
        torch.autograd.grad(product(a).sum(), (a, b))
        torch.func.jvp(product, (a.detach(),), (a.detach(),))
        torch.vmap(lambda bias: matmul(a, b, bias=bias, precision="fp16x3"))(draw(2, 6))
    assert len(calls) >= 3 + 2 + 1
    assert set(calls) == {"fp16x3"}


def test_a_precision_is_part_of_what_is_compiled():
    torch._dynamo.reset()
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph.print_readable(print_output=False))
        return graph.forward

    a, b = draw(4, 5, grad=False), draw(5, 6, grad=False)
    compiled = torch.compile(lambda a, b, p: matmul(a, b, precision=p), backend=backend, fullgraph=True)
    for precision in ("ieee", "fp16x3"):
        same(compiled(a, b, precision), a @ b)
    assert [f"'{precision}'" in graph for graph, precision in zip(graphs, ("ieee", "fp16x3"), strict=True)] == [
        True
    ] * 2


def test_float32_s_promise_is_recorded_as_no_precision():
    with Watch():
        traced = torch.fx.experimental.proxy_tensor.make_fx(lambda a, b: matmul(a, b, precision="float32"))(
            draw(4, 5, grad=False), draw(5, 6, grad=False)
        )
    assert "float32" not in traced.code


def test_autocast_s_types_have_no_precision():
    a, b = draw(4, 5), draw(5, 6)
    with torch.autocast("cpu", torch.bfloat16):
        same(matmul(a, b, precision="fp16x3"), matmul(a, b))
        with pytest.raises(ProblemError, match="precision must be one of"):
            matmul(a, b, precision="fp16")
