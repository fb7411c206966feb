"""complex64 tensors: lazily conjugated ones in place, gradients as PyTorch's, transforms, compiled code."""

from functools import partial

import pytest

torch = pytest.importorskip("torch")

from products import SHAPES, draw, matmul, same, stock  # noqa: E402

import tilewright  # noqa: E402
from tilewright.api import front  # noqa: E402
from tilewright.core.errors import ArrayError, DtypeError, ProblemError  # noqa: E402

COMPLEX = torch.complex64


def tensor(*shape, grad=True):
    return draw(*shape, grad=grad, dtype=COMPLEX)


def backward(function, tensors, **options):
    """The result, and the gradients of the real part of a sum in which every element has another weight."""
    result = function(**tensors, **options)
    weights = torch.linspace(-1, 1, result.numel()).reshape(result.shape) * (1 - 2j)
    return result, torch.autograd.grad((result * weights).sum().real, tuple(tensors.values()), create_graph=True)


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_gradients_of_every_shape(shapes):
    a, b = (tensor(*shape) for shape in shapes)
    result = torch.matmul(a, b)
    tensors = {"a": a, "b": b, "c": tensor(*result.shape), "bias": tensor(b.shape[-1] if b.dim() > 1 else 1)}
    found = []
    for function in (matmul, stock):
        value, first = backward(function, tensors, alpha=2 - 1j, beta=2.0)
        penalty = sum((one.abs() ** 2).sum() for one in first)
        second = torch.autograd.grad(penalty, (a, b), allow_unused=True, materialize_grads=True)
        found.append((value, first, second))
    same(*found, tolerance=2e-4)


CONJUGATED = {
    "conj a": lambda a, b: (a.conj(), b),
    "conj b": lambda a, b: (a, b.conj()),
    "adjoints": lambda a, b: (b.mH, a.mH),
    "of a slice": lambda a, b: (a[1:].conj(), b[:, ::2].conj()),
}


@pytest.mark.parametrize("views", CONJUGATED.values(), ids=CONJUGATED)
@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
def test_conjugated_views(views, recorded):
    a, b = (tensor(*shape, grad=recorded) for shape in ((33, 40), (40, 35)))
    found = [f(*views(a, b)) for f in (matmul, torch.matmul)]
    same(*found)
    if recorded:
        same(*(torch.autograd.grad((one * (1 - 2j)).sum().real, (a, b)) for one in found))
    else:
        same(matmul(*views(a, b), engine="emulator"), found[1])


def test_they_are_read_in_place(monkeypatch):
    """Also through the operator: nothing writes the conjugates first."""
    seen = []
    multiply = front.multiply

    def noting(request, library, arrays, *others):
        seen.append([arrays[name].is_conj() for name in ("a", "b", "c")])
        return multiply(request, library, arrays, *others)

    monkeypatch.setattr(front, "multiply", noting)
    a, b, c = tensor(4, 5, grad=False), tensor(6, 5), tensor(4, 6, grad=False)
    same(matmul(a.conj(), b.mH, c=c.conj(), beta=1.0), a.conj() @ b.mH + c.conj())
    assert seen == [[True, True, True]]
    plan = tilewright.plan(a.mH, b.detach()[:4].conj(), engine="emulator")
    assert "copied first" not in plan.describe()


def test_a_precision_of_complex_products_is_recorded():
    a, b = tensor(4, 5), tensor(5, 6)
    for precision in ("3m", "fp16x3_3m"):
        same(
            *(
                torch.autograd.grad(f(a, b).abs().sum(), (a, b))
                for f in (partial(matmul, precision=precision), torch.matmul)
            )
        )
        assert matmul(a.to("meta"), b.to("meta"), precision=precision).shape == (4, 6)
    for one, other in ((a.real, b.real), (a.real.to("meta"), b.real.to("meta"))):
        with pytest.raises(ProblemError, match=r"precision must be one of float32, .*, got '3m'"):
            matmul(one, other, precision="3m")


def test_what_is_refused_is_named():
    a, b = tensor(4, 5, grad=False), tensor(5, 6, grad=False)
    with pytest.raises(ArrayError, match=r"out is a view that conjugates when it is read: .* out.copy_\(\)"):
        matmul(a, b, out=torch.empty(4, 6, dtype=COMPLEX).conj())
    for one in (a, a.clone().requires_grad_()):
        with pytest.raises(ProblemError, match="activation must be None where a is complex64, got 'relu'"):
            matmul(one, b, activation="relu")
        with pytest.raises(ArrayError, match="bias must have an element for each column where a is complex64"):
            matmul(one, b, bias=a[:, :1])
        with pytest.raises(DtypeError, match="b must have"):
            matmul(one, b.real.contiguous())
    for one in (a.real, a.real.clone().requires_grad_()):
        with pytest.raises(ProblemError, match="alpha must be a number, got 2j: it may be complex where"):
            matmul(one, b.real, alpha=2j)
    dot = tensor(1, 5, grad=False), tensor(5, 1, grad=False), tensor(1, 1, grad=False)
    same(matmul(dot[0], dot[1], bias=dot[2]), dot[0] @ dot[1] + dot[2])
    assert matmul(*(one.to("meta") for one in dot[:2]), bias=dot[2].to("meta")).shape == (1, 1)
    with pytest.raises(ProblemError, match="activation must be None where a is complex64"):
        matmul(a.to("meta"), b.to("meta"), activation="relu")
    assert matmul(a.to("meta"), b.to("meta")).dtype == COMPLEX


TRANSFORMED = {
    "vmap of a": lambda f: torch.vmap(lambda x, y: f(x.conj(), y), in_dims=(0, None))(BATCH, B),
    "vmap of b": lambda f: torch.vmap(f, in_dims=(None, 0))(A, BATCH.mH),
    "vmap of both": lambda f: torch.vmap(f)(BATCH, BATCH.mH),
    "jvp": lambda f: torch.func.jvp(lambda x: f(x.conj(), B), (A,), (2 * A,)),
    "grad": lambda f: torch.func.grad(lambda x: f(x, B.conj()).abs().sum())(A),
}
A, B, BATCH = tensor(4, 5, grad=False), tensor(5, 6, grad=False), tensor(3, 4, 5, grad=False)


@pytest.mark.parametrize("function", TRANSFORMED.values(), ids=TRANSFORMED)
def test_transforms(function):
    same(*map(function, (matmul, torch.matmul)))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled(backend):
    torch._dynamo.reset()

    def layer(x, w):
        return matmul(matmul(x, w.mH), w, alpha=2)

    x, w = tensor(4, 5), tensor(6, 5)
    found = [f(x, w) for f in (torch.compile(layer, backend=backend, fullgraph=True), lambda x, w: 2 * (x @ w.mH @ w))]
    same(*found)
    same(*(torch.autograd.grad(one.abs().sum(), (x, w)) for one in found), tolerance=1e-4)


def test_pytorch_finds_no_fault_in_the_operator():
    found = torch.library.opcheck(torch.ops.tilewright.matmul.default, (tensor(4, 5), tensor(6, 5).mH, tensor(6)))
    assert set(found.values()) == {"SUCCESS"}


def test_autocast_leaves_it():
    a, b = tensor(4, 5), tensor(5, 6)
    with torch.autocast("cpu", torch.bfloat16):
        same(*(f(a, b) for f in (matmul, torch.matmul)))
