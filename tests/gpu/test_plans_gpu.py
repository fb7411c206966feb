"""Calls on a GPU whose plans exist: threads, streams, graphs, arrays that have gone, and every kind of operand."""

import gc
import itertools
import threading

import numpy as np
import pytest

import tilewright
from tilewright import ArrayError, LaunchError
from tilewright.core.problem import ACTIVATIONS

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    torch.manual_seed(5)
    return torch


def close(torch, result, expected, tolerance=2e-5):
    assert result.shape == expected.shape
    difference = torch.linalg.norm(result.double() - expected) / torch.linalg.norm(expected)
    assert difference <= tolerance, difference


def operand(torch, shape, transposed, dtype=None):
    dtype = dtype or torch.float32
    array = torch.randn(*shape[:-2], *(reversed(shape[-2:]) if transposed else shape[-2:]), device="cuda").to(dtype)
    return array.transpose(-1, -2) if transposed else array


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize(
    "sizes", [(5, 3, 7), (129, 65, 33), (64, 128, 256), (1, 300, 200), (300, 1, 200), (512, 640, 96)]
)
def test_every_layout_type_and_batch(torch, layout, dtype, batch, sizes):
    m, n, k = sizes
    kind = getattr(torch, dtype)
    a, b = (
        operand(torch, (*batch, m, k), layout[0] == "T", kind),
        operand(torch, (*batch, k, n), layout[1] == "T", kind),
    )
    expected = a.double() @ b.double()
    unit = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}[dtype]
    for _ in range(2):  # the second call finds the plan of the first
        result = tilewright.matmul(a, b)
        assert result.dtype == kind
        close(torch, result, expected, unit)
    close(torch, tilewright.matmul(a, b, out_dtype="float32"), expected, 1e-5)
    close(
        torch,
        tilewright.matmul(a, b[(0,) * len(batch)], out_dtype=torch.float32),
        a.double() @ b[(0,) * len(batch)].double(),
    )
    columns = torch.empty(*batch, n, m, device="cuda", dtype=kind).transpose(-1, -2)
    assert tilewright.matmul(a, b, out=columns) is columns
    close(torch, columns, expected, unit)


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("sizes", [(100, 77, 61), (128, 256, 512)])
def test_epilogues(torch, activation, layout, sizes):
    m, n, k = sizes
    functional = torch.nn.functional
    apply = {
        None: lambda x: x,
        "relu": functional.relu,
        "gelu": functional.gelu,
        "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
        "silu": functional.silu,
    }[activation]
    a, b = operand(torch, (m, k), layout[0] == "T"), operand(torch, (k, n), layout[1] == "T")
    c, row, column = torch.randn(m, n, device="cuda"), torch.randn(n, device="cuda"), torch.randn(m, 1, device="cuda")
    for bias, (alpha, beta) in itertools.product((None, row, column), ((1.0, 0.0), (0.5, -2.0), (0.0, 1.0))):
        sums = alpha * (a.double() @ b.double()) + beta * c.double() + (0 if bias is None else bias.double())
        result = tilewright.matmul(a, b, c=c, alpha=alpha, beta=beta, bias=bias, activation=activation)
        if torch.any(apply(sums)):
            close(torch, result, apply(sums))
        in_place = c.clone()
        tilewright.matmul(a, b, c=in_place, out=in_place, alpha=alpha, beta=beta, bias=bias, activation=activation)
        assert torch.equal(in_place, result)


def test_nothing_is_read_that_a_zero_scalar_says(torch):
    nothing = torch.full((64, 64), float("nan"), device="cuda")
    a = torch.randn(64, 64, device="cuda")
    assert torch.isfinite(tilewright.matmul(a, a, c=nothing)).all()
    assert torch.equal(tilewright.matmul(nothing, nothing, c=a, alpha=0.0, beta=1.0), a)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("size", [33, 64, 300, 1024])
def test_nan_and_infinity_come_out_as_numpys(torch, layout, size):
    random = np.random.default_rng(size)
    a, b = (random.standard_normal((size, size)).astype(np.float32) for _ in range(2))
    for array in (a, b):
        for value in (np.nan, np.inf, -np.inf):
            array[random.integers(size), random.integers(size)] = value
        array[-1, -1] = np.inf
    with np.errstate(invalid="ignore"):
        expected = a @ b
    ours = [
        torch.from_numpy(array.T.copy()).cuda().T if order == "T" else torch.from_numpy(array).cuda()
        for array, order in zip((a, b), layout, strict=True)
    ]
    result = tilewright.matmul(*ours).cpu().numpy()
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    np.testing.assert_array_equal(np.isposinf(result), np.isposinf(expected))
    np.testing.assert_array_equal(np.isneginf(result), np.isneginf(expected))


def test_many_threads_and_streams_at_once(torch):
    shapes = [(64, 64, 64), (256, 256, 4096), (1000, 777, 333), (1, 4096, 4096)]
    factors = [(torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")) for m, n, k in shapes]
    expected = [a.double() @ b.double() for a, b in factors]
    torch.cuda.synchronize()
    failures = []

    def work(number):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for turn in range(40):
                    which = (number + turn) % len(factors)
                    result = tilewright.matmul(*factors[which])
                    if turn % 8 == 0:
                        torch.cuda.current_stream().synchronize()
                        close(torch, result, expected[which])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def captured(torch, stream, *calls):
    graph, results = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph, stream=stream):
        results = [tilewright.matmul(a, b) for a, b in calls]
    return graph, results


def test_two_graphs_captured_on_one_stream_run_at_once(torch):
    shape = (256, 256, 16384)  # blocks share its tiles, through a workspace
    first, second = (
        (torch.randn(shape[0], shape[2], device="cuda"), torch.randn(shape[2], shape[1], device="cuda"))
        for _ in range(2)
    )
    tilewright.matmul(*first)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    (one, (x,)), (other, (y,)) = captured(torch, stream, first), captured(torch, stream, second)
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    for _ in range(200):
        for graph, on in zip((one, other), streams, strict=True):
            with torch.cuda.stream(on):
                graph.replay()
    torch.cuda.synchronize()
    close(torch, x, first[0].double() @ first[1].double())
    close(torch, y, second[0].double() @ second[1].double())


def test_a_capture_of_what_is_not_compiled_says_so_first(torch):
    a = torch.randn(257, 129, device="cuda")
    b = torch.randn(129, 65, device="cuda")
    kernel = {"kernel": "thread_tiled_2d", "config": "BM=32,BN=32,BK=16,TM=4,TN=4"}
    refusal = pytest.raises(LaunchError, match="is being captured, and the code of this product is not")
    with refusal, torch.cuda.graph(torch.cuda.CUDAGraph()):
        tilewright.matmul(a, b, **kernel)
    tilewright.plan(a, b, **kernel)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = tilewright.matmul(a, b, **kernel)
    graph.replay()
    close(torch, result, a.double() @ b.double())


def test_a_plan_outlives_its_arrays(torch):
    a, b = torch.randn(100, 200, device="cuda"), torch.randn(200, 300, device="cuda")
    plan = tilewright.plan(a, b)
    assert "100x300x200" in plan.describe()
    del a, b
    gc.collect()
    torch.cuda.empty_cache()
    for _ in range(3):
        a, b = torch.randn(100, 200, device="cuda"), torch.randn(200, 300, device="cuda")
        close(torch, plan(a, b), a.double() @ b.double())
    with pytest.raises(ArrayError, match="b has shape"):
        plan(a, b[:, :299])
    with pytest.raises(ArrayError, match="element type"):
        plan(a.half(), b.half())


def test_a_version_is_counted_and_a_gradient_follows(torch):
    a, b = torch.randn(64, 64, device="cuda"), torch.randn(64, 64, device="cuda")
    out = torch.empty(64, 64, device="cuda")
    for expected in (1, 2):
        tilewright.matmul(a, b, out=out)
        assert out._version == expected
    weight = torch.nn.Parameter(b)
    assert tilewright.matmul(a, weight).requires_grad
    with torch.no_grad():
        close(torch, tilewright.matmul(a, weight), a.double() @ b.double())
