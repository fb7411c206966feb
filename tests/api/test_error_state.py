"""matmul() on the host follows IEEE 754 without a word: it neither heeds nor changes NumPy's error state."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import numpy as np
import pytest

import tilewright
from stand_ins import NumPyEngine
from tilewright.api.arrays.libraries import library_of
from tilewright.api.call import Call
from tilewright.api.request import Request

calls = import_module("tilewright.api.call")


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch):
    monkeypatch.setattr(calls, "cuda_unavailable", lambda: "a test says so")


@pytest.fixture(autouse=True)
def _strict():
    """Whatever NumPy would say is an error."""
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        yield
        assert set(np.geterr().values()) == {"raise"}


def full(value, dtype="float32", shape=(4, 4)):
    with np.errstate(all="ignore"):
        return np.full(shape, value).astype(dtype)


EYE = np.eye(4, dtype=np.float32)
INF, NAN = float("inf"), float("nan")

CASES = {
    "sums overflow": ({"a": full(1e30), "b": full(1e30)}, INF),
    "sums of infinities": ({"a": full(INF), "b": np.float32([[1], [1], [-1], [1]])}, NAN),
    "sums underflow": ({"a": full(1e-30), "b": full(1e-30)}, 0),
    "alpha overflows": ({"a": full(1e30), "b": EYE, "alpha": 1e30}, INF),
    "alpha underflows": ({"a": full(1e-30), "b": EYE, "alpha": 1e-30}, 0),
    "c overflows": ({"a": full(0), "b": EYE, "c": full(1e30), "beta": 1e30}, INF),
    "c and sums": ({"a": full(3e38), "b": EYE, "c": full(3e38), "beta": 1}, INF),
    "infinities meet": ({"a": full(INF), "b": full(1), "bias": full(-INF, shape=4)}, NAN),
    "float16 overflows": ({"a": full(300, "float16"), "b": full(300, "float16")}, INF),
    "float16 underflows": ({"a": full(1e-4, "float16"), "b": full(1e-5, "float16")}, 0),
    "bfloat16 overflows": ({"a": full(3e38, "bfloat16"), "b": full(1, "bfloat16")}, INF),
    "bfloat16 from NaN": ({"a": full(NAN, "bfloat16"), "b": full(1, "bfloat16")}, NAN),
    "a smaller result": ({"a": full(1e5), "b": full(1e5), "out_dtype": "float16"}, INF),
    "float8": ({"a": full(400, "float8_e4m3fn"), "b": full(400, "float8_e5m2"), "out_dtype": "float16"}, INF),
    "float8 from NaN": (
        {"a": full(NAN, "float8_e4m3fn"), "b": full(1, "float8_e4m3fn"), "out_dtype": "float8_e4m3fn"},
        NAN,
    ),
    "scales overflow": (
        {"a": full(400, "float8_e4m3fn"), "b": full(1, "float8_e4m3fn"), "scale_a": full(1e38, shape=1)},
        INF,
    ),
    "relu": ({"a": full(NAN), "b": EYE, "activation": "relu"}, NAN),
    "gelu": ({"a": full(-1e30), "b": EYE, "activation": "gelu"}, 0),
    "gelu_tanh": ({"a": full(-1e30), "b": EYE, "activation": "gelu_tanh"}, 0),
    "silu": ({"a": full(-1e30), "b": EYE, "activation": "silu"}, 0),
    "silu of what is subnormal": ({"a": full(1e-40), "b": EYE, "activation": "silu"}, 5e-41),
}


def check(result, expected):
    np.testing.assert_allclose(result.astype(np.float64)[:, :1], np.full((len(result), 1), expected), rtol=1e-3)


@pytest.mark.parametrize(("arguments", "expected"), CASES.values(), ids=CASES)
def test_nothing_is_said_of_overflow_and_nan(arguments, expected):
    check(tilewright.matmul(**arguments), expected)


def test_nothing_is_said_of_tiles_that_threads_finish(monkeypatch):
    monkeypatch.setattr(import_module("tilewright.api.out_of_core.tiles"), "SMALL_BYTES", 0)
    a, b = full(300, "float16", (300, 500)), full(300, "float16", (500, 90))
    engines = [NumPyEngine(None), NumPyEngine(None)]
    request = Request(activation="silu", engine=engines[0])
    call = Call.read(request, library_of("a", a), {"a": a, "b": b, "c": None, "out": None, "bias": None}, 0.5)
    on_host = import_module("tilewright.api.out_of_core.host")
    check(on_host.multiply(call, engines, 60_000), INF)
    assert all(engine.started for engine in engines)


def test_nothing_is_said_of_groups():
    a, b = full(300, "float16", (6, 8)), full(300, "float16", (3, 8, 8))
    check(tilewright.grouped_matmul(a, b, np.int32([1, 2, 6])), INF)


def test_each_thread_keeps_its_own_error_state():
    a = full(1e30)

    def product(state):
        with np.errstate(all=state):
            check(tilewright.matmul(a, a, activation="gelu"), INF)
            return np.geterr()["over"]

    states = ["raise", "ignore", "warn"] * 20
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(product, states)) == states
