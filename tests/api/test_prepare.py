"""prepare(): what it takes and refuses, and how often what is kept is made. NumPyEngine stands in for the GPU."""

import gc
import sys
import weakref
from importlib import import_module

import numpy as np
import pytest
from test_arrays import Remembers

import tilewright
from stand_ins import CuPyArray, NumPyEngine, Tensor, cupy_module, torch_module
from tilewright import ArrayError, DtypeError
from tilewright.api.request import Request
from tilewright.core.problem import Arithmetic, Problem
from tilewright.select.selector import select

calls, on_gpu = import_module("tilewright.api.call"), import_module("tilewright.api.gpu")
STREAM = 4096
SPLIT = {"kernel": "gemm_bf16x6"}
"""A kernel that wants copies of all factors."""


@pytest.fixture
def gpu(monkeypatch):
    engines = [NumPyEngine((9, 0)), NumPyEngine((9, 0))]
    engines[0].context, engines[0].workspace = 5, None
    monkeypatch.setattr(calls, "_gpu", engines.__getitem__)
    monkeypatch.setitem(sys.modules, "torch", torch_module(STREAM))
    monkeypatch.setitem(sys.modules, "cupy", cupy_module(STREAM))
    return engines[0]


@pytest.fixture
def launcher(gpu, monkeypatch):
    gpu.name = "cuda"
    known = Remembers(object())
    monkeypatch.setattr(on_gpu, "fast", known)
    monkeypatch.setattr(on_gpu, "miss", known.miss)
    return known


def draw(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def tensor(values, device=0):
    return Tensor(values, f"cuda:{device}")


def check(result, expected):
    np.testing.assert_allclose(result.values, expected, rtol=0, atol=1e-3)


B = draw(64, 48)


@pytest.mark.parametrize("make", [tensor, CuPyArray])
def test_a_copy_is_made_by_the_first_product_and_serves_all(gpu, make):
    prepared = tilewright.prepare(make(B))
    assert gpu.cached == []
    for m in (5, 7, 5):
        a = draw(m, 64)
        check(tilewright.matmul(make(a), prepared, **SPLIT), a @ B)
        check(tilewright.matmul(make(np.stack([a, a])), prepared, **SPLIT), np.stack([a, a]) @ B)
    ((cached, stream),) = gpu.cached
    assert stream == STREAM
    assert prepared.nbytes == cached.bytes > 6 * B.size
    check(tilewright.matmul(make(draw(5, 64)), prepared, kernel="split_k"), draw(5, 64) @ B)  # reads b as it is
    assert len(gpu.cached) == 1


def test_each_kernel_reads_the_copy_that_it_wants(gpu):
    prepared, a = tilewright.prepare(tensor(B)), draw(5, 64)
    for kernel in ("gemm_bf16x6", "gemm_fp16x3", "gemm_bf16x6"):
        check(tilewright.matmul(tensor(a), prepared, kernel=kernel), a @ B)
    first, second, again = (one.cached for one in gpu.started)
    assert first == again != second
    assert prepared.nbytes == sum(cached.bytes for cached, _ in gpu.cached)


def test_a_copy_serves_where_the_factors_change_places(gpu):
    prepared, a = tilewright.prepare(tensor(B)), draw(5, 64)
    check(tilewright.matmul(tensor(a), prepared, **SPLIT), a @ B)
    out = tensor(np.full((48, 5), np.nan, np.float32).T)
    assert tilewright.matmul(tensor(a), prepared, out=out, **SPLIT) is out
    check(out, a @ B)
    assert [plan.cached.step.function[0] for plan in gpu.planned] == ["B", "A"]
    assert len(gpu.cached) == 1


def test_a_batch_is_prepared_too(gpu):
    a, b = draw(3, 5, 64), draw(3, 64, 48)
    prepared = tilewright.prepare(tensor(b))
    for _ in range(2):
        check(tilewright.matmul(tensor(a), prepared, **SPLIT), a @ b)
    assert len(gpu.cached) == 1
    with_more = draw(2, 3, 5, 64)
    check(tilewright.matmul(CuPyArray(with_more), tilewright.prepare(CuPyArray(b)), **SPLIT), with_more @ b)
    assert "b is copied first" in tilewright.plan(CuPyArray(with_more), tilewright.prepare(CuPyArray(b))).describe()


def test_alpha_0_needs_no_copy(gpu):
    check(tilewright.matmul(tensor(draw(5, 64)), tilewright.prepare(tensor(B)), alpha=0.0, **SPLIT), np.zeros((5, 48)))
    assert gpu.cached == []


def test_a_plan_makes_the_copy_and_says_that_b_is_prepared(gpu):
    a, prepared = tensor(draw(5, 64)), tilewright.prepare(tensor(B))
    plan = tilewright.plan(a, prepared, **SPLIT)
    assert len(gpu.cached) == 1
    assert f"b is prepared: {prepared.nbytes} bytes of it are cached as the kernel wants them" in plan.describe()
    assert "b is prepared, and used as it is" in tilewright.plan(a, prepared, kernel="split_k").describe()
    assert "prepared" not in tilewright.plan(a, tensor(B), **SPLIT).describe()
    check(plan(a, prepared), a.values @ B)
    other = draw(64, 48, seed=1)
    check(plan(a, tilewright.prepare(tensor(other))), a.values @ other)
    with pytest.raises(ArrayError, match="b is not prepared, the plan's is"):
        plan(a, tensor(B))
    with pytest.raises(ArrayError, match="b is prepared, the plan's is not"):
        tilewright.plan(a, tensor(B))(a, prepared)


def test_what_is_kept_is_freed_with_it(gpu):
    prepared = tilewright.prepare(tensor(B))
    tilewright.matmul(tensor(draw(5, 64)), prepared, **SPLIT)
    (memory,) = prepared._copies.values()
    freed = weakref.ref(memory)
    del prepared, memory
    gc.collect()
    assert freed() is None


def test_the_selector_counts_on_it(gpu):
    """A product too small to write the parts of a large b takes them where they are written already."""
    gpu.device_name = "NVIDIA H200"
    for m, n, k in ((128, 4096, 14336), (256, 4096, 4096)):
        names = [select(Problem(m, n, k), (9, 0), "NVIDIA H200", cached=cached)[0].name for cached in (None, "B")]
        assert names == ["small_m_bf16x6", "gemm_bf16x6"]
    a, b = (tensor(np.broadcast_to(np.float32(1), shape).copy()) for shape in ((256, 4096), (4096, 4096)))
    plans = [tilewright.plan(a, one) for one in (b, tilewright.prepare(b))]
    assert [plan.describe().splitlines()[0].split()[3] for plan in plans] == ["small_m_bf16x6", "gemm_bf16x6"]


def test_a_cached_operand_of_unaligned_halves_counts_too():
    case = Problem(128, 4095, 4096, Arithmetic("bfloat16", "bfloat16"))
    assert select(case, (9, 0), "NVIDIA H200", cached="B")[0].name == "gemm_sm90"


# The compiled launcher.


def test_the_launcher_knows_each_by_itself(gpu, launcher):
    a, out = tensor(draw(5, 64)), tensor(np.full((5, 48), np.nan, np.float32))
    first, second = (tilewright.prepare(tensor(B)) for _ in range(2))
    for one in (first, second, first, tensor(B), second):
        for more in ({}, {"activation": "relu"}):
            assert tilewright.matmul(a, one, out=out, **SPLIT, **more) is out
    assert len(launcher.launched) == 10
    addresses = [plan["cached"] for plan in launcher.remembered]
    assert len(addresses) == 6
    assert addresses[:2] == [memory.pointer for memory in first._copies.values()] * 2
    assert addresses[2:4] == [memory.pointer for memory in second._copies.values()] * 2
    assert addresses[4:] == [0, 0]
    assert gpu.streams == []
    plan = tilewright.plan(a, first, out=out, **SPLIT)
    for one in (first, second, first):
        assert plan(a, one, out=out) is out
    assert len(launcher.remembered) == 8
    del first
    assert len(gpu.cached) == 2


def test_the_first_call_of_all_is_remembered_with_its_options(gpu, launcher, monkeypatch):
    """The launcher is made by it."""
    gpu.name = "cuda"
    monkeypatch.setattr(on_gpu, "fast", None)
    module = type("Module", (), {"MISS": launcher.miss, "Launcher": lambda driver: launcher})
    monkeypatch.setattr(on_gpu.launcher, "load", lambda: module)
    out = tensor(np.full((5, 48), np.nan, np.float32))
    tilewright.matmul(tensor(draw(5, 64)), tensor(B), out=out, activation="relu", kernel="split_k")
    assert [plan["options"] for plan in launcher.remembered] == [Request(activation="relu", kernel="split_k")]


# What is refused.


REFUSED = {
    "a vector": (lambda: tensor(draw(64)), {}, "b must be a matrix or a batch of matrices to be prepared, got 64 el"),
    "strided": (lambda: tensor(draw(64, 96)[:, ::2]), {}, "b must have rows or columns whose elements are neighbours"),
    "on the host": (lambda: Tensor(B), {}, "b must lie on a GPU to be prepared"),
    "of NumPy": (lambda: B, {}, "b must lie on a GPU to be prepared, or be for engine='emulator': it lies on the host"),
    "for a GPU": (lambda: B, {"engine": NumPyEngine((9, 0))}, "b must lie on a GPU to be prepared"),
    "for the host": (lambda: tensor(B), {"engine": NumPyEngine(None)}, "must lie on the host for the numpy engine"),
    "no array": (lambda: [[1.0]], {}, "b must be an array of NumPy, CuPy, PyTorch or JAX"),
    "prepared": (lambda: tilewright.prepare(tensor(B)), {}, "b must be an array of .*; got tilewright.Prepared"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_named(gpu, case):
    make, named, words = REFUSED[case]
    with pytest.raises(ArrayError, match=words):
        tilewright.prepare(make(), **named)


def test_element_types_without_kernels_are_refused(gpu):
    with pytest.raises(DtypeError, match="b has element type float64"):
        tilewright.prepare(tensor(B.astype(np.float64)))


def test_products_that_it_does_not_fit(gpu):
    a, prepared = tensor(draw(5, 64)), tilewright.prepare(tensor(B))
    with pytest.raises(ArrayError, match="b must have 48 rows, as a has columns: got b of 64 x 48"):
        tilewright.matmul(tensor(draw(5, 48)), prepared)
    with pytest.raises(DtypeError, match="b must have the element type of a: got float32, and float16"):
        tilewright.matmul(tensor(draw(5, 64).astype(np.float16)), prepared)
    with pytest.raises(ArrayError, match=r"b must lie where a does: got GPU 0, and GPU 1 for a|b is prepared for"):
        tilewright.matmul(tensor(draw(5, 64), 1), prepared)
    with pytest.raises(ArrayError, match=r"a must be an array of .*; got tilewright.Prepared"):
        tilewright.matmul(prepared, a)
    on_host = tilewright.prepare(B, engine="emulator")
    with pytest.raises(ArrayError, match=r"b is prepared for the emulator engine of .*: pass engine='emulator'"):
        tilewright.matmul(draw(5, 64), on_host)
