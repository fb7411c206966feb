"""matmul() on arrays of other libraries than NumPy, and the memory that operands take up.

What says it lies on a GPU lies in the host's memory here, and NumPyEngine stands in for the GPU.
"""

import cProfile
import gc
import re
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright
from stand_ins import (
    CudaArray,
    CuPyArray,
    DynamicJaxprTracer,
    Exporter,
    JaxArray,
    NumPyEngine,
    StandardArray,
    Tensor,
    cupy_module,
    jax_module,
    torch_module,
)
from tilewright import ArrayError, DtypeError, EngineUnavailableError, LaunchError, ProblemError
from tilewright.api.arrays.libraries import library_of
from tilewright.api.arrays.operand import gpu_operand, host_operand
from tilewright.api.formulate import View
from tilewright.core.problem import Arithmetic
from tilewright.runtime.plan import Needs

calls = import_module("tilewright.api.call")
protocols = import_module("tilewright.frameworks.dlpack")

STREAM = 4096
"""Handle of the stream that the stand-ins say is current on GPU 0; on the others it is so much higher."""


@pytest.fixture
def gpus(monkeypatch):
    """Two GPUs, 0 and 1, for arrays that say they lie there."""
    engines = {0: NumPyEngine((9, 0)), 1: NumPyEngine((9, 0))}
    monkeypatch.setattr(calls, "_gpu", engines.get)
    monkeypatch.setattr(protocols, "resolve_engine", lambda _: engines[0])
    return engines


@pytest.fixture(autouse=True)
def _libraries(monkeypatch):
    """The libraries, and no GPU for arrays of the host."""
    monkeypatch.setitem(sys.modules, "torch", torch_module(STREAM))
    monkeypatch.setitem(sys.modules, "cupy", cupy_module(STREAM))
    monkeypatch.setitem(sys.modules, "jax", jax_module())
    monkeypatch.setattr(calls, "cuda_unavailable", lambda: "a test says so")


def draw(rows, cols, seed=0):
    return np.random.default_rng([seed, rows, cols]).standard_normal((rows, cols), np.float32)


def check(result, expected):
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-4)


A, B, C = draw(5, 7, 1), draw(7, 3, 2), draw(5, 3, 3)

ON_GPU = {"torch": lambda values, device=0: Tensor(values, f"cuda:{device}"), "cupy": CuPyArray}
ON_HOST = {"torch": Tensor, "jax": JaxArray, "standard": StandardArray}


@pytest.mark.parametrize("make", ON_GPU.values(), ids=ON_GPU)
@pytest.mark.parametrize("device", [0, 1])
def test_arrays_on_a_gpu_are_multiplied_there_on_the_stream_that_is_current(gpus, make, device):
    result = tilewright.matmul(make(A, device), make(B, device))
    assert type(result) is type(make(A))
    check(result.values, A @ B)
    assert gpus[device].streams == [STREAM + device]
    assert gpus[1 - device].streams == []
    assert gpus[device].synchronized == 0


@pytest.mark.parametrize("make", ON_GPU.values(), ids=ON_GPU)
def test_scalars_of_integers_are_checked_where_the_product_has_a_plan(gpus, make):
    a, b = make(np.ones((5, 7), np.int8)), make(np.ones((7, 3), np.int8))
    for _ in range(2):
        with pytest.raises(ProblemError, match=r"alpha must be an integer from .* where the result is int32, got 0.5"):
            tilewright.matmul(a, b, alpha=0.5)
        check(tilewright.matmul(a, b, alpha=2).values, 14)
    assert len(gpus[0].planned) == 1


HALVES = ("float16", "bfloat16")


@pytest.mark.parametrize("make", ON_GPU.values(), ids=ON_GPU)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("out_dtype", [None, "float32"])
def test_halves_on_a_gpu_make_halves_or_what_is_asked_for(gpus, make, dtype, out_dtype):
    a, b = A.astype(dtype), B.astype(dtype)
    result = tilewright.matmul(make(a), make(b), out_dtype=out_dtype)
    assert type(result) is type(make(A))
    assert result.values.dtype == (out_dtype or dtype)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    check(result.values.astype(np.float32), expected.astype(out_dtype or dtype).astype(np.float32))
    assert gpus[0].planned[0].problem.arithmetic == Arithmetic(dtype, out_dtype or dtype)


@pytest.mark.parametrize("make", ON_GPU.values(), ids=ON_GPU)
def test_complex_arrays_on_a_gpu(gpus, make):
    a, b, c = A + 1j * A[::-1], B - 2j * B, C + 1j * C[::-1]
    a, b, c = (one.astype(np.complex64) for one in (a, b, c))
    result = tilewright.matmul(make(a), make(b))
    assert (type(result), result.values.dtype) == (type(make(A)), np.complex64)
    np.testing.assert_allclose(result.values, a @ b, rtol=1e-5)
    columns = make(np.zeros((3, 5), np.complex64).T)
    assert tilewright.matmul(make(a), make(b), c=make(c), alpha=1 - 1j, beta=2, out=columns) is columns
    np.testing.assert_allclose(columns.values, (1 - 1j) * (a @ b) + 2 * c, rtol=1e-5)
    assert [(plan.problem.m, plan.problem.n) for plan in gpus[0].planned] == [(5, 6), (5, 6)]


def test_a_complex_alpha_is_not_for_the_compiled_launcher(gpus, compiled_launcher):
    a, b = (Tensor(one.astype(np.complex64), "cuda:0") for one in (A, B))
    for alpha in (2j, 1 + 1j):
        np.testing.assert_allclose(tilewright.matmul(a, b, alpha=alpha).values, alpha * (A @ B), rtol=1e-5)
    assert compiled_launcher.remembered == []
    tilewright.matmul(a, b, alpha=2.0)
    assert len(compiled_launcher.remembered) == 1


@pytest.mark.parametrize("make", ON_HOST.values(), ids=ON_HOST)
@pytest.mark.parametrize("dtype", HALVES)
def test_halves_on_the_host_make_halves_or_what_is_asked_for(make, dtype):
    a, b = A.astype(dtype), B.astype(dtype)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    for named in ({}, {"kernel": "wmma_f16", "engine": NumPyEngine(None)}):
        result = tilewright.matmul(make(a), make(b), out_dtype="float32", **named)
        assert type(result) is make
        assert result.values.dtype == np.float32
        check(result.values, expected)
    result = tilewright.matmul(make(a), make(b))
    assert result.values.dtype == dtype
    check(result.values.astype(np.float32), expected.astype(dtype).astype(np.float32))


def test_bfloat16_through_dlpack_is_read_in_place():
    whole = np.full((9, 12), np.nan).astype("bfloat16")
    whole[2:7, 3:10] = A
    a, out = Exporter(whole[2:7, 3:10]), Exporter(np.full((5, 3), np.nan, np.float32))
    tilewright.matmul(a, Exporter(B.astype("bfloat16")[::-1]), out=out)
    check(out.values, A.astype("bfloat16").astype(np.float32) @ B.astype("bfloat16").astype(np.float32)[::-1])
    where = library_of("a", a).read("a", a, 0)
    assert (where.pointer, where.strides, where.dtype) == (a.values.ctypes.data, (24, 2), "bfloat16")


@pytest.mark.parametrize("make", ON_GPU.values(), ids=ON_GPU)
def test_out_and_c_on_a_gpu(gpus, make):
    c, out = make(C.copy()), make(np.full((5, 3), np.nan, np.float32))
    assert tilewright.matmul(make(A), make(B), c=c, out=out, alpha=2, beta=0.5) is out
    check(out.values, 2 * A @ B + 0.5 * C)
    check(c.values, C)
    assert tilewright.matmul(make(A), make(B), c=c, out=c, alpha=2, beta=0.5) is c
    check(c.values, 2 * A @ B + 0.5 * C)
    new = tilewright.matmul(make(A), make(B), c=make(C), beta=1)
    check(new.values, A @ B + C)
    assert len(gpus[0].streams) == 3


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize("make", ON_GPU.values(), ids=ON_GPU)
def test_a_scalar_lies_on_the_host(gpus, make, name):
    a, b, c = make(A), make(B), make(C)
    two = make(np.array(2, np.float32))
    plan = tilewright.plan(a, b, c=c)
    for call in (tilewright.matmul, tilewright.plan, plan):
        with pytest.raises(ProblemError, match=rf"{name} must be a number, or an array .* host, .* float\({name}\)"):
            call(a, b, c=c, **{name: two})
    assert gpus[0].streams == []
    both = {"alpha": np.array(2.0), "beta": np.float16(0.5)}
    check(tilewright.matmul(a, b, c=c, **both).values, 2 * A @ B + 0.5 * C)


@pytest.mark.parametrize("make", ON_GPU.values(), ids=ON_GPU)
def test_c_on_a_gpu_is_not_read_where_beta_is_zero(gpus, make):
    nothing = make(np.full((5, 3), np.nan, np.float32))
    check(tilewright.matmul(make(A), make(B), c=nothing).values, A @ B)
    assert len(gpus[0].streams) == 1


@pytest.mark.parametrize("make", ON_GPU.values(), ids=ON_GPU)
def test_slices_on_a_gpu_are_used_in_place(gpus, make, monkeypatch):
    for library in ("torch", "cupy"):
        monkeypatch.delattr(sys.modules[library], "empty")  # so that there is no memory for a copy
    whole = np.full((20, 30), np.nan, np.float32)
    whole[2:7, 3:10], whole[8:15, 4:7] = A, B
    out = make(whole[:5, 20:23])
    tilewright.matmul(make(whole[2:7, 3:10]), make(whole[8:15, 4:7]), out=out)
    check(out.values, A @ B)
    assert len(gpus[0].streams) == 1
    assert np.isnan(whole[:5, 23:]).all() and np.isnan(whole[5:, 20:]).all()


@pytest.mark.parametrize("make", ON_GPU.values(), ids=ON_GPU)
def test_column_major_arrays_on_a_gpu_are_used_in_place(gpus, make, monkeypatch):
    for library in ("torch", "cupy"):
        monkeypatch.delattr(sys.modules[library], "empty")  # so that there is no memory for a copy
    out = make(np.full((3, 5), np.nan, np.float32).T)
    a, b = make(np.asfortranarray(A)), make(np.asfortranarray(B))
    assert tilewright.matmul(a, b, out=out, activation="relu") is out
    check(out.values, np.maximum(A @ B, 0))
    assert gpus[0].planned[0].problem.layout == "NN"  # of b's transpose and a's


@pytest.mark.parametrize("make", ON_GPU.values(), ids=ON_GPU)
def test_batches_and_bias_on_a_gpu(gpus, make):
    a, b = np.stack([A, 2 * A, 3 * A]), np.stack([B, -B, B])
    check(tilewright.matmul(make(a), make(b), bias=make(C[0])).values, a @ b + C[0])
    check(tilewright.matmul(make(a), make(B), bias=make(C[0])).values, a @ B + C[0])
    check(tilewright.matmul(make(A), make(b), bias=make(C[:, :1].copy())).values, A @ b + C[:, :1])
    check(tilewright.matmul(make(A[0]), make(b)).values, A[0] @ b)
    check(tilewright.matmul(make(a[:, None]), make(b)).values, a[:, None] @ b)
    sizes = [(plan.problem.batch, plan.problem.m) for plan in gpus[0].planned]
    assert sizes == [(3, 5), (1, 15), (3, 5), (3, 1), (9, 5)]


@pytest.mark.parametrize("make", ON_GPU.values(), ids=ON_GPU)
def test_a_bias_of_one_element_for_one_column(gpus, make):
    bias = np.float32([[2.0]])
    check(tilewright.matmul(make(A), make(B[:, :1].copy()), bias=make(bias)).values, A @ B[:, :1] + 2)
    check(tilewright.matmul(A, B[:, :1], bias=bias), A @ B[:, :1] + 2)


@pytest.mark.parametrize("make", ON_GPU.values(), ids=ON_GPU)
def test_other_layouts_on_a_gpu_are_copied_there(gpus, make):
    out = make(np.full((3, 5), np.nan, np.float32).T)
    a, b = make(np.asfortranarray(A)), make(np.ascontiguousarray(B[::-1])[::-1])
    c = make(np.broadcast_to(C[:1], (5, 3)))
    assert tilewright.matmul(a, b, c=c, beta=2, out=out) is out
    check(out.values, A @ B + 2 * C[:1])
    assert len(gpus[0].streams) == 1


@pytest.mark.parametrize("make", ON_GPU.values(), ids=ON_GPU)
@pytest.mark.parametrize("sizes", [(0, 3, 5), (4, 0, 5), (4, 3, 0)])
def test_empty_matrices_on_a_gpu(gpus, make, sizes):
    m, n, k = sizes
    a, b, c = draw(m, k), draw(k, n), draw(m, n)
    check(tilewright.matmul(make(a), make(b), c=make(c), beta=2).values, 2 * c)
    assert len(gpus[0].streams) == 1


def test_torch_learns_what_was_written(gpus):
    out, columns = Tensor(C.copy(), "cuda:0"), Tensor(np.empty((3, 5), np.float32).T, "cuda:0")
    for target in (out, columns):
        tilewright.matmul(Tensor(A, "cuda:0"), Tensor(B, "cuda:0"), out=target)
    assert (out.version, columns.version) == (1, 1)
    assert len(gpus[0].streams) == 2


@pytest.mark.parametrize("make", ON_HOST.values(), ids=ON_HOST)
@pytest.mark.parametrize("engine", [None, NumPyEngine(None)], ids=["numpy", "engine"])
def test_arrays_of_the_host_give_one_of_their_library(make, engine):
    result = tilewright.matmul(make(A), make(B), c=make(C), alpha=2, beta=0.5, engine=engine)
    assert type(result) is make
    check(result.values, 2 * A @ B + 0.5 * C)


@pytest.mark.parametrize("make", [Tensor, StandardArray])
def test_out_of_the_host_is_written_and_returned(make):
    out = make(np.full((5, 3), np.nan, np.float32))
    assert tilewright.matmul(make(A), make(B), out=out) is out
    check(out.values, A @ B)


def test_an_array_that_speaks_dlpack_alone():
    out = Exporter(np.full((5, 3), np.nan, np.float32))
    with pytest.raises(ArrayError, match="out must be given: there is no way to ask for a new stand_ins"):
        tilewright.matmul(Exporter(A), Exporter(B))
    assert tilewright.matmul(Exporter(A), Exporter(B), out=out) is out
    check(out.values, A @ B)


def test_a_stream_that_cannot_be_known_is_waited_for(gpus):
    a, b, out = Exporter(A, device=0), Exporter(B, device=0), Exporter(C.copy(), device=0)
    assert tilewright.matmul(a, b, c=out, out=out, beta=2) is out
    check(out.values, A @ B + 2 * C)
    assert gpus[0].streams == [0]
    assert gpus[0].synchronized == 1
    assert a.consumers == b.consumers == [1]  # DLPack's number for the default stream


def test_a_library_that_follows_the_array_api_standard_is_asked_for_new_arrays(gpus):
    result = tilewright.matmul(StandardArray(A, device=1), StandardArray(B, device=1))
    assert (type(result), result.device) == (StandardArray, 1)
    check(result.values, A @ B)
    assert gpus[1].synchronized == 1


def test_copies_that_cannot_be_asked_for_are_refused(gpus):
    a, b, out = Exporter(A, device=0), Exporter(B, device=0), Exporter(C.copy(), device=0)
    with pytest.raises(ArrayError, match="a must have rows or columns whose elements are neighbours"):
        tilewright.matmul(Exporter(A[:, ::-1], device=0), b, out=out)
    with pytest.raises(ArrayError, match="out must be given: there is no way to ask for a new"):
        tilewright.matmul(a, b, out=Exporter(C.copy()[:, ::-1], device=0))
    with pytest.raises(ArrayError, match="c and out must be the same row- or column-major array"):
        tilewright.matmul(a, b, c=Exporter(C, device=0), beta=1, out=out, kernel="naive")
    assert gpus[0].streams == []


REFUSED = {
    "sparse": (Tensor(A, layout="sparse_coo"), ArrayError, "a must be a dense tensor, got one of layout sparse_coo"),
    "negated": (Tensor(A, negated=True), ArrayError, "pass a.resolve_neg()"),
    "other device": (Tensor(A, "mps"), ArrayError, "a must lie on the host or an NVIDIA GPU"),
    "tensor type": (Tensor(A.astype("f8"), "cuda:0"), DtypeError, "a has element type float64; matmul takes float32"),
    "tensor rank": (
        Tensor(np.zeros((), "f4"), "cuda:0"),
        ArrayError,
        "a must be a vector, a matrix or a batch of matrices, got a s",
    ),
    "CuPy type": (CuPyArray(A.astype("i2")), DtypeError, "a has element type int16; matmul takes float32"),
    "JAX type": (JaxArray(A.astype("i4")), DtypeError, "a has element type int32"),
    "DLPack type": (Exporter(A.astype("f8")), DtypeError, "a has element type float64"),
    "DLPack GPU type": (Exporter(A.astype("f8"), device=0), DtypeError, "a has element type float64"),
    "DLPack GPU rank": (Exporter(np.zeros((), "f4"), device=0), ArrayError, "a must be a vector, a matrix or a batch"),
}


@pytest.mark.parametrize(("a", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_arrays_that_are_refused_are_named(gpus, a, error, words):
    with pytest.raises(error) as caught:
        tilewright.matmul(a, a)
    assert words in str(caught.value)
    assert gpus[0].streams == []


def test_a_device_of_another_kind_is_refused():
    array = Exporter(A)
    array.where = (8, 0)
    with pytest.raises(ArrayError, match="a must lie on the host or an NVIDIA GPU, got DLPack device type 8"):
        tilewright.matmul(array, array)


def test_an_array_that_cannot_be_exported_says_why(gpus):
    class Sharded(Exporter):
        def __dlpack__(self, **_):
            raise BufferError("it is sharded over 2 devices")

    for device in (None, 0):
        array = Sharded(A, device)
        with pytest.raises(ArrayError, match="a cannot be read through its protocol: it is sharded over 2 devices"):
            tilewright.matmul(array, array)
    assert gpus[0].streams == []


def test_a_call_that_torch_records_goes_to_the_operator(monkeypatch):
    calls = []
    operator = SimpleNamespace(matmul=lambda *arguments: calls.append(arguments) or "recorded")
    monkeypatch.setitem(sys.modules, "tilewright.torch", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "tilewright.frameworks.torch.op", operator)
    weights = Tensor(B, requires_grad=True)
    assert tilewright.matmul(Tensor(A), weights, alpha=2, activation="relu") == "recorded"
    arrays, request, *scalars = calls[0]
    assert arrays["b"] is weights
    assert (scalars, request.activation, arrays["out"]) == ([2, 0.0], "relu", None)


def test_gradients_are_no_matter_where_none_are_recorded(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch_module(grad=False))
    check(tilewright.matmul(Tensor(A, requires_grad=True), Tensor(B)).values, A @ B)


def test_what_jax_traces_is_the_primitives_and_has_no_plan(monkeypatch):
    calls = []
    primitive = SimpleNamespace(matmul=lambda *arguments: calls.append(arguments) or "traced")
    monkeypatch.setitem(sys.modules, "tilewright.frameworks.jax", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "tilewright.frameworks.jax.call", primitive)
    traced = DynamicJaxprTracer()
    assert tilewright.matmul(JaxArray(A), traced, alpha=2, activation="relu") == "traced"
    arrays, request, *scalars = calls[0]
    assert arrays["b"] is traced
    assert (scalars, request.activation, arrays["out"]) == ([2, 0.0], "relu", None)
    with pytest.raises(ArrayError, match="call matmul instead"):
        tilewright.plan(traced, JaxArray(B))


def test_jax_arrays_cannot_be_written():
    with pytest.raises(ArrayError, match="out must be an array that can be written, and a jaxlib"):
        tilewright.matmul(JaxArray(A), JaxArray(B), out=JaxArray(C))


@pytest.mark.parametrize("make", ON_GPU.values(), ids=ON_GPU)
def test_arrays_on_different_gpus_are_refused(gpus, make):
    with pytest.raises(ArrayError, match="b must lie where a does: got GPU 1, and GPU 0 for a"):
        tilewright.matmul(make(A, 0), make(B, 1))
    with pytest.raises(ArrayError, match="out must lie where a does: got GPU 0, and GPU 1 for a"):
        tilewright.matmul(make(A, 1), make(B, 1), out=make(C.copy(), 0))
    assert gpus[0].streams == gpus[1].streams == []


def test_arrays_on_the_host_and_on_a_gpu_are_refused(gpus):
    with pytest.raises(ArrayError, match="b must lie where a does: got GPU 0, and the host for a"):
        tilewright.matmul(Tensor(A), Tensor(B, "cuda:0"))
    with pytest.raises(ArrayError, match="b must be of the same library as a and lie on the same device"):
        tilewright.matmul(A, CuPyArray(B))
    assert gpus[0].streams == []


def test_arrays_on_a_gpu_are_not_for_the_emulator(gpus):
    with pytest.raises(ArrayError, match="a must lie on the host for the emulator engine, got GPU 0"):
        tilewright.matmul(CuPyArray(A), CuPyArray(B), engine="emulator")
    assert gpus[0].streams == []


@pytest.mark.parametrize("array", [CudaArray(A), Exporter(A, device=0)], ids=["interface", "DLPack"])
def test_an_array_on_a_gpu_of_a_machine_without_one(monkeypatch, array):
    def no_gpu(engine):
        raise EngineUnavailableError(f"the {engine} engine cannot run here: no driver")

    monkeypatch.setattr(protocols, "resolve_engine", no_gpu)
    with pytest.raises(EngineUnavailableError, match="the cuda engine cannot run here: no driver"):
        tilewright.matmul(array, array, out=array)


@pytest.mark.parametrize("stream", [None, 1, 2, 4096])
def test_the_stream_that_an_interface_names(stream):
    library = library_of("a", CudaArray(A, stream))
    assert library.stream(CudaArray(A, stream)) == stream


def test_errors_of_an_engine_come_out(gpus, monkeypatch):
    def fail(*_):
        raise LaunchError("the GPU reports a failure")

    monkeypatch.setattr(gpus[0], "start", fail)
    with pytest.raises(LaunchError, match="the GPU reports a failure"):
        tilewright.matmul(CuPyArray(A), CuPyArray(B))


WHOLE = np.zeros((12, 12), np.float32)
INDICES = st.tuples(*[st.slices(12)] * 2)


@given(INDICES, INDICES, st.booleans())
def test_overlap_is_reported_element_by_element(first, second, transposed):
    marks = np.zeros((12, 12), bool)
    marks[second] = True
    views = WHOLE[first], WHOLE[second].T if transposed else WHOLE[second]
    one, other = (host_operand("a", view, view) for view in views)
    assert one.overlaps(other) == other.overlaps(one) == bool(marks[first].any())


@given(INDICES, INDICES)
def test_same_means_the_same_elements_in_the_same_order(first, second):
    places = np.arange(144, dtype=np.float32).reshape(12, 12)
    one, other = (host_operand("a", places[index], places[index]) for index in (first, second))
    if places[first].size:
        assert one.is_same(other) == np.array_equal(places[first], places[second])


@pytest.mark.parametrize(
    ("view", "elements_overlap"),
    [
        (WHOLE, False),
        (WHOLE[::3, 3:7], False),
        (WHOLE[:, ::2], False),
        (WHOLE[::-1], False),
        (WHOLE.T[:, :1], False),
        (WHOLE[:0], False),
        (np.broadcast_to(WHOLE[:1], (12, 12)), True),
        (np.broadcast_to(WHOLE[:, :1], (12, 12)), True),
        (np.broadcast_to(WHOLE[:1], (1, 12)), False),
        (np.broadcast_to(WHOLE, (3, 12, 12)), True),
        (np.lib.stride_tricks.sliding_window_view(WHOLE[0], 4), True),
        (np.zeros((4, 4), [("x", "f4"), ("y", "u2")])["x"], False),
        (np.zeros((2, 3, 4), np.float32).transpose(2, 0, 1), False),
    ],
)
def test_elements_that_share_memory_are_found(view, elements_overlap):
    assert host_operand("a", view, view).elements_overlap == elements_overlap


def test_a_view_that_is_no_whole_number_of_elements_apart_has_no_strides():
    view = np.zeros((4, 4), [("x", "f4"), ("y", "u2")])["x"]
    assert host_operand("a", view, view).view == View((4, 4), None)
    assert gpu_operand("a", None, 4096, (3, 4), (40, 4), "float32", 1).view == View((3, 4), (10, 1))


class Remembers:
    """The compiled launcher; it notes what it is asked for, and launches what it was told of."""

    def __init__(self, miss):
        self.miss, self.remembered, self.launched = miss, [], []

    def remember(self, a, b, c, out, bias, options, **plan):
        self.remembered.append(plan | {"options": options})

    def call(self, a, b, c, out, bias, alpha, beta, options):
        if options not in [plan["options"] for plan in self.remembered]:
            return self.miss
        self.launched.append((alpha, beta))
        return out


def test_sums_and_copies_lie_in_memory_that_pytorch_lends(gpus, monkeypatch):
    gpus[0].needs = lambda kernel: Needs(100, 3, 2**24)
    lent = []
    empty = sys.modules["torch"].empty
    monkeypatch.setattr(
        sys.modules["torch"], "empty", lambda *args, **named: lent.append(empty(*args, **named)) or lent[-1]
    )
    check(tilewright.matmul(Tensor(A, "cuda:0"), Tensor(B, "cuda:0"), kernel="split_k").values, A @ B)
    assert [array.shape for array in lent] == [(5, 3), (256 + 2**24,)]
    assert gpus[0].started[-1].scratch == lent[1].data_ptr()
    check(tilewright.matmul(CuPyArray(A), CuPyArray(B), kernel="split_k").values, A @ B)
    assert gpus[0].started[-1].scratch == 0
    monkeypatch.setattr(gpus[0], "capturing", lambda stream: stream == STREAM)
    check(tilewright.matmul(Tensor(A, "cuda:0"), Tensor(B, "cuda:0"), kernel="split_k").values, A @ B)
    assert (len(lent), gpus[0].started[-1].scratch) == (3, 0), "a graph's memory is its own"


def test_where_there_is_no_room_for_parts_a_kernel_for_ieee_is_taken(gpus, monkeypatch):
    gpus[0].device_name = "NVIDIA H200"
    a, b = draw(2048, 1024), draw(1024, 2048)
    gpus[0].needs = lambda kernel: Needs(relayout_bytes=2**26 if kernel.splits else 0)
    assert "no room for the parts" in tilewright.plan(Tensor(a, "cuda:0"), Tensor(b, "cuda:0")).describe()
    monkeypatch.setattr(sys.modules["torch"], "most", 2**25)
    for _ in range(2):
        result = tilewright.matmul(Tensor(a, "cuda:0"), Tensor(b, "cuda:0"))
        np.testing.assert_allclose(result.values, a @ b, rtol=0, atol=2e-3)
    assert [plan.kernel.splits for plan in gpus[0].planned] == [True, False]
    with pytest.raises(MemoryError, match="out of memory"):
        tilewright.matmul(Tensor(a, "cuda:0"), Tensor(b, "cuda:0"), kernel="gemm_bf16x6")


@pytest.fixture
def compiled_launcher(gpus, monkeypatch):
    """A launcher in use, and an engine that calls itself cuda."""
    gpus[0].name, gpus[0].context, gpus[0].workspace = "cuda", 5, None
    module = import_module("tilewright.api.gpu")
    known = Remembers(object())
    monkeypatch.setattr(module, "fast", known)
    monkeypatch.setattr(module, "miss", known.miss)
    return known


def test_the_first_call_of_a_kind_is_launched_once_by_the_compiled_launcher(gpus, compiled_launcher):
    out = Tensor(np.full((5, 3), np.nan, np.float32), "cuda:0")
    for _ in range(2):
        assert tilewright.matmul(Tensor(A, "cuda:0"), Tensor(B, "cuda:0"), out=out, kernel="split_k") is out
    assert compiled_launcher.launched == [(1.0, 0.0), (1.0, 0.0)]
    assert len(compiled_launcher.remembered) == 1
    assert gpus[0].streams == []


def test_a_plan_is_launched_by_the_compiled_launcher_and_known_to_it_alone(gpus, compiled_launcher):
    arrays = {"a": Tensor(A, "cuda:0"), "b": Tensor(B, "cuda:0")}
    out = Tensor(np.full((5, 3), np.nan, np.float32), "cuda:0")
    plans = [tilewright.plan(**arrays, out=out, kernel="split_k") for _ in range(2)]
    for plan in (*plans, plans[0]):
        assert plan(**arrays, out=out, alpha=2.0) is out
    assert compiled_launcher.launched == [(2.0, 0.0)] * 3
    assert len({id(plan["options"]) for plan in compiled_launcher.remembered}) == 2
    assert gpus[0].streams == []
    with pytest.raises(ArrayError, match="alpha is 0, the plan's is not 0"):
        plans[0](**arrays, out=out, alpha=0.0)


def test_what_alpha_0_makes_of_a_product_is_no_plan_for_other_alphas(gpus, compiled_launcher):
    """Its k is 0, and the launcher has one plan for every alpha."""
    for alpha in (0.0, 1.0):
        out = Tensor(np.full((5, 3), np.nan, np.float32), "cuda:0")
        tilewright.matmul(Tensor(A, "cuda:0"), Tensor(B, "cuda:0"), out=out, alpha=alpha, kernel="split_k")
    assert [plan.problem.k for plan in gpus[0].planned] == [0, 7]
    assert (gpus[0].streams, compiled_launcher.launched) == ([STREAM], [(1.0, 0.0)])


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_product_without_elements_is_remembered_whatever_the_kernel_and_alpha(gpus, compiled_launcher, alpha):
    a, b = np.zeros((0, 7), np.float32), np.zeros((7, 3), np.float32)
    c, out = (Tensor(np.zeros((0, 3), np.float32), "cuda:0") for _ in range(2))
    arrays = {"a": Tensor(a, "cuda:0"), "b": Tensor(b, "cuda:0"), "c": c, "out": out}
    assert tilewright.matmul(**arrays, alpha=alpha, beta=2.0, kernel="naive") is out
    (plan,) = compiled_launcher.remembered
    assert (plan["steps"], plan["scaled"]) == ((), True)
    assert compiled_launcher.launched == [(alpha, 2.0)]
    assert gpus[0].streams == []


def test_a_kernel_of_the_course_is_launched_from_python(gpus, compiled_launcher):
    out = Tensor(np.full((5, 3), np.nan, np.float32), "cuda:0")
    tilewright.matmul(Tensor(A, "cuda:0"), Tensor(B, "cuda:0"), out=out, kernel="naive")
    check(out.values, A @ B)
    assert compiled_launcher.remembered == []


def placed(values, offset=0):
    """An array of its kind that begins this many bytes behind a multiple of 16."""
    memory = np.zeros(values.nbytes + 32, np.uint8)
    return np.ndarray(values.shape, values.dtype, memory, -memory.ctypes.data % 16 + offset, values.strides)


ANOTHER_KIND = {
    "shape": ({"a": draw(6, 7), "out": draw(6, 3)}, "a has shape (6, 7), the plan's has (5, 7)"),
    "element type": (
        {"a": A.astype(np.float16), "b": B.astype(np.float16), "out": C.astype(np.float16)},
        "a has element type float16, the plan's has float32",
    ),
    "strides": ({"b": np.asfortranarray(B)}, "b has strides in bytes of (4, 28), the plan's has (12, 4)"),
    "no out": ({"out": None}, "the plan is with out, the call without"),
    "bias": ({"bias": C[0].copy()}, "the plan is without bias, the call with"),
    "c": ({"c": C, "beta": 1.0}, "the plan is without c, the call with"),
    "alpha": ({"alpha": 0.0}, "alpha is 0, the plan's is not 0"),
}


@pytest.mark.parametrize("where", ["on a GPU", "on the host"])
@pytest.mark.parametrize("case", ANOTHER_KIND)
def test_a_plan_says_what_differs_from_its_kind(gpus, where, case):
    changes, words = ANOTHER_KIND[case]
    make = (lambda values: Tensor(values, "cuda:0")) if where == "on a GPU" else Tensor

    def made(arrays):
        return {name: make(value) if isinstance(value, np.ndarray) else value for name, value in arrays.items()}

    arrays = {"a": placed(A), "b": placed(B), "out": placed(C)}
    plan = tilewright.plan(**made(arrays))
    with pytest.raises(ArrayError, match=re.escape("the plan is for arrays of another kind: " + words)):
        plan(**made(arrays | changes))
    assert gpus[0].streams == []


def test_a_plan_on_a_gpu_is_for_addresses_that_are_as_much_aligned(gpus):
    plan = tilewright.plan(Tensor(placed(A), "cuda:0"), Tensor(placed(B), "cuda:0"))
    with pytest.raises(ArrayError, match="b has an address that, divided by 16, leaves 4, the plan's has 0"):
        plan(Tensor(placed(A), "cuda:0"), Tensor(placed(B, 4), "cuda:0"))


def test_a_plan_on_the_host_is_for_any_address():
    plan = tilewright.plan(placed(A), placed(B), kernel="vectorized", engine="emulator")
    moved = placed(B, 4)
    moved[:] = B
    check(plan(A, moved), A @ B)


def test_a_plan_is_for_one_gpu_and_one_library(gpus):
    plan = tilewright.plan(Tensor(placed(A), "cuda:0"), Tensor(placed(B), "cuda:0"))
    others = {
        "a has its place on GPU 1, the plan's has GPU 0": lambda values: Tensor(values, "cuda:1"),
        "a has its place on the host, the plan's has GPU 0": Tensor,
        "the arrays are of another library": CuPyArray,
    }
    for words, make in others.items():
        with pytest.raises(ArrayError, match=words):
            plan(make(placed(A)), make(placed(B)))
    with pytest.raises(ArrayError, match="b must lie where a does: got GPU 1, and GPU 0 for a"):
        plan(Tensor(placed(A), "cuda:0"), Tensor(placed(B), "cuda:1"))


PACKAGE = str(Path(tilewright.__file__).parent)
STAND_INS = sys.modules["stand_ins"].__file__


def calls_of(function):
    """Calls that functions of the package make in a call of this one, of what is not the package's own included."""
    profile = cProfile.Profile()
    gc.disable()  # what other tests have left in cycles may end in this call
    try:
        profile.runcall(function)
    finally:
        gc.enable()
    own = [entry for entry in profile.getstats() if getattr(entry.code, "co_filename", "").startswith(PACKAGE)]
    return sum(made.callcount for entry in own for made in entry.calls or ())


WARM = {
    "plain": ({}, 95),
    "out": ({"out": True}, 136),
    "epilogue": ({"c": True, "beta": 2.0, "bias": True, "activation": "relu"}, 143),
    "named": ({"kernel": "split_k", "out": True}, 150),
}
"""Arguments of a call, and how many calls the package may make where the compiled launcher is not there: those that it
makes, and a few for other versions of Python."""


@pytest.mark.parametrize("make", ON_GPU.values(), ids=ON_GPU)
@pytest.mark.parametrize("way", WARM)
def test_a_call_whose_plan_exists_makes_few_calls(gpus, make, way):
    """On the Python path, but for the engine's part. Times cannot be bounded on every machine; this can."""
    named, most = WARM[way]
    arrays = {"out": make(np.zeros((5, 3), np.float32)), "c": make(C), "bias": make(C[0].copy())}
    named = {name: arrays.get(name, value) for name, value in named.items()}
    a, b = make(A), make(B)
    plan = tilewright.plan(a, b, **named)
    of_call = {name: value for name, value in named.items() if name not in ("kernel", "activation")}
    for warm in (lambda: tilewright.matmul(a, b, **named), lambda: plan(a, b, **of_call)):
        warm()
        assert 50 < calls_of(warm) <= most
    assert len(gpus[0].planned) == 1


def test_a_call_whose_plan_exists_goes_through_few_files(gpus):
    """Files of the package that it runs code of, and calls from one of them to another, but for the engine's part."""
    a, b = Tensor(A, "cuda:0"), Tensor(B, "cuda:0")
    tilewright.matmul(a, b)
    files, moves = set(), []

    def note(frame, event, _):
        if event != "call" or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            if caller.f_code.co_filename == STAND_INS:
                return
            caller = caller.f_back
        files.add(frame.f_code.co_filename)
        if caller is not None and caller.f_code.co_filename != frame.f_code.co_filename:
            moves.append((caller.f_code.co_name, frame.f_code.co_name))

    sys.setprofile(note)
    try:
        tilewright.matmul(a, b)
    finally:
        sys.setprofile(None)
    assert len(files) <= 7, files
    assert len(moves) <= 12, moves
    assert ("read", "gpu_operand") in moves


def test_a_call_that_the_compiled_launcher_knows_makes_no_other(gpus, compiled_launcher):
    a, b, out = (Tensor(values, "cuda:0") for values in (A, B, np.zeros((5, 3), np.float32)))
    plan = tilewright.plan(a, b, out=out, kernel="split_k")
    for warm in (lambda: tilewright.matmul(a, b, out=out, kernel="split_k"), lambda: plan(a, b, out=out)):
        warm()
        before = len(compiled_launcher.launched)
        assert calls_of(warm) <= 2
        assert len(compiled_launcher.launched) == before + 1
