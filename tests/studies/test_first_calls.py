"""Times of first calls: taken with a clock that the calls themselves move on; and on the CPU, with PyTorch's."""

import pytest

from studies.first_calls import measuring as first_calls
from studies.first_calls.measuring import FirstCallsRun, main, measure
from studies.first_calls.tables import markdown
from tilewright.bench.end_to_end import TorchCalls
from tilewright.errors import LaunchError, RecordsError


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


def times(of):
    return round(of.ours, 6), round(of.baseline, 6)


def run(calls, shapes, loading, layout="NN"):
    return measure(calls, "float32", layout, lambda: calls.loaded, shapes=shapes, loading=loading, now=calls.now)


def test_first_and_second_calls_are_timed_in_turns(torch):
    calls = Timed(torch)
    found = run(calls, shapes=4, loading=3, layout="NT")
    assert (found.case, found.framework, found.shapes) == ("NT float32", calls.name, 4)
    assert [times(found.first_us), times(found.again_us)] == [(100.0, 20.0), (6.0, 15.0)]
    assert calls.called == ["ours", "own"] * 3 + (["ours", "own"] * 2 + ["own", "ours"] * 2) * 2
    assert calls.waits == 4 * 4
    assert len(set(calls.shapes)) == 3 + 4
    assert all(256 <= size <= 4096 and size % 8 == 0 for shape in calls.shapes for size in shape)


def test_calls_that_load_code_do_not_count(torch):
    calls = Timed(torch)
    calls.loads = lambda number: number % 2 == 0
    found = run(calls, shapes=4, loading=4)
    assert times(found.first_us) == (100.0, 20.0)
    assert calls.loaded == len(calls.shapes) // 2 == 5
    calls.loads = lambda number: True
    with pytest.raises(LaunchError, match="of 16 calls only 0 loaded no code, after 1 others"):
        run(calls, shapes=4, loading=1)


@pytest.mark.parametrize("layout", ["NN", "NT"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_calls_of_pytorch_and_ours(torch, monkeypatch, dtype, layout):
    monkeypatch.setattr(first_calls, "SMALLEST", 8)
    calls = TorchCalls(torch, "cpu", 0)
    found = measure(calls, dtype, layout, lambda: 0, shapes=3, loading=1, largest=64)
    assert (found.smallest, found.largest) == (8, 64)
    assert found.case == (f"{layout} float32" if dtype == "float32" else f"{layout} bfloat16->bfloat16")
    assert min(*times(found.first_us), *times(found.again_us)) > 0


def test_a_run_is_written_and_shown(torch, tmp_path):
    calls = Timed(torch)
    environment = {"gpu": {"name": "NVIDIA X"}, "date": "2026-11-24T09:47:14+00:00", "revision": "abc1234"}
    whole = FirstCallsRun(environment=environment, first_calls=[run(calls, 2, 0), run(calls, 2, 0, "NT")])
    whole.save(tmp_path / "first_calls.json")
    assert FirstCallsRun.load(tmp_path / "first_calls.json") == whole
    text = markdown(whole)
    assert f"in the median of 2 products with sizes drawn from 256 to 4096, next to {calls.name} (NVIDIA X, " in text
    assert "(NVIDIA X, 2026-11-24, revision abc1234)." in text
    assert text.splitlines()[-2:] == [
        "| NN float32 | 100.0 | 20.0 | 6.0 | 15.0 |",
        "| NT float32 | 100.0 | 20.0 | 6.0 | 15.0 |",
    ]
    (tmp_path / "first_calls.json").write_text("{}")
    with pytest.raises(RecordsError, match="is not a file of records"):
        FirstCallsRun.load(tmp_path / "first_calls.json")


def test_without_a_gpu_it_says_so(monkeypatch, capsys):
    def missing(name):
        raise LaunchError("a test has no GPU")

    monkeypatch.setattr(first_calls, "resolve_engine", missing)
    assert main([]) == LaunchError.status
    assert "a test has no GPU" in capsys.readouterr().err
