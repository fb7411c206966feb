"""complex64 on a real GPU: results and errors next to complex128 and cuBLAS, by the launcher and in CUDA graphs."""

import itertools

import pytest

import tilewright
from tilewright.runtime import complex_factors

EPS = 2.0**-24


@pytest.fixture
def torch(monkeypatch):
    torch = pytest.importorskip("torch")
    torch.manual_seed(62)
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)
    return torch


def draw(torch, *shape, order="row"):
    array = torch.randn(*shape, dtype=torch.complex64, device="cuda")
    return array if order == "row" else array.mT.contiguous().mT


def error(found, a, b, addend=0):
    """Largest error of a part of an element, over 2^-24 of the sum of its own products' magnitudes."""
    a, b = a.resolve_conj(), b.resolve_conj()
    exact = a.cdouble() @ b.cdouble() + addend
    ar, ai, br, bi = (one.abs().double() for one in (a.real, a.imag, b.real, b.imag))
    sizes = ar @ br + ai @ bi, ar @ bi + ai @ br
    parts = (found.real - exact.real).abs(), (found.imag - exact.imag).abs()
    return max(float((part / (EPS * size)).max()) for part, size in zip(parts, sizes, strict=True))


SIZES = [
    (64, 48, 80),
    (129, 257, 65),
    (1, 300, 200),
    (300, 1, 200),
    (8, 2048, 2048),
    (2048, 8, 2048),
    (1024, 1024, 1024),
]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("orders", [*itertools.product(("row", "column"), repeat=2)], ids=str)
@pytest.mark.parametrize("way", ["as usual", "in place", "doubled", "joined"])
def test_each_part_errs_as_its_own_products(torch, monkeypatch, sizes, orders, way):
    if way != "as usual":
        monkeypatch.setattr(complex_factors, "LEAST_SAVED_BYTES", -(2.0**60) if way == "joined" else 2.0**60)
        if way == "doubled":
            monkeypatch.setattr(complex_factors.ComplexFactors, "suit", lambda self, *_: self.way != "in place")
        monkeypatch.setattr(tilewright.api.gpu, "_plans", {})
        monkeypatch.setattr(tilewright.api.gpu, "fast", None)  # which would know the plans of the other way
    m, n, k = sizes
    a, b = draw(torch, m, k, order=orders[0]), draw(torch, k, n, order=orders[1])
    for views in (lambda x: x, lambda x: x.conj()):
        for precision in ("float32", "ieee", "fp16x3"):
            found = tilewright.matmul(views(a), b, precision=precision)
            assert error(found, views(a), b) <= 2 * k + 4
        again = [tilewright.matmul(a, views(b)) for _ in range(3)]
        assert error(again[0], a, views(b)) <= 2 * k + 4
        assert all(torch.equal(one, again[0]) for one in again)


def test_errors_are_at_most_cublas_s(torch):
    a, b = draw(torch, 2048, 2048), draw(torch, 2048, 2048)
    assert error(tilewright.matmul(a, b), a, b) <= error(a @ b, a, b)


@pytest.mark.parametrize("precision", ["3m", "fp16x3_3m"])
def test_three_products_for_four(torch, precision):
    """Each part errs relative to the whole element, and no more than eight times what cuBLAS does."""
    a, b = draw(torch, 2000, 2048, order="column"), draw(torch, 2048, 2056)
    assert "three products of float32" in tilewright.plan(a, b, precision=precision).describe()
    exact = a.cdouble() @ b.cdouble()
    ours, theirs = (float((one - exact).abs().max()) for one in (tilewright.matmul(a, b, precision=precision), a @ b))
    assert ours <= 8 * theirs
    batch = tilewright.matmul(torch.stack([a, 2 * a]), torch.stack([b, b]).conj(), precision=precision)
    assert float((batch[1] - 2 * a.cdouble() @ b.cdouble().conj()).abs().max()) <= 16 * theirs


def test_conjugates_and_scalars_by_the_launcher(torch):
    """Each call is made twice: planned, and then as the launcher knows it, or not."""
    a, b, c, bias = draw(torch, 70, 90), draw(torch, 50, 90), draw(torch, 70, 50), draw(torch, 50)
    for x, y in ((a, b.mT), (a.conj(), b.mT), (a, b.mH), (a.conj(), b.mH)):
        for alpha, beta in ((1.0, 0.0), (0.5, 2.0), (1 - 2j, 1.0), (0.0, 1.0)):
            for _ in range(2):
                found = tilewright.matmul(x, y, alpha=alpha, beta=beta, c=c, bias=bias)
                torch.testing.assert_close(found, alpha * (x @ y) + beta * c + bias, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("sizes", [(300, 200, 100), (8, 2048, 2048)], ids=str)
def test_a_graph_is_replayed_with_other_elements(torch, sizes):
    m, n, k = sizes
    a, b, out = draw(torch, m, k), draw(torch, k, n), draw(torch, m, n)
    tilewright.matmul(a, b, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tilewright.matmul(a, b, out=out)
    a.copy_(draw(torch, m, k))
    b.copy_(draw(torch, k, n))
    graph.replay()
    assert error(out, a, b) <= 2 * k + 4


def test_gradients_and_batches(torch):
    a, b = draw(torch, 3, 40, 50).requires_grad_(), draw(torch, 50, 60).requires_grad_()
    ours, theirs = (
        torch.autograd.grad((f(a.conj(), b) * (1 - 2j)).sum().real, (a, b)) for f in (tilewright.matmul, torch.matmul)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    compiled = torch.compile(lambda x, y: tilewright.matmul(x, y.mH), fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(a, a[0]), a @ a[0].mH, rtol=1e-4, atol=1e-4)


def test_arrays_of_the_host_and_of_cupy():
    numpy, cupy = pytest.importorskip("numpy"), pytest.importorskip("cupy")
    random = numpy.random.default_rng(62)
    a, b = (
        (random.standard_normal(s) + 1j * random.standard_normal(s)).astype("complex64") for s in ((70, 90), (90, 50))
    )
    numpy.testing.assert_allclose(tilewright.matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
    numpy.testing.assert_allclose(tilewright.matmul(*map(cupy.asarray, (a, b))).get(), a @ b, rtol=1e-4, atol=1e-4)
