"""PyTorch on a GPU: the operator and its gradients, inductor, CUDA graphs, and enable()."""

import cProfile
import pstats
import time

import pytest

import tilewright
from tilewright.select.speedup import Speedup


@pytest.fixture
def torch():
    library = pytest.importorskip("torch")
    library.manual_seed(0)
    library._dynamo.reset()
    return library


@pytest.fixture
def everything_is_faster(torch, monkeypatch):
    """tilewright.torch, for which every problem is faster."""
    from tilewright.frameworks.torch.enable import routing  # noqa: PLC0415 - imports PyTorch

    monkeypatch.setattr(routing, "_routes", {})
    monkeypatch.setattr(routing, "expect", lambda problem, device: Speedup(1.1, 1.0))
    yield tilewright.torch
    tilewright.torch.disable()


def layer(torch, rows=96, batch=()):
    """Input, weights and bias of a linear layer, which want gradients."""
    shapes = (*batch, rows, 72), (136, 72), (136,)
    return [torch.randn(shape, device="cuda").requires_grad_() for shape in shapes]


def backward(torch, function, tensors):
    result = function(*tensors)
    return result, *torch.autograd.grad(result.square().sum(), tensors)


def ours(x, w, bias):
    return tilewright.matmul(x, w.T, bias=bias, activation="relu")


def close(torch, found, expected):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_gradients(torch, batch):
    def stock(x, w, bias):
        return torch.relu(torch.nn.functional.linear(x, w, bias))

    tensors = layer(torch, batch=batch)
    close(torch, backward(torch, ours, tensors), backward(torch, stock, tensors))


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_compiled_by_inductor(torch, mode):
    tensors = layer(torch)
    expected = backward(torch, ours, tensors)
    compiled = torch.compile(ours, fullgraph=True, mode=mode)
    for _ in range(3):
        found = [one.clone() for one in backward(torch, compiled, tensors)]
    close(torch, found, expected)


def test_matmul_itself_is_compiled_after_the_launcher_knows_the_call(torch):
    a, b = torch.randn(64, 48, device="cuda"), torch.randn(48, 80, device="cuda")
    expected = tilewright.matmul(a, b)
    assert tilewright.api.gpu.fast is None or len(tilewright.api.gpu.fast)
    close(torch, [torch.compile(tilewright.matmul, fullgraph=True)(a, b)], [expected])


def test_autocast_reaches_a_plain_call(torch):
    a, b = torch.randn(64, 48, device="cuda"), torch.randn(48, 80, device="cuda")
    tilewright.matmul(a, b)
    with torch.autocast("cuda", torch.bfloat16):
        assert tilewright.matmul(a, b).dtype == torch.bfloat16


@pytest.mark.parametrize("compiled", [False, True])
def test_a_layer_by_enable(torch, everything_is_faster, compiled):
    tensors = layer(torch, batch=(2,))
    expected = backward(torch, torch.nn.functional.linear, tensors)
    function = torch.compile(torch.nn.functional.linear) if compiled else torch.nn.functional.linear
    with everything_is_faster.enable(wait=True):
        for _ in range(4):  # the first by Python, the second by the launcher, from then on by the shortcut
            found = backward(torch, function, tensors)
    close(torch, found, expected)
    ran = everything_is_faster.report()
    assert sum(row.calls for row in ran if row.where == "tilewright") == 12
    assert not [row for row in ran if row.where == "PyTorch"]


@pytest.mark.parametrize(("precision", "where"), [(None, "tilewright"), ("fp16x3", "PyTorch")])
def test_float32_is_rounded_here_too_while_tf32_is_allowed(torch, everything_is_faster, monkeypatch, precision, where):
    a = torch.randn(64, 64, device="cuda")
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    with everything_is_faster.enable(precision, wait=True):
        a @ a
    assert [row.where for row in everything_is_faster.report()] == [where]


def test_graphs_capture_what_has_run_here_and_else_pytorchs_kernel(torch, everything_is_faster):
    a, b = torch.randn(64, 48, device="cuda"), torch.randn(48, 80, device="cuda")
    with everything_is_faster.enable(wait=True):
        for warm in (True, False):
            x = a if warm else a[:40].clone()
            if warm:
                torch.mm(x, b)
            everything_is_faster.report(reset=True)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = torch.mm(x, b)
            assert [row.where for row in everything_is_faster.report()] == ["tilewright" if warm else "PyTorch"]
            x.normal_()
            graph.replay()
            close(torch, [result], [(x.double() @ b.double()).float()])


@pytest.mark.parametrize("speedups", [True, False], ids=["here", "left to PyTorch"])
def test_known_products_reach_their_kernel_without_python(torch, everything_is_faster, monkeypatch, speedups):
    from tilewright.frameworks.torch.enable import decisions, routing, shortcut  # noqa: PLC0415 - imports PyTorch

    if shortcut.load() is None:
        pytest.skip("the shortcut cannot be built here")
    if not speedups:
        monkeypatch.setattr(routing, "expect", lambda problem, device: None)
    a, b, bias = (torch.randn(shape, device="cuda") for shape in ((300, 200), (200, 100), (100,)))
    out = torch.empty(300, 100, device="cuda")
    exact = torch.addmm(bias.double(), a.double(), b.double())
    profile = cProfile.Profile()
    with everything_is_faster.enable(wait=True):
        for i in range(5):
            if i == 3:
                profile.enable()
            found = torch.addmm(bias, a, b), torch.addmm(bias, a, b, out=out), torch.mm(a, b) + bias
        profile.disable()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = torch.mm(a, b)
        a.mul_(2)
        graph.replay()
    for one in found:
        close(torch, [one.double()], [exact])
    close(torch, [captured.double()], [a.double() @ b.double()])
    functions = pstats.Stats(profile).stats
    asks = {"<lambda>"} if speedups else set()  # a launch asks for PyTorch's precision; all else is compiled
    files = routing.__file__, decisions.__file__
    assert {name for file, _, name in functions if file in files} == asks
    where = "tilewright" if speedups else "PyTorch"
    assert {row.where for row in everything_is_faster.report()} == {where}
    assert sum(row.calls for row in everything_is_faster.report()) == 16


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """Nothing is compiled, on disk or in this process."""
    from tilewright.api import gpu as on_gpu  # noqa: PLC0415 - as all of these
    from tilewright.api.call import gpu_engine  # noqa: PLC0415
    from tilewright.runtime import background  # noqa: PLC0415

    background.finish()
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(background, "_compilers", background._Compilers())
    monkeypatch.setattr(gpu_engine(None, 0), "_executables", {})
    monkeypatch.setattr(on_gpu, "_plans", {})
    if on_gpu.fast is not None:
        on_gpu.fast.forget()
    yield background
    background.finish()


def test_no_product_waits_for_a_compiler(torch, everything_is_faster, empty_cache):
    a, b = torch.randn(512, 384, device="cuda"), torch.randn(384, 640, device="cuda")
    expected = [a.double() @ b.double()]
    a @ b  # loads cuBLAS
    with everything_is_faster.enable():
        for _ in range(3):
            torch.cuda.synchronize()
            began = time.perf_counter()
            found = a @ b
            torch.cuda.synchronize()
            assert time.perf_counter() - began < 0.5
            close(torch, [found.double()], expected)
        assert {row.where for row in everything_is_faster.report()} == {"PyTorch"}
        everything_is_faster.warm(torch.mm, a, b)
        everything_is_faster.report(reset=True)
        close(torch, [(a @ b).double()], expected)
    assert {row.where for row in everything_is_faster.report()} == {"tilewright"}


def test_a_capture_is_not_disturbed_by_what_is_compiled_meanwhile(torch, everything_is_faster, empty_cache):
    a, b = torch.randn(512, 384, device="cuda"), torch.randn(384, 640, device="cuda")
    a @ b
    with everything_is_faster.enable():
        a @ b
        empty_cache.finish()
        a @ b  # its code is being compiled
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = a @ b
            empty_cache.finish()
        a.mul_(2)
        graph.replay()
        close(torch, [captured.double()], [a.double() @ b.double()])


def test_a_graph_captures_what_warm_compiled(torch, everything_is_faster, empty_cache):
    model = torch.nn.Sequential(torch.nn.Linear(384, 640), torch.nn.ReLU(), torch.nn.Linear(640, 256)).cuda()
    x = torch.randn(512, 384, device="cuda")
    with everything_is_faster.enable(), torch.no_grad():
        everything_is_faster.warm(model, x)
        everything_is_faster.report(reset=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = model(x)
        assert {row.where for row in everything_is_faster.report()} == {"tilewright"}
        x.normal_()
        graph.replay()
    with torch.no_grad():
        close(torch, [captured], [model(x)])
