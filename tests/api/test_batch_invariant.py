"""batch_invariant=True: a row of a product has the same bits whatever m is, in every way to call matmul."""

import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright
from tilewright import EngineUnavailableError, ProblemError
from tilewright.api import call as calls
from tilewright.api.out_of_core import tiles
from tilewright.core.problem import ACTIVATIONS, Arithmetic, Epilogue, Layout, Problem
from tilewright.kernels.support import Addresses
from tilewright.select.orders import order_of
from tilewright.select.selector import select
from tilewright.select.tables.cases import problem_of, timed_case
from tilewright.tools.bench.records import Result
from tilewright.tools.cli import main

M, N, K = 90, 40, 100
RANDOM = np.random.default_rng(0)
A, B = RANDOM.standard_normal((M, K)).astype(np.float32), RANDOM.standard_normal((K, N)).astype(np.float32)
BIAS = RANDOM.standard_normal(N).astype(np.float32)


def multiply(a, b=B, **options):
    return tilewright.matmul(a, b, engine="emulator", batch_invariant=True, **options)


def same(found, expected):
    np.testing.assert_array_equal(
        np.ascontiguousarray(found).view(np.uint32), np.ascontiguousarray(expected).view(np.uint32)
    )


@pytest.fixture(scope="module")
def whole():
    return multiply(A)


WAYS = {
    "one row": (lambda: multiply(A[7:8]), slice(7, 8)),
    "a vector": (lambda: multiply(A[7])[None], slice(7, 8)),
    "a few": (lambda: multiply(A[3:20]), slice(3, 20)),
    "many": (lambda: multiply(A[20:]), slice(20, M)),
    "rows that lie anywhere": (lambda: multiply(np.hstack([A, A])[5:9, :K]), slice(5, 9)),
    "reversed rows": (lambda: multiply(A[::-1][:5])[::-1], slice(M - 5, M)),
    "a by columns": (lambda: multiply(np.asfortranarray(A[:33])), slice(33)),
    "b by columns": (lambda: multiply(A[:33], np.asfortranarray(B)), slice(33)),
    "out by columns": (lambda: multiply(A[:33], out=np.empty((33, N), np.float32, order="F")), slice(33)),
    "a batch against one b": (lambda: multiply(A.reshape(9, 10, K)).reshape(M, N), slice(M)),
    "a batch": (lambda: multiply(A.reshape(2, 45, K), np.stack([B, B])).reshape(M, N), slice(M)),
    "others are infinite": (
        lambda: multiply(np.vstack([A[:5], np.full((60, K), np.inf, np.float32)]))[:5],
        slice(5),
    ),
    "a weaker precision": (lambda: multiply(A[:5], precision="fp16x3"), slice(5)),
}


@pytest.mark.parametrize(("way", "rows"), WAYS.values(), ids=WAYS)
def test_rows_are_those_of_the_whole_product(whole, way, rows):
    same(way(), whole[rows])


def test_tiles_of_rows_have_the_same_bits(whole, monkeypatch):
    monkeypatch.setattr(tiles, "SMALL_BYTES", 0)
    tiles.tiling.cache_clear()
    for limit in (50_000, 80_000):
        same(multiply(np.vstack([A, A]), memory_limit=limit), np.vstack([whole, whole]))
    tiles.tiling.cache_clear()


def test_an_epilogue_rounds_the_same_in_every_row():
    c = RANDOM.standard_normal((M, N)).astype(np.float32)
    settings = {"bias": BIAS, "activation": "gelu_tanh", "alpha": 0.7, "beta": -0.3}
    expected = multiply(A, c=c, **settings)
    for rows in (slice(7, 8), slice(64), slice(11, 44)):
        same(multiply(A[rows], c=c[rows], **settings), expected[rows])
    columns = multiply(A[:33], c=c[:33], out=np.empty((33, N), np.float32, order="F"), **settings)
    same(columns, expected[:33])


@pytest.mark.parametrize("n", [1, 2])
def test_few_columns(n):
    expected = multiply(A, B[:, :n])
    for m in (1, 2, 33):
        same(multiply(A[:m], B[:, :n]), expected[:m])
    same(multiply(A[:1], np.asfortranarray(B[:, :n])), expected[:1])


def test_a_prepared_factor_and_a_plan(whole):
    prepared = tilewright.prepare(B, engine="emulator")
    same(multiply(A[:9], prepared), whole[:9])
    plan = tilewright.plan(A[:9], B, engine="emulator", batch_invariant=True)
    same(plan(A[:9], B), whole[:9])
    assert plan.problem.arithmetic.batch_invariant
    assert "batch-invariant: products along k are added in one order for every m: fma 64/4" in plan.describe()
    assert "batch-invariant" not in tilewright.plan(A[:9], B, engine="emulator").describe()


GPUS = (((9, 0), "NVIDIA H200"), ((8, 0), ""))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_size_gets_the_same_order_on_a_gpu(data):
    """Whatever m, orders, alignment, epilogue and batch are: on an H200, and on GPUs without tables."""
    draw = data.draw
    capability, device = draw(st.sampled_from(GPUS))
    factors = draw(st.sampled_from(("float32", "bfloat16", "float16")))
    precision = draw(st.sampled_from((None, "tf32"))) if factors == "float32" else None
    arithmetic = Arithmetic(factors, draw(st.sampled_from((factors, "float32"))), precision, batch_invariant=True)
    m, n, k = draw(st.integers(1, 9000)), draw(st.sampled_from((1, 40, 4096))), draw(st.sampled_from((0, 5, 4096)))
    a, b = (Layout(draw(st.sampled_from(("row", "column")))) for _ in "ab")
    epilogue = Epilogue(draw(st.sampled_from((None, "row", "column"))), draw(st.sampled_from((None, *ACTIVATIONS))))
    problem = Problem(m, n, k, arithmetic, draw(st.sampled_from((1, 3))), a, b, epilogue=epilogue)
    addresses = Addresses(*(draw(st.sampled_from((0, 4))) for _ in range(3)))
    kernel, config = select(problem, capability, device, addresses, adds_c=draw(st.booleans()))
    assert kernel.sums(config).order == order_of(arithmetic, capability)
    assert kernel.why_not(problem, addresses=addresses) is None


def test_the_tables_of_a_gpu_count_within_the_order():
    def picked(batch_invariant):
        arithmetic = Arithmetic("bfloat16", "bfloat16", batch_invariant=batch_invariant)
        return select(Problem(4096, 14336, 4096, arithmetic), (9, 0), "NVIDIA H200")

    assert picked(True) == picked(False)


def test_numpy_s_blas_is_refused(monkeypatch):
    monkeypatch.setattr(calls, "cuda_unavailable", lambda: "a test says so")
    with pytest.raises(
        EngineUnavailableError, match=r"batch_invariant needs a GPU, or engine='emulator': NumPy's BLAS"
    ):
        tilewright.matmul(A, B, batch_invariant=True)


@pytest.mark.parametrize("kernel", ["skinny", "split_k:deep", "gemm_bf16x6", "warptiled", "gemm_sm90"])
def test_a_named_kernel_that_does_not_promise_it_is_refused(kernel):
    options = {"config": "SPLITS=2,BM=128,BN=64"} if kernel == "gemm_sm90" else {}
    a, b = (A.astype(np.float16), B.astype(np.float16)) if kernel == "gemm_sm90" else (A, B)
    with pytest.raises(ProblemError, match="promises no order of sums that is the same for every m"):
        multiply(a, b, kernel=kernel, **options)


def test_a_named_kernel_that_promises_it_has_an_order_of_its_own():
    flat = {"kernel": "split_k:flat"}
    same(multiply(A[5:8], **flat), multiply(A, **flat)[5:8])


@pytest.mark.parametrize("given", [1, None, "yes"])
def test_what_is_no_bool_is_refused(given):
    with pytest.raises(ProblemError, match="batch_invariant must be True or False, got"):
        tilewright.matmul(A, B, engine="emulator", batch_invariant=given)


def test_the_case_says_it_and_tables_do_not_know_it():
    problem = Problem(4, 5, 6, Arithmetic("float32", "float32", "ieee", batch_invariant=True))
    assert problem.case == "NN float32:ieee:batch_invariant"
    assert problem_of(4, 5, 6, problem.case) == problem
    half = Problem(4, 5, 6, Arithmetic("float16", "float16", batch_invariant=True))
    assert half.case == "NN float16:batch_invariant->float16"
    assert problem_of(4, 5, 6, half.case) == half
    assert timed_case(half) == "NN float16->float16"


def test_records_and_the_command_line(tmp_path, monkeypatch):
    path = tmp_path / "run.json"

    def run(*kernels):
        options = ("--engine", "emulator", "--shape", "30x40x50", "--batch-invariant", "--json", str(path))
        monkeypatch.setattr(sys, "argv", ["tilewright", "bench", *kernels, *options])
        with pytest.raises(SystemExit) as stop:
            main.main()
        return stop.value.code or 0

    assert run("best") == 0
    plain, invariant = (Result.model_validate(one) for one in json.loads(path.read_text())["results"])
    assert [plain.batch_invariant, invariant.batch_invariant] == [False, True]
    assert invariant.title == "best: split_k, batch-invariant"
    assert invariant.problem.arithmetic == Arithmetic(batch_invariant=True)
    assert run("split_k:flat") == 0
    assert [one["batch_invariant"] for one in json.loads(path.read_text())["results"]] == [True]
    assert run("skinny") != 0
