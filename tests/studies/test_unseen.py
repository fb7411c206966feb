"""Shapes drawn to judge the choice of kernels by."""

import math
from types import SimpleNamespace

from studies.unseen import judging, picks
from studies.unseen.drawing import EVEN, UNEVEN, Drawn, draw
from tilewright.core.gpus import find_gpu
from tilewright.core.problem import LAYOUTS
from tilewright.kernels import find
from tilewright.select.selector import expected_us
from tilewright.tools.tune import survey


def test_a_seed_gives_the_same_shapes_everywhere():
    first = draw(1)
    assert first == draw(1) != draw(2)
    assert first[0] == Drawn(EVEN, 40, 3160, 1880, "NT")
    assert first[-1] == Drawn(UNEVEN, 6719, 34, 615, "NN")


def test_shapes_are_spread_over_sizes_and_orders():
    drawn = draw(3)
    assert [one.kind for one in drawn] == [EVEN] * 200 + [UNEVEN] * 200
    for one in drawn:
        even = all(size % 8 == 0 for size in one[1:4])
        assert even == (one.kind == EVEN)
        assert 1e7 < 2 * one.m * one.n * one.k < 3e11
        assert all(16 <= size <= 8192 for size in one[1:4])
    assert {one.layout for one in drawn} == set(LAYOUTS)
    logs = [math.log2(size) for one in drawn for size in one[1:4]]
    assert 8.5 < sum(logs) / len(logs) < 9.5  # evenly drawn over logarithms; products of little work are left out
    assert min(logs) < 4.6 and max(logs) > 12.8


def test_no_shape_is_near_a_surveyed_problem():
    plain = draw(5, shapes=20)
    near = [(round(one.m * 1.05), one.n, round(one.k / 1.05)) for one in plain[::2]]
    far = [(round(one.m * 1.25), one.n, one.k) for one in plain[1::2]]
    again = draw(5, near + far, shapes=20)
    assert not {one[1:4] for one in plain[::2]} & {one[1:4] for one in again}
    assert {one[1:4] for one in plain[1::2] if one.kind == EVEN} <= {one[1:4] for one in again}


class TimedByTheModel:
    """Stands for an engine: a run takes what the model says, and another config's twice as long."""

    capability, device_name = (9, 0), "NVIDIA H100 80GB HBM3"

    def upload(self, array):
        return SimpleNamespace(pointer=0)

    def empty(self, *_):
        return SimpleNamespace(pointer=2**32)

    def plan(self, kernel, config, problem, addresses):
        us = expected_us(kernel, config, problem, find_gpu(self.device_name, self.capability), self.device_name)
        return SimpleNamespace(us=us, needs=SimpleNamespace(scratch_bytes=0))

    def start(self, plan, pointers, scalars, stream):
        self.started = plan.us

    def run_us(self, work):
        work(0, None)
        return self.started + 50

    def record(self, work, launches):
        work(0, None)
        return self.started

    def time_replays(self, replays, samples):
        return [[us] * samples for us, _ in replays]


def test_shapes_are_judged_by_the_picks_the_portfolio_and_pytorch(monkeypatch, tmp_path):
    monkeypatch.setattr(survey, "compiled", lambda engine, job: None)
    monkeypatch.setattr(judging, "others", lambda *_: lambda problem, sets, launches: {"mm": 2 * 10.0})
    engine, shapes = TimedByTheModel(), draw(7, shapes=3)
    before = {picks.key(shapes[0], "bfloat16"): ["gemm_wmma", dict(find("gemm_wmma").config())]}
    judged = judging.judge(engine, shapes, "bfloat16", before, True, 60.0)
    assert {one.drawn for one in judged} == set(shapes)
    for one in judged:
        assert one.of(one.pick) == one.of(one.fastest[0]), "what the model expects is what runs take"
        assert len(one.us[one.pick]) >= 1 + judging.AGAIN
        assert one.torch == 20.0
    lines = list(judging.summary(judged, "all"))
    assert any("regret: mean 1.000" in line for line in lines)
    assert any("over the picks before: 1 shapes" in line for line in lines)
    judging.write(tmp_path / "out.jsonl", {"bfloat16": judged})
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 6
