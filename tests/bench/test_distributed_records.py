"""Records of products of several GPUs, and of those that a GPU does not hold."""

import re
import signal
import subprocess

import pytest

pytest.importorskip("torch.distributed.tensor")

from tilewright.bench import out_of_core
from tilewright.bench.distributed import __main__ as distributed
from tilewright.bench.distributed import measuring
from tilewright.bench.distributed.records import SCHEMES, Failure, Scaling, ScalingRun
from tilewright.bench.records import Times
from tilewright.report import scaling as page


def scaling(**changes):
    fields = {
        "scheme": "all_gather_matmul",
        "devices": 2,
        "what": "64x64x64",
        "dtype": "float32",
        "time_us": Times(min=9, median=10),
        "product_us": Times(min=8, median=9),
        "peers_us": {"PyTorch fused": Times(min=11, median=12), "NCCL, then product": Times(min=14, median=15)},
    }
    return Scaling(**(fields | changes))


def test_a_record_says_how_it_compares():
    record = scaling(moved_bytes=500_000)
    assert (record.of_product, record.of_best_peer, record.link_gb_s) == (0.9, 1.2, 50.0)
    assert "product alone 9 (0.900), PyTorch fused 12" in record.words()
    bare = scaling(product_us=None, peers_us={})
    assert (bare.of_product, bare.of_best_peer, bare.link_gb_s) == (None, None, None)


def test_a_run_is_read_back(tmp_path):
    run = ScalingRun(environment={}, records=[scaling()], failures=[Failure(case="x", words="hangs")])
    run.save(tmp_path / "run.json")
    assert ScalingRun.load(tmp_path / "run.json") == run


def test_cases_cover_every_scheme():
    names = [one.name for one in measuring.cases(measuring.H200, 2)]
    assert {name.partition(":")[0] for name in names} == set(SCHEMES) - {"out_of_core"}
    assert len(set(names)) == len(names)
    assert "split:16384x16384x16384:float32" in names


def test_ways_take_turns():
    ran = []
    works = {name: lambda name=name: ran.append(name) for name in ("own", "product")}
    found = measuring.times(measuring.SMALL._replace(samples=3), works)
    assert [one.samples for one in found.values()] == [3, 3]
    assert ran[-2:] == ["own", "product"]


def test_a_product_out_of_core_is_measured():
    record = out_of_core.measure(out_of_core.SMALL[0], 1, "emulator")
    assert record.scheme == "out_of_core" and record.memory_limit == 20_000
    assert record.moved_bytes > 4 * (96 * 64 + 64 * 80 + 96 * 80)


def test_no_process_is_left_of_ranks_that_hang(monkeypatch, capsys):
    started = []

    class Hanging(subprocess.Popen):
        def __init__(self, command, **named):
            super().__init__(["sleep", "9"], **named)
            started.append(self)

    monkeypatch.setattr(distributed.subprocess, "Popen", Hanging)
    assert distributed.main(["--small", "--timeout", "0.01"]) == 1
    assert capsys.readouterr().out.splitlines() == ["start: did not end within 0.01 s: "] * 2
    assert len(started) == 3  # two ranks, and one process that has all GPUs
    assert {one.returncode for one in started} == {-signal.SIGKILL}


def test_a_page_shows_what_was_measured():
    gpu = {"name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0"}
    facts = {"gpu": gpu, "date": "2026-11-25T01:00:00", "revision": "abc1234"}
    records = [
        scaling(what="8192x8192x8192"),
        scaling(scheme="split", what="8192x8192x8192", peers_us={}),
        scaling(scheme="block", product_us=None, peers_us={}),
        scaling(scheme="out_of_core", pinned=True, peers_us={}, variants_us={"copies alone": Times(min=5, median=6)}),
    ]
    other = ScalingRun(environment=facts | {"revision": "def5678"}, records=records[-1:])
    shown, of_other = page.measured([ScalingRun(environment=facts, records=records), other]).split("\n\nOn GPUs of ")
    first, *_, full, divided, bare, moved = shown.splitlines()
    assert "float32, pinned | 10 | 9 | 0.90 |  | copies alone 6 |  |" in moved and of_other.endswith(moved)
    assert first == "On GPUs of the kind NVIDIA H100 80GB HBM3, 2026-11-25, revision abc1234:"
    start, predicted, rest = re.fullmatch(r"(.*) \| (0\.\d\d) \| (PyTorch.*)", full).groups()
    assert start.endswith("| 10 | 9 | 0.90") and rest == "PyTorch fused 12; NCCL, then product 15 | 1.20 |"
    assert 0.8 < float(predicted) < 1
    assert 1.5 < float(re.search(r"\| 0\.90 \| (1\.\d\d) \|  \|  \|$", divided)[1]) < 2
    assert bare.endswith("| 10 |  |  |  |  |  |")
    assert page.measured([]) == ""
