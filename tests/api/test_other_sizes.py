"""Plans of calls that differ in sizes alone from one that was bound: those that the calls would get themselves."""

import cProfile
import sys
from importlib import import_module
from itertools import product

import numpy as np
import pytest

from stand_ins import NumPyEngine, Tensor, torch_module
from tilewright.api import gpu as on_gpu
from tilewright.api.arrays.libraries import library_of
from tilewright.api.call import Call
from tilewright.api.planned_call import planner
from tilewright.api.request import Request
from tilewright.core.problem import Problem, Scalars
from tilewright.kernels import find

SIZES = ((96, 80, 64), (1000, 4, 33), (2, 7, 1030), (300, 301, 302), (8, 900, 900))


@pytest.fixture
def engine(monkeypatch):
    found = NumPyEngine((9, 0))
    found.device_name = "NVIDIA H200"
    monkeypatch.setitem(sys.modules, "torch", torch_module())
    monkeypatch.setattr(import_module("tilewright.api.call"), "_gpu", lambda device: found)
    return found


def matrix(rows, cols, order, dtype="float32", gap=0):
    """A matrix with gaps between its rows or columns; all addresses are aligned alike."""
    lines, length = (rows, cols) if order == "row" else (cols, rows)
    whole = np.zeros(lines * (length + gap) + 16, dtype)
    start = -whole.ctypes.data % 16 // whole.itemsize
    array = whole[start : start + lines * (length + gap)].reshape(lines, length + gap)[:, :length]
    return Tensor(array if order == "row" else array.T, "cuda:0")


def call_of(sizes, a="row", b="row", out=None, c=False, bias=False, beta=0.0, dtype="float32", gap=0, **request):
    m, n, k = sizes
    arrays = {"a": matrix(m, k, a, dtype, gap), "b": matrix(k, n, b, dtype, gap)}
    arrays["out"] = matrix(m, n, out, dtype, gap) if out else None
    arrays["c"] = matrix(m, n, out or "row", dtype) if c else None
    arrays["bias"] = Tensor(np.zeros(n, dtype), "cuda:0") if bias else None
    return Call.read(Request(**request), library_of("a", arrays["a"]), arrays, 1.0, beta), arrays


CALLS = {
    **{f"{a} {b} {out}": {"a": a, "b": b, "out": out} for a, b, out in product(("row", "column"), repeat=3)},
    "new": {},
    "gaps": {"gap": 3, "out": "row"},
    "c": {"c": True, "beta": 2.0},
    "c into columns": {"c": True, "beta": 2.0, "out": "column", "gap": 5},
    "c that is not read": {"c": True},
    "bias": {"bias": True, "activation": "gelu", "out": "column"},
    "halves": {"dtype": "float16", "b": "column", "out_dtype": "float16"},
    "precision": {"precision": "ieee"},
    "batch-invariant": {"batch_invariant": True, "dtype": "bfloat16", "out": "column"},
    "complex": {"dtype": "complex64", "b": "column"},
    "complex columns": {"dtype": "complex64", "a": "column", "out": "column", "gap": 2, "c": True, "beta": 2.0},
    "named": {"kernel": "gemm_wmma", "config": "BM=64,WM=32", "dtype": "float16"},
}


@pytest.mark.parametrize("named", CALLS.values(), ids=CALLS)
def test_other_sizes_get_the_plans_of_their_own_calls(engine, named):
    call, _ = call_of((256, 128, 64), **named)
    plan = planner(call, on_gpu.planned_call_of(call))
    for sizes in SIZES:
        other, arrays = call_of(sizes, **named)
        expected = on_gpu.planned_call_of(other).plan
        ld = {name: 0 if one is None or name == "bias" else max(one.stride()) for name, one in arrays.items()}
        found = plan(*sizes, ld["a"], ld["b"], ld["c"], ld["out"])
        assert found.problem == expected.problem
        assert hash(found.problem) == hash(expected.problem)
        assert found.problem.layout == expected.problem.layout
        assert (found.kernel, found.config) == (expected.kernel, expected.config)
        assert found.executable.variant == expected.executable.variant


def test_what_the_launcher_is_given_for_other_sizes(engine, monkeypatch):
    """With a stand-in for it: a result of their shape, and nothing for kernels that it cannot launch."""
    remembered = []

    class Launcher:
        def remember(self, *arrays, **named):
            remembered.append(named)

        def call(self, *arrays):
            return on_gpu.miss

    monkeypatch.setattr(on_gpu, "fast", Launcher())
    engine.name = "cuda"
    engine.context, engine.workspace = 0, None
    for named, other_sizes in (({}, True), ({"out": "row"}, True), ({}, False)):
        call, arrays = call_of((256, 128, 64), **named)
        on_gpu.multiply(call, arrays, None, True, other_sizes)
    new, out, neither = (named["plan"] for named in remembered)
    assert neither is None
    steps, needs, (make, (shape, strides), keywords), lent = new(96, 80, 64, 64, 80, 0, 0)
    assert (steps, needs, lent) == (engine.planned[-1].steps, engine.planned[-1].needs, False)
    assert (make, shape, strides) == (sys.modules["torch"].empty_strided, (96, 80), (80, 1))
    assert keywords == {"dtype": "torch.float32", "device": arrays["a"].device}
    assert out(96, 80, 64, 64, 80, 0, 80)[2] is None
    in_place = engine.plan(find("warptiled"), find("warptiled").config(), Problem(96, 80, 64))
    assert on_gpu._of_other_sizes(lambda *_: in_place, None)(96, 80, 64, 64, 80, 0, 80) is None


def test_calls_whose_other_sizes_the_launcher_does_not_plan(engine):
    call, _ = call_of((256, 128, 64))
    planned = on_gpu.planned_call_of(call)
    assert on_gpu._has_others(call, planned)
    assert not on_gpu._has_others(call._replace(scalars=Scalars(0.0, 1.0)), planned)
    assert not on_gpu._has_others(call._replace(prepared=object()), planned)
    assert not on_gpu._has_others(call, planned._replace(form=planned.form._replace(batch=(2,))))


@pytest.mark.parametrize(("precision", "most"), [(None, 124), ("ieee", 157)])
def test_other_sizes_are_planned_quickly(engine, precision, most):
    """By the calls it makes, as in test_matmul.py: what `tilewright.plan` does besides is not done."""
    call, _ = call_of((1016, 1000, 1024), precision=precision)
    plan = planner(call, on_gpu.planned_call_of(call))
    plan(1012, 1004, 1020, 1020, 1004, 0, 0)
    profile = cProfile.Profile()
    profile.runcall(plan, 1000, 1004, 1008, 1008, 1004, 0, 0)
    # pstats counts functions of one name and line once, as tuples' constructors are, whichever comes last.
    assert 60 < sum(entry.callcount for entry in profile.getstats()) < most
