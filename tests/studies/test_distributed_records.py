"""Records of products of several GPUs, and of those that a GPU does not hold."""

import re
import signal
import subprocess
from argparse import Namespace

import pytest

pytest.importorskip("torch.distributed.tensor")

from studies import runner
from studies.record import Measurements
from studies.scaling import __main__ as command
from studies.scaling import measuring, out_of_core, page, records
from studies.scaling.records import OURS, PRODUCT, SCHEMES
from tilewright.core.errors import LaunchError
from tilewright.emulator.engine import EmulatorEngine
from tilewright.tools.bench.records import Times


def ways(scheme="all_gather_matmul", work="64x64x64", memory="", **us):
    """Measurements of a work in float32 on two GPUs: of ours, and of ways by their names."""
    times = {name: Times(min=of - 1, median=of) for name, of in {OURS: 10.0, **us}.items()}
    return records.measurements(scheme, 2, work, "float32", times, 1e-7, memory)


ALONE = {PRODUCT: 9.0}
PEERS = {"PyTorch fused": 12.0, "NCCL, then product": 15.0}


def test_parts_that_are_done_alone_are_no_peers():
    others = [PRODUCT, "tilewright, with A", "PyTorch's product alone", "copies alone, both ways at once"]
    assert [name for name in (OURS, *others, *PEERS, "PyTorch on one GPU") if records.is_peer(name)] == [
        *PEERS, "PyTorch on one GPU"
    ]  # fmt: skip


def test_cases_cover_every_scheme():
    names = [one.name for one in measuring.cases(measuring.H200, 2)]
    assert {name.partition(":")[0] for name in names} == set(SCHEMES)
    assert len(set(names)) == len(names)
    assert "split:16384x16384x16384:float32" in names


def test_ways_take_turns():
    ran = []
    works = {name: lambda name=name: ran.append(name) for name in ("own", "product")}
    found = measuring.times(measuring.SMALL._replace(samples=3), works)
    assert [one.samples for one in found.values()] == [3, 3]
    assert ran[-2:] == ["own", "product"]


def test_a_product_out_of_core_is_measured():
    (ours,) = out_of_core.measure(out_of_core.SMALL[0], "emulator", 1)
    assert (ours.what["scheme"], ours.what["memory"], ours.way) == ("out_of_core", "not pinned", OURS)
    assert ours.facts["memory_limit"] == 20_000 and ours.error < 1e-6
    assert ours.facts["moved_bytes"] > 4 * (96 * 64 + 64 * 80 + 96 * 80)


def test_cases_run_in_processes_of_their_own_and_one_that_fails_stops_no_other(monkeypatch):
    started = []

    def start(given, ranks, timeout):
        started.append((given[1], len(ranks)))
        if "link" in given[1]:
            raise LaunchError("did not end within 3 s")
        return ways("out_of_core")

    monkeypatch.setattr(command, "in_processes", start)
    given = {"devices": 2, "only": ["link", "pinned", "block:float32"], "skip": [], "timeout": 3}
    found = []
    with pytest.raises(LaunchError, match=r"^out_of_core:link: did not end within 3 s$"):
        found.extend(command.measurements(Namespace(name="cuda"), **given))
    assert started == [("block:float32", 2), ("out_of_core:link", 1), ("out_of_core:pinned", 1)]
    assert len(found) == 2


def test_no_process_is_left_of_ranks_that_hang(monkeypatch, tmp_path, capsys):
    started = []

    class Hanging(subprocess.Popen):
        def __init__(self, command, **named):
            super().__init__(["sleep", "9"], **named)
            started.append(self)

    monkeypatch.setattr(runner.subprocess, "Popen", Hanging)
    arguments = ["measure", "--out", str(tmp_path / "d.json"), "--engine", "emulator", "--only", "block", "--timeout"]
    given = {"options": command.options, "arguments": [*arguments, "0.01"]}
    assert runner.run("scaling", "", command.measurements, **given) == LaunchError.status
    said = "; ".join(f"block:{dtype}: did not end within 0.01 s" for dtype in ("bfloat16", "float32"))
    assert f"error: {said}" in capsys.readouterr().err
    assert len(started) == 4  # two ranks of each
    assert {one.returncode for one in started} == {-signal.SIGKILL}


@pytest.mark.further
def test_ranks_measure_on_the_cpu(tmp_path):
    one = ["reduce_scatter:64x64x64:float32"]
    found = list(command.measurements(EmulatorEngine(), devices=2, only=one, skip=[], timeout=100))
    assert [one.way for one in found][:3] == [OURS, PRODUCT, "NCCL, then product"]
    assert found[0].error < 1e-6 and found[0].what["devices"] == 2 and "torch" in found[0].facts


def test_a_page_shows_what_was_measured():
    gpu = {"name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0"}
    facts = {"gpu": gpu, "date": "2026-11-25T01:00:00", "revision": "abc1234"}
    moved = ways("out_of_core", memory="pinned", **ALONE, **{"copies alone": 6.0})
    found = [
        *ways(work="8192x8192x8192", **ALONE, **PEERS),
        *ways("split", "8192x8192x8192", **ALONE),
        *ways("block"),
        *moved,
    ]
    other = Measurements(environment=facts | {"revision": "def5678"}, measurements=moved)
    shown, of_other = page.measured([Measurements(environment=facts, measurements=found), other]).split(
        "\n\nOn GPUs of "
    )
    first, *_, full, divided, bare, moved = shown.splitlines()
    assert "float32, pinned | 10 | 9 | 0.90 |  | copies alone 6 |  |" in moved and of_other.endswith(moved)
    assert first == "On GPUs of the kind NVIDIA H100 80GB HBM3, 2026-11-25, revision abc1234:"
    start, predicted, rest = re.fullmatch(r"(.*) \| (0\.\d\d) \| (PyTorch.*)", full).groups()
    assert start.endswith("| 10 | 9 | 0.90") and rest == "PyTorch fused 12; NCCL, then product 15 | 1.20 |"
    assert 0.8 < float(predicted) < 1
    assert 1.5 < float(re.search(r"\| 0\.90 \| (1\.\d\d) \|  \|  \|$", divided)[1]) < 2
    assert bare.endswith("| 10 |  |  |  |  |  |")
