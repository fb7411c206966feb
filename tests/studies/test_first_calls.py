"""Times of first calls: taken with a clock that the calls themselves move on; and on the CPU, with PyTorch's."""

import pytest

from studies.first_calls import measuring as first_calls
from studies.first_calls.measuring import measure
from studies.record import Measurements
from studies.templates import block
from tilewright.core.errors import LaunchError
from tilewright.tools.bench.end_to_end import TorchCalls


class Timed(TorchCalls):
    """Calls that take the time they are said to: first calls of a shape longer than others, and some load code."""

    loads = staticmethod(lambda number: False)
    """Whether the first call of ours for this number of a shape loads code."""

    def __init__(self, torch):
        super().__init__(torch, "cpu", 0)
        self.time, self.loaded, self.shapes, self.waits, self.called = 0.0, 0, [], 0, []

    def wait(self):
        self.waits += 1

    def now(self):
        return self.time

    def ours(self, problem, scalars, choice, prepared=False):
        self.shapes.append((problem.m, problem.n, problem.k))
        return self._bind("ours", 100e-6, 6e-6, self.loads(len(self.shapes)))

    def own(self, problem, scalars):
        return self._bind("own", 20e-6, 15e-6, False)

    def _bind(self, name, first_s, again_s, loads):
        left = [first_s + loads, again_s]

        def call():
            self.called.append(name)
            self.loaded += loads and len(left) == 2
            self.time += left.pop(0)

        return lambda operands, out: call


@pytest.fixture
def torch(monkeypatch):
    monkeypatch.setattr(first_calls, "_SPARE_BYTES", 8)
    return pytest.importorskip("torch", reason="pip install torch")


def times(found):
    """Microseconds of first calls, ours and the framework's, and of second calls."""
    return [round(one.us, 6) for one in found]


def run(calls, shapes, loading, layout="NN"):
    found = measure(calls, "float32", layout, lambda: calls.loaded, shapes=shapes, loading=loading, now=calls.now)
    return list(found)


def test_first_and_second_calls_are_timed_in_turns(torch):
    calls = Timed(torch)
    found = run(calls, shapes=4, loading=3, layout="NT")
    assert {(one.what["case"], one.what["shapes"]) for one in found} == {("NT float32", 4)}
    assert [(one.what["call"], one.way) for one in found] == [
        (call, way) for call in ("first", "second") for way in ("tilewright", calls.name)
    ]
    assert times(found) == [100.0, 20.0, 6.0, 15.0]
    assert calls.called == ["ours", "own"] * 3 + (["ours", "own"] * 2 + ["own", "ours"] * 2) * 2
    assert calls.waits == 4 * 4
    assert len(set(calls.shapes)) == 3 + 4
    assert all(256 <= size <= 4096 and size % 8 == 0 for shape in calls.shapes for size in shape)


def test_calls_that_load_code_do_not_count(torch):
    calls = Timed(torch)
    calls.loads = lambda number: number % 2 == 0
    found = run(calls, shapes=4, loading=4)
    assert times(found)[:2] == [100.0, 20.0]
    assert calls.loaded == len(calls.shapes) // 2 == 5
    calls.loads = lambda number: True
    with pytest.raises(LaunchError, match="of 16 calls only 0 loaded no code, after 1 others"):
        run(calls, shapes=4, loading=1)


@pytest.mark.parametrize("layout", ["NN", "NT"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_calls_of_pytorch_and_ours(torch, monkeypatch, dtype, layout):
    monkeypatch.setattr(first_calls, "SMALLEST", 8)
    calls = TorchCalls(torch, "cpu", 0)
    found = list(measure(calls, dtype, layout, lambda: 0, shapes=3, loading=1, largest=64))
    assert {(one.what["smallest"], one.what["largest"]) for one in found} == {(8, 64)}
    assert found[0].what["case"] == (f"{layout} float32" if dtype == "float32" else f"{layout} bfloat16->bfloat16")
    assert min(times(found)) > 0


def test_a_run_is_shown(torch):
    calls = Timed(torch)
    environment = {"gpu": {"name": "NVIDIA X"}, "date": "2026-11-24T09:47:14+00:00", "revision": "abc1234"}
    whole = Measurements(environment=environment, measurements=[*run(calls, 2, 0), *run(calls, 2, 0, "NT")])
    text = block("first_calls/table.md.j2", "table", run=whole)
    assert f"in the median of 2 products with sizes drawn from 256 to 4096, next to {calls.name} (NVIDIA X, " in text
    assert "(NVIDIA X, 2026-11-24, revision abc1234)." in text
    assert text.splitlines()[-2:] == [
        "| NN float32 | 100.0 | 20.0 | 6.0 | 15.0 |",
        "| NT float32 | 100.0 | 20.0 | 6.0 | 15.0 |",
    ]
