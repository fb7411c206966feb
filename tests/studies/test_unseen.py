"""Shapes drawn to judge the choice of kernels by, and NVIDIA's heuristics next to it."""

import json
import lzma
import math
import sys
from types import SimpleNamespace
from typing import ClassVar

import pytest

from studies.results import path
from studies.unseen import heuristics, judging, picks
from studies.unseen.drawing import EVEN, UNEVEN, Drawn, draw
from studies.unseen.heuristics import ANY, LISTED
from tilewright.core.gpus import find_gpu
from tilewright.core.problem import LAYOUTS, Arithmetic, Problem, orders
from tilewright.kernels import find
from tilewright.kernels.kernel import Choice
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

    capability, device_name = (9, 0), "NVIDIA H200"

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


SM90, SKINNY = heuristics.KERNEL, find("skinny")
PLAIN, PINGPONG, TALL = (
    SM90.config(
        {"BM": bm, "BN": 64, "STAGES": stages, "PINGPONG": pingpong, "CONSUMERS": 2 - (bm == 64 and not pingpong)}
    )
    for bm, stages, pingpong in ((64, 14, 0), (64, 7, 1), (128, 7, 0))
)


def surveyed(m, times, n=256, k=512):
    """A problem with microseconds by config of gemm_sm90; skinny, which takes no part, is always fastest."""
    a, b = orders("NT")
    us = {Choice(SKINNY, SKINNY.config()): 0.5} | {Choice(SM90, config): us for config, us in times.items()}
    return survey.Surveyed(Problem(m, n, k, Arithmetic("bfloat16", "bfloat16"), a=a, b=b), us, {}, {})


def test_picks_of_others_are_counted_and_timed_where_the_portfolio_has_them():
    even = [surveyed(8 * size, {PLAIN: 6.0, PINGPONG: 4.0, TALL: 5.0}) for size in (1, 2, 3, 4)]
    slow, uneven = surveyed(40, {TALL: 8.0}), surveyed(33, {PLAIN: 3.0, TALL: 2.0})
    heuristic = {8: (64, 64, 1, 1, 1), 16: (128, 64, 1, 1, 1), 24: (64, 64, 1, 1, 2), 32: (64, 64, 4, 1, 1)}
    heuristic |= {40: (64, 64, 1, 1, 1), 33: (64, 64, 1, 1, 1)}
    problems = [*even, slow, uneven]
    lines = list(heuristics.compared(problems, [TALL] * 6, {"standing in": lambda problem: heuristic[problem.m]}))
    assert lines[0]["theirs"] == {"standing in": ((64, 64, 1, 1, 1), 4.0)}, "of two configs, the faster"
    assert lines[4]["theirs"]["standing in"][1] is None, "not timed"
    head = {"shapes": [heuristics.shape_of(one) for one in (PLAIN, PINGPONG, TALL)]}
    first, second = heuristics.rows(json.loads(json.dumps([head, *lines])))
    assert (first["kind"], first["problems"], first["same"], first["timed"]) == (EVEN, 5, [5, 4, 3], 2)
    assert first["regrets"][0] == pytest.approx((1.25**0.5, 1 + 0.95 * 0.25))
    assert first["regrets"][1] == pytest.approx((1.25, 1.25))
    assert (second["kind"], second["problems"], second["timed"]) == (UNEVEN, 1, 1)
    assert second["regrets"][0] == pytest.approx((1.5, 1.5)) and second["regrets"][1] == pytest.approx((1, 1))


def test_our_picks_are_of_models_that_have_not_seen_the_problem(monkeypatch):
    problems = [surveyed(size, {PLAIN: 1.0, TALL: 2.0}) for size in range(1, 41)]
    fits = []

    def fit(some, gpu):
        fits.append({one.problem.m for one in some})
        configs = [SimpleNamespace(kernel=kernel, config=config) for kernel, config in problems[0].us]
        return SimpleNamespace(configs=configs, correction=None)

    class Seen:
        """Expects skinny to be fastest, and the tall tile to be slow on problems that it was fitted to."""

        def __init__(self, *_):
            self.fitted = fits[-1]

        def us(self, sizes):
            return [0.5, 1.0, 9.0 if sizes.m in self.fitted else 0.9]

    monkeypatch.setattr(heuristics, "fit", fit)
    monkeypatch.setattr(heuristics, "Models", Seen)
    assert heuristics.ours(problems, find_gpu("NVIDIA H200", (9, 0))) == [TALL] * 40
    assert len(fits) == heuristics.FOLDS and sum(map(len, fits)) == 40 * (heuristics.FOLDS - 1)


class Library:
    """Stands for nvMatmulHeuristics: its best fits in the order of CONFIGS, the first that the check allows."""

    CONFIGS = (([256, 128, 64], [1, 2], 1), ([64, 64, 64], [1, 1], 3))
    NvMatmulHeuristicsTarget = SimpleNamespace(CUTLASS3=4)
    NvMatmulHeuristicsNvidiaGpu = SimpleNamespace(H200_SXM=9003)
    NvMatmulHeuristicsBackendPropertyCallbackKind = SimpleNamespace(KERNEL_ADDITIONAL_VALIDITY_CHECK=0)
    NvMatmulHeuristicsFlags = SimpleNamespace(
        NONE=SimpleNamespace(name="NONE"), PERF_MODEL_BASED_AUTO_TUNING=SimpleNamespace(name="TUNING")
    )
    asked: ClassVar = []

    def __init__(self, target, flags, gpu):
        assert (target, gpu) == (4, 9003)
        self.check = lambda *_: 1

    @staticmethod
    def boolsToNvMatmulHeuristicsLayout(a, b):  # noqa: N802 their name
        return "NT"[a] + "NT"[b]

    def createBackend(self, target):  # noqa: N802
        return self

    def setBackendCallbackProperty(self, backend, kind, check):  # noqa: N802
        backend.check = check

    def makeNvMatmulHeuristicsProblem(self, *problem):  # noqa: N802
        return problem

    def getEx(self, problem, count, backend, precision):  # noqa: N802
        self.asked.append(problem)
        found = [SimpleNamespace(cta=cta, cluster=cluster, splitK=parts) for cta, cluster, parts in self.CONFIGS]
        allowed = [one for one in found if backend.check(SimpleNamespace(contents=one), None)]
        return [{"nvmmhKernelConfiguration": one} for one in allowed[:count]]


def test_nvidias_library_is_asked_freely_and_for_the_portfolios_tiles(monkeypatch):
    Library.NvMatmulHeuristicsInterfaceEx = Library
    monkeypatch.setitem(sys.modules, "nvMatmulHeuristics", Library)
    asked = heuristics.nvidia([heuristics.shape_of(PLAIN)])
    found = {name: first(surveyed(40, {}).problem) for name, first in asked.items()}
    free, limited = (256, 128, 1, 2, 1), (64, 64, 1, 1, 3)  # the parts of k are its own
    assert found == {
        f"{flag}, {which}": one for flag in ("NONE", "TUNING") for which, one in ((ANY, free), (LISTED, limited))
    }
    assert set(Library.asked) == {(40, 256, 512, "NT", 1)}


def test_the_command_says_what_is_missing_and_replaces_no_other_record(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "nvMatmulHeuristics", None)
    for out, words in (
        (tmp_path / "new", "pip install 'tilewright[heuristics]'"),
        (tmp_path / "old", "something else"),
    ):
        (tmp_path / "old").write_bytes(lzma.compress(b"{}"))
        monkeypatch.setattr(sys, "argv", ["heuristics", "--out", str(out)])
        assert heuristics.main() != 0
        assert words in capsys.readouterr().err
    assert not (tmp_path / "new").exists() and lzma.decompress((tmp_path / "old").read_bytes()) == b"{}"


def test_the_record_has_every_problem_of_the_survey(request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)
    _, *lines = heuristics.read(path("heuristics").read_bytes())
    surveyed = [one for one in heuristics.read(path("surveyed").read_bytes()) if "case" in one]
    assert [(one["case"], one["sizes"]) for one in lines] == [(one["case"], one["sizes"]) for one in surveyed]
