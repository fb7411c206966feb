"""The search, on the emulator: bad configs are recorded and skipped, good ones found, interrupted runs gone on with."""

import contextlib
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import planted
from tilewright.core.errors import EngineUnavailableError, TilewrightError
from tilewright.core.problem import PRECISIONS, Arithmetic, Problem, Scalars
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import KERNELS, LADDER, find
from tilewright.runtime.worker_process import WorkerProcess
from tilewright.tools.bench.end_to_end import Stopwatch
from tilewright.tools.tune import space
from tilewright.tools.tune import worker as worker_module
from tilewright.tools.tune.journal import Journal, read
from tilewright.tools.tune.search import Search, Settings, searchable
from tilewright.tools.tune.worker import Prepare, Worker, _Bench, serve

PROBLEM = Problem(64, 64, 64)
ENGINE = EmulatorEngine()
CONFIGS = space.configs(planted.KERNEL, None)
HANGING = """
import multiprocessing, threading, time, planted
from tilewright.core.problem import PRECISIONS, Arithmetic, Problem, Scalars
from tilewright.kernels.kernel import Choice
from tilewright.tools.tune.worker import Worker
from tilewright.tools.tune.worker import TuneJob

if __name__ == "__main__":
    with Worker("emulator", deadline_s=600.0) as worker:
        choice = Choice(planted.KERNEL, planted.KERNEL.config({"FAULT": planted.HANGS}))
        job = TuneJob(Problem(16, 16, 16), Scalars(), choice, incumbent=None, samples=1, slack=9.0)
        threading.Thread(target=worker.ask, args=(job,), daemon=True).start()
        while not multiprocessing.active_children():
            time.sleep(0.01)
        print(multiprocessing.active_children()[0].pid, flush=True)
        time.sleep(600)
"""


@pytest.fixture
def worker():
    with Worker("emulator", deadline_s=3.0) as worker:
        yield worker


@pytest.fixture
def timeless(monkeypatch):
    """A worker in this process, whose first samples take 10 us for each time that a config computes."""
    monkeypatch.setattr(_Bench, "_short_sample", lambda bench, plan: 10.0 * plan.config.SLOW)
    return SimpleNamespace(ask=_Bench(ENGINE, PROBLEM, Scalars()).answer)


def search(worker, path, configs=CONFIGS, **settings):
    return Search(ENGINE, worker, Journal(path), PROBLEM, {planted.KERNEL: configs}, Settings(samples=2, **settings))


def test_one_bad_config_never_ends_the_run(worker, tmp_path):
    told = []
    one = search(worker, tmp_path / "journal.jsonl")
    best = one.run(on_trial=lambda progress, trial: told.append((progress.done, trial.outcome)))
    outcomes = {(trial.config["FAULT"], trial.config["SLOW"]): trial for trial in one.trials}
    assert outcomes[planted.RIGHT, 1].outcome in ("timed", "stopped")
    assert outcomes[planted.REFUSED, 1].outcome == "refused"
    assert "does not compile" in outcomes[planted.REFUSED, 1].note
    assert outcomes[planted.WRONG, 1].outcome == "wrong"
    assert re.fullmatch(r"relative error \S+, right up to \S+", outcomes[planted.WRONG, 1].note)
    assert outcomes[planted.HANGS, 1].outcome == "hung"
    assert "3 s" in outcomes[planted.HANGS, 1].note
    assert outcomes[planted.CRASHES, 1].outcome == "crashed"
    assert "SIGSEGV" in outcomes[planted.CRASHES, 1].note
    assert best.outcome == "timed"
    assert (best.config["FAULT"], best.config["SLOW"]) == (planted.RIGHT, 1)
    assert [done for done, _ in told] == list(range(1, len(CONFIGS) + 1))
    assert [trial.outcome for trial in read(tmp_path / "journal.jsonl")] == [outcome for _, outcome in told]

    records = one.final()
    assert records[0].kernel == "planted"
    assert records[0].verified
    assert records[0].baseline.name == "NumPy"
    assert [record.time_us.median for record in records] == sorted(record.time_us.median for record in records)


def test_a_much_slower_config_is_dropped_after_its_first_sample(timeless, tmp_path):
    configs = [planted.KERNEL.config({"SLOW": slow}) for slow in (1, 60)]
    search(timeless, tmp_path / "journal.jsonl", configs[:1]).run()
    one = search(timeless, tmp_path / "journal.jsonl", configs)
    one.run()
    assert [(trial.config["SLOW"], trial.outcome) for trial in one.trials] == [(1, "timed"), (60, "stopped")]
    assert one.trials[1].time_us == 600
    patient = search(timeless, tmp_path / "patient.jsonl", configs, slack=60.0)
    patient.run()
    assert [trial.outcome for trial in patient.trials] == ["timed", "timed"]


def test_what_was_stopped_is_tried_again_where_what_it_was_slower_than_is_not_searched(timeless, tmp_path):
    path = tmp_path / "journal.jsonl"
    fast, slow = (planted.KERNEL.config({"SLOW": slow}) for slow in (1, 60))
    search(timeless, path, [fast]).run()
    search(timeless, path, [fast, slow]).run()
    assert [trial.outcome for trial in read(path)] == ["timed", "stopped"]
    assert search(timeless, path, [fast, slow]).progress.resumed == 2
    assert search(timeless, path, [fast, slow], exhaustive=True).progress.resumed == 1
    alone = search(timeless, path, [slow])
    assert alone.progress.resumed == 0
    alone.run()
    assert [trial.outcome for trial in alone.trials] == ["timed"]
    assert [trial.outcome for trial in search(timeless, path, [fast, slow]).trials] == ["timed", "timed"]


@pytest.mark.parametrize(("run_us", "runs"), [(30.0, 1 + 67), (1.0, 1 + 100), (5000.0, 1)])
def test_a_first_sample_is_of_2_ms_or_100_runs_or_one(monkeypatch, run_us, runs):
    ran = []
    monkeypatch.setattr(worker_module, "work_on", lambda *_: lambda index, stream: ran.append(index))
    stopwatch = Stopwatch(ENGINE.synchronize, now=lambda: len(ran) * run_us * 1e-6)
    monkeypatch.setattr(worker_module, "Stopwatch", lambda wait: stopwatch)
    assert _Bench(ENGINE, PROBLEM, Scalars())._short_sample(None) == pytest.approx(run_us)
    assert len(ran) == runs


def test_an_exhaustive_search_drops_nothing(worker, tmp_path):
    configs = [planted.KERNEL.config({"SLOW": slow}) for slow in (1, 60)]
    one = search(worker, tmp_path / "journal.jsonl", configs, exhaustive=True)
    one.run()
    assert sorted((trial.config["SLOW"], trial.outcome) for trial in one.trials) == [(1, "timed"), (60, "timed")]
    assert all(trial.against is None for trial in one.trials)


def test_a_run_goes_on_from_its_journal(worker, tmp_path):
    path = tmp_path / "journal.jsonl"
    configs = [planted.KERNEL.config({"BLOCK": block}) for block in (8, 16)]
    first = search(worker, path, configs[:1])
    first.run()
    with path.open("a") as file:
        file.write('{"device": "cut o')  # what an interrupted write leaves
    second = search(worker, path, configs)
    assert (second.progress.done, second.progress.resumed) == (1, 1)
    assert second.progress.best == first.trials[0]
    second.run()
    assert [trial.config["BLOCK"] for trial in second.trials] == [8, 16]
    assert second.trials[1].at_s > first.trials[0].at_s
    assert search(worker, path, configs).progress.done == 2


def test_a_run_stops_when_its_budget_is_spent(worker, tmp_path):
    one = search(worker, tmp_path / "journal.jsonl")
    assert one.run(budget_s=0) is None
    assert one.trials == []
    assert one.final() == []


def test_the_likely_best_come_first(worker, tmp_path):
    kernel = find("vectorized")
    configs = space.configs(kernel, None)
    one = Search(ENGINE, worker, Journal(tmp_path / "j"), Problem(4096, 4096, 4096), {kernel: configs}, Settings())
    order = []
    while choice := one._next_to_compile():
        order.append(choice.config)
    assert sorted(map(str, order)) == sorted(map(str, configs))
    threads = [kernel.threads(config) for config in order]
    assert all(64 <= count <= 512 for count in threads[:20])
    assert {8, 16} & {order[0].TM, order[0].TN}, "large thread tiles are the best fed"


def test_kernels_that_cannot_be_picked_are_not_searched():
    names = [kernel.name for kernel in searchable(LADDER, PROBLEM, (7, 5))]
    assert "vectorized" in names
    assert "autotuned" not in names, "it has vectorized's source"
    assert all(find(name).support.precision is None and find(name).support.runs_on((7, 5), "float32") for name in names)
    odd = searchable(LADDER, Problem(63, 63, 63), (9, 0))
    assert "warptiled" in [kernel.name for kernel in odd]
    assert not any(kernel.support.aligned for kernel in odd)
    assert {"tma_packed", "tma_transposed"} <= {kernel.name for kernel in odd}, "one source, but another relayout"


def test_an_engine_that_cannot_be_had_is_an_error(tmp_path):
    with Worker("no such engine", 3.0) as worker:
        one = search(worker, tmp_path / "j", CONFIGS[:1])
        with pytest.raises(EngineUnavailableError, match="no such engine"):
            one.run()


def test_a_worker_whose_parent_is_gone_ends_without_a_word(capfd):
    """Closed with answers unread, which to the other end is an error and not the end of a file."""
    worker = WorkerProcess(serve, "emulator", name="test")
    assert worker.connection.poll(60)
    worker.send(Prepare(PROBLEM))
    worker.connection.close()
    worker._process.join(60)
    assert worker._process.exitcode == 0
    assert capfd.readouterr().err == ""


def test_a_final_that_fails_says_so(worker, tmp_path, monkeypatch):
    one = search(worker, tmp_path / "j", CONFIGS[:1])
    one.run()
    monkeypatch.setattr(worker, "ask", lambda request: "the GPU is gone")
    with pytest.raises(TilewrightError, match="final measurement of 64x64x64 failed: the GPU is gone"):
        one.final()


def test_predictions_are_kept_next_to_measurements(worker, tmp_path):
    one = search(worker, tmp_path / "j", CONFIGS[:1])
    one.run()
    (trial,) = one.trials
    assert 0 < trial.predicted_us < math.inf
    assert trial.gflops == pytest.approx(PROBLEM.gflops(trial.time_us))
    assert 0 < trial.spent_s <= trial.at_s


@pytest.mark.further
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_a_worker_whose_kernel_hangs_ends_with_its_parent(tmp_path):
    script = tmp_path / "tune.py"
    script.write_text(HANGING)
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=paths)
    child = int(parent.stdout.readline())
    try:
        while cpu_seconds(child) < 3:  # starting takes two
            assert parent.poll() is None
            time.sleep(0.1)
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 10
        while cpu_seconds(child) is not None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        parent.kill()
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def cpu_seconds(process):
    """Processor seconds that a process has used so far; None where it has ended."""
    try:
        state, *fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state == "Z" else (int(fields[10]) + int(fields[11])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_search_goes_through_the_kernels_that_keep_the_precision(precision):
    problem = Problem(64, 64, 64, Arithmetic(precision=precision))
    found = {kernel.support.precision for kernel in searchable(KERNELS, problem, (9, 0))}
    assert found == {kernel.support.precision for kernel in KERNELS if kernel.meets(problem.arithmetic.precision)}
