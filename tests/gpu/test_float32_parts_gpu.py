"""Float32 products of 16-bit parts on a real GPU: what they promise on adversarial inputs, and what is out of the
parts' range."""

import numpy as np
import pytest

import tilewright
from studies.precisions.adversarial import EXACT, ORDINARY
from this_gpu import CAPABILITY
from tilewright.core.problem import LAYOUTS
from tilewright.kernels.split import NON_FINITE as NON_FINITE_MOST

pytestmark = pytest.mark.skipif(CAPABILITY != (9, 0), reason="wgmma is Hopper's alone")

SPLIT_PARTS = ("gemm_bf16x6", "gemm_bf16x3", "gemm_fp16x3")
ALL_PARTS = (*SPLIT_PARTS, "gemm_mma_bf16x6", "gemm_mma_bf16x3", "gemm_mma_fp16x3")
"""With those for GPUs that lack wgmma, which run here too where they are named."""
ONE_PRODUCT = {"log-normal, wide", "outliers of 2^20", "outliers of 2^50"}
"""Inputs of which one product makes up most of an element, whose rounding is all that a float32 sum errs."""
UNIT = 2.0**-24
M, N, K = 264, 200, 392
NON_FINITE = [np.nan, np.inf, -np.inf]
LARGE = [float(np.finfo(np.float32).max), 2.0**127]
"""Values that 16-bit parts round to infinity."""


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    if torch.backends.cuda.matmul.allow_tf32:
        pytest.skip("PyTorch's float32 products are not float32's here")
    return torch


def drawn(torch, make, m, n, k, seed=0):
    return [torch.from_numpy(np.ascontiguousarray(x)).cuda() for x in make(np.random.default_rng([seed, k]), m, n, k)]


def errors(torch, result, a, b):
    """The largest error of an element over (|A| @ |B|), and the relative Frobenius error."""
    a, b = a.double(), b.double()
    exact, size = a @ b, a.abs() @ b.abs()
    difference = (result.double() - exact).abs()
    return (difference / size.where(size > 0, 1)).max().item(), (difference.norm() / exact.norm()).item()


def same(torch, one, other):
    """Whether two results have the same bits."""
    return torch.equal(one.contiguous().view(torch.int32), other.contiguous().view(torch.int32))


# What is promised.


@pytest.mark.parametrize("k", [64, 200, 1024, 4096])
@pytest.mark.parametrize("name", ORDINARY)
def test_what_is_picked_errs_no_more_than_cublas(torch, name, k):
    """By elements. By the norm hardly more: of sums of few products, cuBLAS rounds each once."""
    a, b = drawn(torch, ORDINARY[name], 1024, 1024, k)
    usual, usual_of_all = errors(torch, a @ b, a, b)
    of_elements, of_all = errors(torch, tilewright.matmul(a, b), a, b)
    assert of_elements <= 1.5 * usual
    assert of_all <= (4 if name in ONE_PRODUCT else 1.25) * max(usual_of_all, UNIT)


@pytest.mark.parametrize("k", [1, 30, 64, 1000, 4096])
@pytest.mark.parametrize("name", ORDINARY)
@pytest.mark.parametrize("kernel", ["gemm_bf16x6", "gemm_mma_bf16x6", "small_m_bf16x6"])
def test_six_products_hardly_err_more_than_cublas(torch, kernel, name, k):
    """Also where they are not picked."""
    a, b = drawn(torch, ORDINARY[name], 1024, 1024, k)
    usual, usual_of_all = errors(torch, a @ b, a, b)
    of_elements, of_all = errors(torch, tilewright.matmul(a, b, kernel=kernel), a, b)
    assert of_elements <= max(2 * usual, 8 * UNIT)
    assert of_all <= (4 if name in ONE_PRODUCT else 2) * max(usual_of_all, UNIT)


@pytest.mark.parametrize("k", [1, 64, 1000, 4096])
@pytest.mark.parametrize("name", ORDINARY)
@pytest.mark.parametrize("kernel", ["gemm_fp16x3", "gemm_mma_fp16x3", "small_m_fp16x3"])
def test_three_products_of_scaled_parts_keep_21_bits(torch, kernel, name, k):
    """And round once; but in sums that float32 itself does not add up so exactly: long ones of one sign, and those in
    which a few products are most. Factors of which parts lose too much are multiplied in float32."""
    a, b = drawn(torch, ORDINARY[name], 1024, 1024, k)
    usual, _ = errors(torch, a @ b, a, b)
    of_elements, _ = errors(torch, tilewright.matmul(a, b, kernel=kernel), a, b)
    assert of_elements <= max(2.0**-21 + UNIT, 1.5 * usual)


@pytest.mark.parametrize("k", [5, 64, 500])
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("kernel", ["gemm_bf16x6", "small_m_bf16x6"])
def test_what_float32_computes_exactly_is_exact(torch, kernel, name, k):
    a, b = drawn(torch, EXACT[name], 300, 300, k)
    assert torch.equal(tilewright.matmul(a, b, kernel=kernel).double(), a.double() @ b.double())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", NON_FINITE)
@pytest.mark.parametrize("kernel", [None, "small_m_bf16x6", "small_m_fp16x3"])
def test_nan_and_infinity_are_where_float32_has_them(torch, kernel, layout, value):
    """Wherever in the factors they are, by whatever is picked."""
    a, b = drawn(torch, ORDINARY["normal"], 1024, 1024, 1024)
    for place in ((0, 0), (1023, 5), (77, 1023)):
        a[place] = value
        ours = [x.T.contiguous().T if order == "T" else x for x, order in zip((a, b), layout, strict=True)]
        result, expected = tilewright.matmul(*ours, kernel=kernel), a @ b
        assert torch.equal(result.isnan(), expected.isnan())
        assert torch.equal(result.isposinf(), expected.isposinf())
        assert torch.equal(result.isneginf(), expected.isneginf())
        finite = expected.isfinite()
        assert ((result - expected).abs() <= 1e-3)[finite].all()


# By which it is computed.


def in_float32(torch, a, b, name):
    """Whether parts did not represent the factors: in float32, a row has the same bits whatever other rows of A
    hold."""
    known = a.clone()
    known[0] = LARGE[1]
    results = (tilewright.matmul(x, b, kernel=name)[1:] for x in (a, known))
    return same(torch, *results)


@pytest.mark.parametrize("value", LARGE)
@pytest.mark.parametrize("name", ALL_PARTS)
def test_what_parts_cannot_hold_is_multiplied_in_float32(torch, name, value):
    a, b = drawn(torch, ORDINARY["normal"], M, N, K)
    for factor, place in ((a, (1, 0)), (b, (K - 1, N - 1)), (a, (M - 1, 3))):
        before = factor[place].clone()
        factor[place] = value
        assert in_float32(torch, a, b, name)
        factor[place] = before


@pytest.mark.parametrize("value", NON_FINITE)
@pytest.mark.parametrize("name", ALL_PARTS)
def test_what_is_not_finite_changes_its_row_and_column_alone(torch, name, value):
    """In them it is what float32 makes of it; all else has the bits that it has with 0 in its place."""
    a, b = drawn(torch, ORDINARY["normal"], M, N, K)
    a[77, [3, 130]], b[[5, 391], 190] = 0, 0
    without = tilewright.matmul(a, b, kernel=name)
    a[77, [3, 130]], b[[5, 391], 190] = value, value
    result, expected = tilewright.matmul(a, b, kernel=name), a @ b
    for of in ("isnan", "isposinf", "isneginf"):
        assert torch.equal(getattr(result, of)(), getattr(expected, of)())
    finite = expected.isfinite()
    assert finite.sum() == (M - 1) * (N - 1)
    assert torch.equal(result[finite], without[finite])


@pytest.mark.parametrize("count", [NON_FINITE_MOST, NON_FINITE_MOST + 1])
@pytest.mark.parametrize("name", ALL_PARTS)
def test_a_list_that_is_full_is_no_fault(torch, name, count):
    a, b = drawn(torch, ORDINARY["normal"], M, N, K)
    a.view(-1)[:count] = np.inf
    for _ in range(20):  # by whichever blocks
        result = tilewright.matmul(a, b, kernel=name)
        rows = -(-count // K)
        assert not result[:rows].isfinite().any()
        assert result[rows:].isfinite().all()


@pytest.mark.parametrize("name", ["gemm_bf16x6", "small_m_bf16x6"])
def test_probabilities_of_which_most_are_tiny(torch, name):
    a, b = drawn(torch, ORDINARY["normal"], M, N, K)
    a = torch.softmax(30 * a, dim=1)
    assert (a < 2.0**-110).any()
    usual, _ = errors(torch, a @ b, a, b)
    assert errors(torch, tilewright.matmul(a, b, kernel=name), a, b)[0] <= 1.5 * usual
    b.abs_()  # no sum is small
    assert not in_float32(torch, a, b, name)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ALL_PARTS)
def test_float32_reads_factors_as_they_lie(torch, name, layout):
    """In either order, in batches, with rows that start anywhere, and with C in D's place."""
    shapes = [(3, M, K + 3), (3, K, N + 1)]
    shapes = [(i, k, m) if order == "T" else (i, m, k) for (i, m, k), order in zip(shapes, layout, strict=True)]
    a, b = (torch.randn(*shape, device="cuda") for shape in shapes)
    a, b = (x.mT if order == "T" else x for x, order in zip((a, b), layout, strict=True))
    a, b = a[:, :, 3:], b[:, :, 1:]
    a[1, 77, 5], b[2, 3, 9] = 2.0**127, np.nan
    d = torch.randn(3, M, N, device="cuda")
    right = (a.double() @ b.double() + 0.5 * d.double()).float()
    tilewright.matmul(a, b, c=d, beta=0.5, out=d, kernel=name)
    torch.testing.assert_close(d, right, rtol=1e-5, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize("name", ALL_PARTS)
def test_what_parts_hold_is_not(torch, name):
    a, b = drawn(torch, ORDINARY["normal"], M, N, K)
    assert not in_float32(torch, a, b, name)
    b[3, 3] = 2.0**-40  # that scales lose where the sums do not show it
    assert not in_float32(torch, a, b, name)


@pytest.mark.parametrize("power", [-29, -60, -180])
def test_an_element_too_small_for_its_square_counts_where_a_sum_is_as_small(torch, power):
    a, b = drawn(torch, ORDINARY["normal"], M, N, K)
    a[65] = 0
    a[65, 130:135], b[130:135, 77] = 2.0**60, 0
    a[65, 140] = 1.2345 * 2.0 ** (60 + power)
    exact = (a[65].double() @ b[:, 77].double()).item()
    assert abs(tilewright.matmul(a, b, kernel="gemm_fp16x3")[65, 77].item() - exact) <= 2.0**-21 * abs(exact)


# Again and again, at the same time, and in graphs.


@pytest.mark.parametrize("name", SPLIT_PARTS)
@pytest.mark.parametrize("sizes", [(M, N, K), (1024, 1152, 4096), (128, 64, 8192)])
def test_the_bits_are_the_same_from_run_to_run(torch, name, sizes):
    a, b = drawn(torch, ORDINARY["normal"], *sizes)
    config = {"SPLITS": 4, "BN": 64} if sizes[0] == 128 else None
    first = tilewright.matmul(a, b, kernel=name, config=config)
    assert all(same(torch, tilewright.matmul(a, b, kernel=name, config=config), first) for _ in range(50))


def kinds(torch, name):
    """Factors that parts represent, one that is not finite, and one too large; each with its result, made without what
    else is under test."""
    a, b = drawn(torch, ORDINARY["normal"], M, N, K)
    factors = [a, a.clone(), a.clone()]
    factors[1][M // 2, 1] = np.inf
    factors[2][M // 2, 1] = LARGE[1]
    expected = [tilewright.matmul(one, b, kernel=name) for one in factors]
    torch.cuda.synchronize()
    return factors, b, expected


@pytest.mark.parametrize("name", SPLIT_PARTS)
def test_inputs_of_any_kind_in_turns(torch, name):
    factors, b, expected = kinds(torch, name)
    results = [tilewright.matmul(factors[turn % 3], b, kernel=name) for turn in range(60)]
    assert all(same(torch, result, expected[turn % 3]) for turn, result in enumerate(results))


@pytest.mark.parametrize("name", SPLIT_PARTS)
def test_streams_at_once(torch, name):
    """One for each kind of factors: each has counters of its own, and lists."""
    factors, b, expected = kinds(torch, name)
    streams, results = [torch.cuda.Stream() for _ in factors], [[] for _ in factors]
    for _ in range(100):
        for a, stream, of_stream in zip(factors, streams, results, strict=True):
            with torch.cuda.stream(stream):
                of_stream.append(tilewright.matmul(a, b, kernel=name))
    torch.cuda.synchronize()
    for of_stream, right in zip(results, expected, strict=True):
        assert all(same(torch, result, right) for result in of_stream)


@pytest.mark.parametrize("name", SPLIT_PARTS)
def test_a_graph_serves_whatever_its_arrays_hold(torch, name):
    factors, b, expected = kinds(torch, name)
    a, graph = factors[0].clone(), torch.cuda.CUDAGraph()
    tilewright.matmul(a, b, kernel=name)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        result = tilewright.matmul(a, b, kernel=name)
    for turn in range(30):
        a.copy_(factors[turn % 3])
        graph.replay()
        assert same(torch, result, expected[turn % 3])
    same_again = tilewright.matmul(factors[0], b, kernel=name)
    assert same(torch, same_again, expected[0]), "after the graph, on the stream"


@pytest.mark.parametrize("name", SPLIT_PARTS)
def test_batches_scalars_and_bias(torch, name):
    a, b = torch.randn(3, M, K, device="cuda"), torch.randn(3, K, N, device="cuda")
    c, bias = torch.randn(3, M, N, device="cuda"), torch.randn(N, device="cuda")
    for value in (None, np.nan):
        if value is not None:
            a[2, 7, 9] = value
        result = tilewright.matmul(a, b, c=c, alpha=0.5, beta=-2.0, bias=bias, activation="relu", kernel=name)
        sums = 0.5 * (a.double() @ b.double()) - 2.0 * c.double() + bias.double()
        right = torch.relu(sums).float()
        torch.testing.assert_close(result, right, rtol=2e-3, atol=2e-2, equal_nan=True)
    assert torch.equal(tilewright.matmul(a, b, c=c, alpha=0.0, beta=1.0, kernel=name), c)
