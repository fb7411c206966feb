"""Prepared factors on a real GPU: the bits of products that make their copies, streams, graphs, memory."""

import gc

import numpy as np
import pytest

import tilewright
from this_gpu import CAPABILITY
from tilewright import LaunchError

hopper = pytest.mark.skipif(CAPABILITY != (9, 0), reason="wgmma is Hopper's alone")
SPLIT_PARTS = ("gemm_bf16x6", "gemm_bf16x3", "gemm_fp16x3")
M, N, K = 264, 200, 392


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    torch.manual_seed(5)
    return torch


def same(torch, one, other):
    """Whether two results have the same bits."""
    return torch.equal(one.contiguous().view(torch.int32), other.contiguous().view(torch.int32))


@hopper
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", SPLIT_PARTS)
def test_the_bits_are_those_of_the_product_that_splits_both(torch, name, transposed):
    b = torch.randn(N, K, device="cuda").T if transposed else torch.randn(K, N, device="cuda")
    for value in (1.0, np.inf):
        b[3, 5] = value
        prepared = tilewright.prepare(b)
        for m, element in ((M, 1.0), (M, np.nan), (7, 1.0), (M, 2.0**127), (M, 1.0), (1, 1.0)):
            a = torch.randn(m, K, device="cuda")
            a[0, 2] = element
            expected = tilewright.matmul(a, b, kernel=name)
            for _ in range(3):  # of which the launcher launches two
                assert same(torch, tilewright.matmul(a, prepared, kernel=name), expected)
            out = torch.empty(N, m, device="cuda").T
            tilewright.matmul(a, prepared, kernel=name, out=out)  # the factors are swapped
            torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-3, equal_nan=True)
        assert len(prepared._copies) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("sizes", [(128, 67, 333), (512, 1023, 777), (5, 4096, 4095)])
def test_what_is_picked_computes_the_same(torch, sizes, dtype):
    m, n, k = sizes
    a, b = (torch.randn(shape, device="cuda").to(getattr(torch, dtype)) for shape in ((m, k), (k, n)))
    prepared, exact = tilewright.prepare(b), a.double() @ b.double()
    for _ in range(2):
        difference = tilewright.matmul(a, prepared).double() - exact
        assert difference.norm() <= {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}[dtype] * exact.norm()


@hopper
def test_a_graph_serves_whatever_a_holds(torch):
    a, b = torch.randn(M, K, device="cuda"), torch.randn(K, N, device="cuda")
    prepared, graph = tilewright.prepare(b), torch.cuda.CUDAGraph()
    tilewright.plan(a, prepared, kernel="gemm_bf16x6")
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        result = tilewright.matmul(a, prepared, kernel="gemm_bf16x6")
    for element in (1.0, np.inf, 1.0, np.nan, 1.0):
        a[5, 7] = element
        graph.replay()
        assert same(torch, result, tilewright.matmul(a, b, kernel="gemm_bf16x6"))


@hopper
def test_a_capture_makes_no_copy(torch):
    a, b = torch.randn(M, K, device="cuda"), torch.randn(K, N, device="cuda")
    tilewright.matmul(a, b, kernel="gemm_bf16x6")
    prepared = tilewright.prepare(b)
    tilewright.plan(a, tilewright.prepare(b), kernel="gemm_bf16x6")  # whose code is loaded
    words = "the stream is being captured, and what is cached of a prepared array"
    with pytest.raises(LaunchError, match=words), torch.cuda.graph(torch.cuda.CUDAGraph()):
        tilewright.matmul(a, prepared, kernel="gemm_bf16x6")
    assert same(
        torch, tilewright.matmul(a, prepared, kernel="gemm_bf16x6"), tilewright.matmul(a, b, kernel="gemm_bf16x6")
    )


@hopper
def test_streams_share_a_copy(torch):
    a, b = torch.randn(M, K, device="cuda"), torch.randn(4 * K, N, device="cuda")
    b = b[:K]
    expected, prepared = tilewright.matmul(a, b, kernel="gemm_fp16x3"), tilewright.prepare(b)
    torch.cuda.synchronize()
    results = []
    for _ in range(20):
        for stream in (torch.cuda.Stream(), torch.cuda.Stream()):
            with torch.cuda.stream(stream):
                results.append(tilewright.matmul(a, prepared, kernel="gemm_fp16x3"))
    torch.cuda.synchronize()
    assert all(same(torch, result, expected) for result in results)


@hopper
def test_what_is_kept_is_freed(torch):
    a, b = torch.randn(64, 4096, device="cuda"), torch.randn(4096, 8192, device="cuda")
    tilewright.matmul(a, b, kernel="gemm_bf16x6")
    torch.cuda.synchronize()
    before, _ = torch.cuda.mem_get_info()
    for _ in range(3):
        prepared = tilewright.prepare(b)
        tilewright.matmul(a, prepared, kernel="gemm_bf16x6")
        assert prepared.nbytes >= 6 * b.numel()
        del prepared
        gc.collect()
    torch.cuda.synchronize()
    after, _ = torch.cuda.mem_get_info()
    assert before - after < 4 * b.numel()


@hopper
def test_cupy_arrays(torch):
    cupy = pytest.importorskip("cupy")
    a, b = (cupy.asarray(np.random.default_rng(0).standard_normal(shape, np.float32)) for shape in ((M, K), (K, N)))
    prepared = tilewright.prepare(b)
    for _ in range(3):
        found = tilewright.matmul(a, prepared, kernel="gemm_bf16x6")
        assert (found == tilewright.matmul(a, b, kernel="gemm_bf16x6")).all()
