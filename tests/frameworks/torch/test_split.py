"""One product on several GPUs: what each computes. That GPUs do it: tests/gpu/test_distributed_gpu.py."""

import contextlib
from importlib import import_module

import pytest

torch = pytest.importorskip("torch")

import tilewright  # noqa: E402
from stand_ins import NumPyEngine  # noqa: E402
from tilewright.api.arrays.libraries import library_of  # noqa: E402
from tilewright.api.call import Call  # noqa: E402
from tilewright.api.request import Request  # noqa: E402
from tilewright.core.errors import EngineUnavailableError, ProblemError  # noqa: E402
from tilewright.frameworks.dividing import Cuts  # noqa: E402
from tilewright.frameworks.torch import multi_gpu as split  # noqa: E402

registry = import_module("tilewright.api.engines")
SETTINGS = {"alpha": 1.0, "beta": 2.0, "activation": None, "precision": None, "kernel": None, "config": None}


def operands(m, n, k, side=None, with_c=True):
    bias = {None: None, "row": torch.randn(n), "column": torch.randn(m, 1)}[side]
    c = torch.randn(m, n) if with_c else None
    return split._SplitOperands(torch.randn(m, k), torch.randn(k, n), c, torch.empty(m, n), bias, side)


@pytest.mark.parametrize("side", [None, "row", "column"])
@pytest.mark.parametrize("with_c", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_parts_make_the_product(side, with_c, transposed):
    whole = operands(40, 30, 20, side, with_c)
    of = whole.transposed if transposed else whole
    for begin, end in ((0, 13), (13, of.a.shape[0])):
        for left, right in ((0, 11), (11, of.b.shape[1])):
            of.part(slice(begin, end), slice(left, right)).multiply(SETTINGS)
    expected = whole.a @ whole.b
    expected = expected if whole.c is None else expected + 2 * whole.c
    torch.testing.assert_close(whole.out, expected if whole.bias is None else expected + whole.bias)


def call_of(engine):
    a = torch.empty(8, 8)
    request = Request(engine=engine)
    arrays = {"a": a, "b": a, "c": None, "out": None, "bias": None}
    return Call.read(request, library_of("a", a), arrays)._replace(engine=engine)


def division(engine, count, *sizes):
    m, n, k = sizes
    meta = split._SplitOperands(
        torch.empty(m, k, device="meta"), torch.empty(k, n, device="meta"), None, None, None, None
    )
    return split.division_of(call_of(engine), meta, count)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_rows_follow_from_what_products_are_expected_to_take(count):
    engine = NumPyEngine((9, 0))
    engine.device_name = "NVIDIA H200"
    found = division(engine, count, 16384, 16384, 16384)

    def taken_us(rows, cols):
        return split._expected_us(call_of(engine).arithmetic, None, ((9, 0), "NVIDIA H200"), 16384, rows, cols)

    assert found.bounds[0] == 0 and found.bounds[-1] == 16384 and len(found.bounds) == count + 1
    assert taken_us(found.bounds[1], 16384) <= found.us <= taken_us(16384, 16384)
    assert found is division(engine, count, 16384, 16384, 16384)


def test_gpus_that_nobody_knows_have_equal_shares():
    assert division(NumPyEngine((1, 0)), 4, 1024, 1024, 1024).bounds == (0, 256, 512, 768, 1024)


class Stream:
    """Work is done when it is started."""

    def record_event(self):
        return None

    def wait_event(self, event):
        pass

    wait_stream = wait_event


@pytest.mark.parametrize("with_c", [False, True])
@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("cuts", [Cuts(8, 2, 8), Cuts(8, 4, 16), Cuts()])
def test_another_gpu_multiplies_what_has_come(monkeypatch, with_c, by_columns, cuts):
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    monkeypatch.setattr(torch.cuda, "stream", contextlib.nullcontext)
    monkeypatch.setattr(split, "_streams", lambda device: (Stream(), Stream(), Stream()))
    monkeypatch.setattr(split, "_like", lambda tensor, device: torch.full_like(tensor, float("nan")))
    monkeypatch.setattr(split, "_copy", lambda target, source, to, of, stream: target.copy_(source))
    whole = operands(90, 130, 20, None, with_c)
    whole = whole.transposed if by_columns else whole
    whole.out.fill_(float("nan"))
    part = whole.part(slice(30, whole.a.shape[0]))
    split._elsewhere(part, cuts, SETTINGS, 0, 1, None)
    torch.testing.assert_close(part.out, part.a @ part.b if part.c is None else part.a @ part.b + 2 * part.c)
    assert bool(whole.out[:30].isnan().all())


def test_matrices_are_copied_as_they_lie():
    square = torch.randn(6, 6)
    for matrix, by_columns in ((square, False), (square.T, True), (square[:, 1:4], False), (square[::2, ::2], False)):
        assert split._by_columns(matrix) == by_columns
        assert split._is_dense(split._dense(matrix, by_columns))
        assert split._dense(matrix, by_columns).equal(matrix)
        assert split._by_columns(split._dense(matrix, True)) and split._dense(matrix, True).equal(matrix)


@pytest.mark.parametrize("reason", [None, "there is no driver"])
def test_what_names_no_gpus_is_said_before_it_is_said_that_there_are_none(monkeypatch, reason):
    monkeypatch.setattr(registry, "cuda_unavailable", lambda: reason)
    for wrong in ("cuda", "al", [], [0, 0], [0.5], [[1]], 2):
        with pytest.raises(ProblemError, match="devices must be 'all' or different numbers of GPUs, got"):
            registry.gpus_named(wrong)


def test_gpus_that_cannot_be_reached_are_named(monkeypatch):
    monkeypatch.setattr(registry, "cuda_unavailable", lambda: None)
    driver = pytest.importorskip("tilewright.runtime.driver")
    monkeypatch.setattr(driver, "unavailable", lambda one=0: None if one < 2 else f"there is no GPU {one}")
    monkeypatch.setattr(driver, "gpu_count", lambda: 2)
    assert registry.gpus_named("all") == (0, 1)
    assert registry.gpus_named([1, 0]) == (1, 0)
    with pytest.raises(EngineUnavailableError, match=r"GPU 3 of devices=\[0, 3\] cannot be reached: there is no GPU 3"):
        registry.gpus_named([0, 3])
    assert tilewright.matmul
