"""How long replays are made: with a stand-in for a GPU's clock."""

import itertools
from types import SimpleNamespace

import pytest

from tilewright.runtime import cuda


def test_a_run_that_was_held_up_does_not_make_a_replay_of_few_launches(monkeypatch):
    monkeypatch.setattr(cuda, "WARM_UP_S", 0.01)
    taken = itertools.chain([0.006, 0.004, 0.005], itertools.repeat(25.0))
    engine = SimpleNamespace(stream=None, _elapsed_ms=lambda start_work: next(taken))
    assert cuda.CudaEngine._warm_up(engine, [lambda index, stream: None]) == [pytest.approx(0.004)]
