"""One product on several GPUs: what each computes. That GPUs do it: tests/gpu/test_distributed_gpu.py."""

import sys
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")

import tilewright  # noqa: E402
from stand_ins import NumPyEngine  # noqa: E402
from tilewright.calls import Call, Request  # noqa: E402
from tilewright.errors import EngineUnavailableError, ProblemError  # noqa: E402
from tilewright.problem import Scalars  # noqa: E402
from tilewright.torch import split  # noqa: E402

registry = sys.modules["tilewright.engines.registry"]
SETTINGS = {"alpha": 1.0, "beta": 2.0, "activation": None, "precision": None, "kernel": None, "config": None}


def operands(m, n, k, side=None, with_c=True):
    bias = {None: None, "row": torch.randn(n), "column": torch.randn(m, 1)}[side]
    c = torch.randn(m, n) if with_c else None
    return split._Operands(torch.randn(m, k), torch.randn(k, n), c, torch.empty(m, n), bias, side)


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
    request = Request.of(None, None, None, None, None, engine)
    return Call.read(request, {"a": a, "b": a, "c": None, "out": None, "bias": None}, Scalars())._replace(engine=engine)


@pytest.mark.parametrize("size", [1000, 4096, 16384, 65536])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_gpus_end_at_the_same_time(size, count):
    engine = NumPyEngine((9, 0))
    engine.device_name = "NVIDIA H200"
    call = call_of(engine)
    meta = split._Operands(*(torch.empty(size, size, device="meta") for _ in "ab"), None, None, None, None)
    bounds = split.shares_of(call, meta, count).bounds
    assert bounds[0] == 0 and bounds[-1] == size and len(bounds) == count + 1
    heights = [end - begin for begin, end in pairwise(bounds)]
    assert heights[0] == max(heights)
    assert all(begin % 128 == 0 or begin == size for begin in bounds)

    def taken_us(rows, cols):
        return split._expected_us(call.arithmetic, None, ((9, 0), "NVIDIA H200"), size, rows, cols)

    def others_us(home):
        each = -(-(size - home) // (128 * (count - 1))) * 128
        return split._end_us(call.arithmetic, taken_us, (each, size, size), False, count - 1)

    if count > 1:
        assert taken_us(heights[0], size) >= others_us(heights[0])
        if heights[0] > -(-size // (128 * count)) * 128:
            assert taken_us(heights[0] - 128, size) < others_us(heights[0] - 128)


def test_gpus_that_nobody_knows_have_equal_shares():
    call = call_of(NumPyEngine((1, 0)))
    meta = split._Operands(*(torch.empty(1024, 1024, device="meta") for _ in "ab"), None, None, None, None)
    assert split.shares_of(call, meta, 4).bounds == (0, 256, 512, 768, 1024)


@pytest.mark.parametrize("item", [2, 4])
def test_blocks_cover_a_share(item):
    for length in (0, 1, 1500, 2048, 5000, 8064, 70_000):
        blocks = split._blocks(length, item)
        assert [one.start for one in blocks[1:]] == [one.stop for one in blocks[:-1]]
        assert not blocks or (blocks[0].start, blocks[-1].stop) == (0, length)
        assert all(one.start % 128 == 0 and one.stop - one.start <= 1.5 * 1024 * item for one in blocks)


@pytest.mark.parametrize(("m", "n"), [(0, 500), (500, 0), (700, 800), (9000, 1000), (1000, 9000), (20_000, 12_000)])
def test_pieces_make_a_share_of_what_has_come(m, n):
    made, came = torch.zeros(m, n, dtype=torch.int8), {"a": [], "b": []}
    for piece in split.pieces(split._blocks(m, 4), split._blocks(n, 4)):
        for side, block in piece.loads:
            assert block.start == (came[side][-1].stop if came[side] else 0)  # each once, in order
            came[side].append(block)
        assert piece.rows.stop <= came["a"][-1].stop and piece.cols.stop <= came["b"][-1].stop
        made[piece.rows, piece.cols] += 1
    assert bool((made == 1).all())


def test_matrices_are_copied_as_they_lie():
    square = torch.randn(6, 6)
    for matrix, by_columns in ((square, False), (square.T, True), (square[:, 1:4], False), (square[::2, ::2], False)):
        assert split._by_columns(matrix) == by_columns
        assert split._is_dense(split._dense(matrix, by_columns))
        assert split._dense(matrix, by_columns).equal(matrix)
        assert split._by_columns(split._dense(matrix, True)) and split._dense(matrix, True).equal(matrix)


def test_gpus_that_cannot_be_reached_are_named(monkeypatch):
    monkeypatch.setattr(registry, "cuda_unavailable", lambda: None)
    driver = pytest.importorskip("tilewright.engines.driver")
    monkeypatch.setattr(driver, "unavailable", lambda one=0: None if one < 2 else f"there is no GPU {one}")
    monkeypatch.setattr(driver, "gpu_count", lambda: 2)
    assert registry.gpus_named("all") == (0, 1)
    assert registry.gpus_named([1, 0]) == (1, 0)
    with pytest.raises(EngineUnavailableError, match=r"GPU 3 of devices=\[0, 3\] cannot be reached: there is no GPU 3"):
        registry.gpus_named([0, 3])
    for wrong in ("cuda", [], [0, 0], [0.5], 2):
        with pytest.raises(ProblemError, match="devices must be 'all' or different numbers of GPUs, got"):
            registry.gpus_named(wrong)
    assert tilewright.matmul
