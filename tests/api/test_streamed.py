"""Products of arrays on the host that an engine's memory does not hold."""

import re
from importlib import import_module

import ml_dtypes
import numpy as np
import pytest

import tilewright
from stand_ins import NumPyEngine
from tilewright.api.arrays.libraries import library_of
from tilewright.api.call import Call
from tilewright.api.request import Request
from tilewright.core.errors import ArrayError, EngineUnavailableError, ProblemError

LIMIT = 60_000
calls, on_host, streamed, tiles = (
    import_module(f"tilewright.api.{name}")
    for name in ("call", "out_of_core.host", "out_of_core.streamed", "out_of_core.tiles")
)


@pytest.fixture(autouse=True)
def _nothing_is_small(monkeypatch):
    monkeypatch.setattr(tiles, "SMALL_BYTES", 0)
    monkeypatch.setattr(on_host, "SMALL_BYTES", 0)
    tiles.tiling.cache_clear()
    yield
    tiles.tiling.cache_clear()


def draw(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng([seed, *shape]).uniform(-1, 1, shape).astype(dtype)


def check(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol=tolerance, atol=20 * tolerance)


def product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


LAYOUTS = {
    "rows": lambda a: a,
    "columns": lambda a: np.asfortranarray(a),
    "gaps": lambda a: np.repeat(np.repeat(a, 2, 0), 2, 1)[::2, ::2],
    "wide rows": lambda a: np.concatenate([a, a], 1)[:, : a.shape[1]],
    "reversed": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
}


@pytest.mark.first(7)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(300, 200, 100), (64, 64, 5000), (1000, 8, 16), (7, 900, 40)], ids=str)
def test_products_larger_than_the_memory(layout, shape):
    m, n, k = shape
    make = LAYOUTS[layout]
    engine = NumPyEngine(None)
    a, b, c = make(draw(m, k)), make(draw(k, n, seed=1)), make(draw(m, n, seed=2))
    out = (
        make(np.full((m, n), np.nan, np.float32))
        if layout != "gaps"
        else np.full((m, 2 * n), np.nan, np.float32)[:, ::2]
    )
    found = tilewright.matmul(a, b, c=c, alpha=2, beta=0.5, out=out, engine=engine, memory_limit=LIMIT)
    assert found is out
    check(out, 2 * product(a, b) + 0.5 * c, 1e-4)
    assert 0 < engine.allocated_bytes <= LIMIT
    assert len(engine.started) > 1


@pytest.mark.parametrize("side", ["row", "column"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=lambda one: one.__name__)
@pytest.mark.parametrize("shape", [(300, 200, 100), (64, 64, 3000)], ids=str)
def test_epilogues_and_types(side, dtype, shape):
    m, n, k = shape
    a, b, c = draw(m, k, dtype=dtype), draw(k, n, dtype=dtype, seed=1), draw(m, n, dtype=dtype, seed=2)
    bias = draw(n, dtype=dtype) if side == "row" else draw(m, 1, dtype=dtype)
    engine = NumPyEngine((9, 0))
    found = tilewright.matmul(a, b, c=c, beta=0.5, bias=bias, activation="relu", engine=engine, memory_limit=2 * LIMIT)
    expected = np.maximum(product(a, b) + 0.5 * c.astype(float) + bias.astype(float), 0)
    check(found, expected, 1e-4 if dtype == np.float32 else 2e-2)
    assert len(engine.started) > 1


def test_sums_of_several_parts_of_k_are_float32():
    a, b = draw(16, 40_000, dtype=np.float16), draw(40_000, 16, dtype=np.float16, seed=1)
    found = tilewright.matmul(a, b, engine=NumPyEngine((9, 0)), memory_limit=30_000)
    exact = product(a, b)
    assert np.abs(found - exact).max() <= 0.6 * np.spacing(np.abs(exact).max().astype(np.float16))


def test_rows_alone_are_cut_where_a_row_is_to_have_the_same_bits():
    a, b = draw(300, 90), draw(90, 50, seed=1)
    engine = NumPyEngine((9, 0))
    tilewright.matmul(a, b, engine=engine, batch_invariant=True, memory_limit=2 * LIMIT)
    assert {(plan.problem.n, plan.problem.k) for plan in engine.planned} == {(50, 90)}
    assert len(engine.started) > 1
    with pytest.raises(ProblemError, match="memory_limit must be at least"):
        tilewright.matmul(a, b, engine=engine, batch_invariant=True, memory_limit=10_000)


def test_on_the_emulator():
    a, b, bias = draw(70, 90), draw(90, 50, seed=1), draw(50)
    found = tilewright.matmul(a, b, bias=bias, activation="relu", engine="emulator", memory_limit=20_000)
    check(found, np.maximum(product(a, b) + bias, 0))
    found = tilewright.matmul(a, b, c=draw(70, 50), beta=2, kernel="vectorized", memory_limit=20_000, engine="emulator")
    check(found, product(a, b) + 2 * draw(70, 50))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((6, 50, 40), (40, 30)),
        ((6, 50, 40), (6, 40, 30)),
        ((2, 1, 50, 40), (3, 40, 30)),
        ((40,), (40, 300)),
        ((40,), (40,)),
    ],
    ids=str,
)
def test_batches_and_vectors(a, b):
    a, b = draw(*a), draw(*b, seed=1)
    engine = NumPyEngine(None)
    found = tilewright.matmul(a, b, engine=engine, memory_limit=9000)
    check(found, np.matmul(a.astype(float), b))
    assert found.shape == np.matmul(a, b).shape


def test_nothing_is_multiplied_where_alpha_is_0():
    c = draw(300, 200)
    engine = NumPyEngine(None)
    found = tilewright.matmul(
        np.full((300, 90), np.nan, np.float32), draw(90, 200), c=c, alpha=0, beta=3, engine=engine, memory_limit=LIMIT
    )
    check(found, 3 * c)


def test_only_what_has_to_be_is_moved():
    a, b = draw(512, 64), draw(64, 512, seed=1)
    engine = NumPyEngine(None)
    tilewright.matmul(a, b, engine=engine, memory_limit=400_000)
    assert engine.loaded_bytes == a.nbytes + b.nbytes


class Interrupted(NumPyEngine):
    """Somebody presses Ctrl-C in the middle."""

    def start(self, *arguments, **keywords):
        if len(self.started) == self.planned_steps * 2 // 3:
            raise KeyboardInterrupt
        super().start(*arguments, **keywords)


class Slow(Interrupted):
    """Tiles are stored when they are awaited."""

    unstored = 0

    def store(self, array, pointer, after):
        stored = super().store(array, pointer, after)
        self.unstored += 1

        def wait():
            stored()
            self.unstored -= 1

        return wait


def test_nothing_is_on_its_way_to_the_result_behind_an_interrupt():
    engine = Slow(None)
    engine.planned_steps = len(tiles.tiling(tiles.Sizes(300, 200, 100, 4, 4, 4), LIMIT).steps)
    with pytest.raises(KeyboardInterrupt):
        tilewright.matmul(draw(300, 100), draw(100, 200, seed=1), engine=engine, memory_limit=LIMIT)
    assert engine.unstored == 0
    assert engine.synchronized > 0


def test_an_interrupted_product_says_which_rows_are_done(tmp_path):
    a, b = draw(300, 100), draw(100, 200, seed=1)
    out = np.memmap(tmp_path / "out", np.float32, "w+", shape=(300, 200))
    engine = Interrupted(None)
    engine.planned_steps = len(tiles.tiling(tiles.Sizes(300, 200, 100, 4, 4, 4), LIMIT).steps)
    with pytest.raises(KeyboardInterrupt) as error:
        tilewright.matmul(a, b, out=out, engine=engine, memory_limit=LIMIT)
    if not hasattr(error.value, "__notes__"):
        return  # Python 3.10
    (note,) = error.value.__notes__
    spans = [tuple(map(int, span)) for span in re.findall(r"(\d+) to (\d+)", note)]
    assert spans and sum(last - first + 1 for first, last in spans) < 300
    written = np.fromfile(tmp_path / "out", np.float32).reshape(300, 200)
    for first, last in spans:
        check(written[first : last + 1], product(a[first : last + 1], b))


def test_a_memmap_is_written_to_its_file(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(np.memmap, "flush", lambda array: flushed.append(array))
    a, b = draw(300, 100), draw(100, 200, seed=1)
    a.tofile(tmp_path / "a")
    mapped = np.memmap(tmp_path / "a", np.float32, "r", shape=(300, 100))
    out = np.memmap(tmp_path / "out", np.float32, "w+", shape=(300, 200))
    assert tilewright.matmul(mapped, b, out=out, engine=NumPyEngine(None), memory_limit=LIMIT) is out
    assert [one is out for one in flushed] == [True]
    check(np.fromfile(tmp_path / "out", np.float32).reshape(300, 200), product(a, b))


def test_several_engines_divide_the_rows():
    a, b, c, bias = draw(700, 60), draw(60, 90, seed=1), draw(700, 90), draw(700, 1)
    engines = [NumPyEngine(None), NumPyEngine(None), NumPyEngine(None)]
    request = Request(engine=engines[0])
    arrays = {"a": a, "b": b, "c": c, "out": None, "bias": bias}
    call = Call.read(request, library_of("a", a), arrays, 1.0, 2.0)
    check(on_host.multiply(call, engines, LIMIT), product(a, b) + 2 * c + bias)
    assert all(engine.started for engine in engines)


def test_a_terminal_shows_how_far_it_is(monkeypatch, capsys):
    monkeypatch.setattr(streamed, "SHOWN_S", 0.0)
    monkeypatch.setattr(streamed, "_in_terminal", lambda: True)
    clock = iter(range(10_000))
    monkeypatch.setattr(streamed.time, "monotonic", lambda: float(next(clock)))
    tilewright.matmul(draw(300, 100), draw(100, 200), engine=NumPyEngine(None), memory_limit=LIMIT)
    assert "tilewright.matmul: 2 of " in capsys.readouterr().err


def test_what_does_not_fit_is_refused(monkeypatch):
    a, b = draw(30, 40), draw(40, 50)
    for limit in (0, -5, 2.5, True):
        with pytest.raises(ProblemError, match="memory_limit must be a number of bytes"):
            tilewright.matmul(a, b, memory_limit=limit, engine=NumPyEngine(None))
    with pytest.raises(ProblemError, match="memory_limit must be at least"):
        tilewright.matmul(a, b, memory_limit=10, engine=NumPyEngine(None))
    with pytest.raises(ArrayError, match="devices divides a product among GPUs: leave engine out"):
        tilewright.matmul(a, b, devices="all", engine="emulator")
    registry = import_module("tilewright.api.engines")
    monkeypatch.setattr(registry, "cuda_unavailable", lambda: "a test says so")
    with pytest.raises(EngineUnavailableError, match=r"devices=\[0, 1\] cannot be used: a test says so"):
        tilewright.matmul(a, b, devices=[0, 1])
