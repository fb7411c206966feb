"""The autotuner and the selector on a GPU."""

import planted
from tilewright.core.gpus import GPUS, find_gpu
from tilewright.core.problem import Problem
from tilewright.kernels import find
from tilewright.select.selector import select
from tilewright.select.tables import store
from tilewright.select.tables.table import Table
from tilewright.tools.tune import space
from tilewright.tools.tune.journal import Journal
from tilewright.tools.tune.portfolios import survey
from tilewright.tools.tune.search import Search, Settings
from tilewright.tools.tune.worker import Worker


def test_one_bad_config_never_ends_the_run(engine, tmp_path):
    problem = Problem(256, 256, 256)
    spaces = {planted.KERNEL: space.configs(planted.KERNEL, engine.capability)}
    with Worker("cuda", deadline_s=10.0) as worker:
        one = Search(engine, worker, Journal(tmp_path / "j.jsonl"), problem, spaces, Settings(samples=3))
        best = one.run()
        records = one.final()
    outcomes = {trial.config["FAULT"]: trial for trial in one.trials if trial.config["FAULT"] != planted.RIGHT}
    assert outcomes[planted.REFUSED].outcome == "refused"
    assert outcomes[planted.WRONG].outcome == "wrong"
    assert outcomes[planted.HANGS].outcome == "hung"
    assert outcomes[planted.CRASHES].outcome == "failed", outcomes[planted.CRASHES].note
    assert len(one.trials) == len(spaces[planted.KERNEL])
    assert best.outcome == "timed"
    assert best.config["SLOW"] == 1
    assert records[0].verified


def test_the_search_finds_a_config_that_beats_the_default(engine, tmp_path):
    kernel, problem = find("vectorized"), Problem(512, 512, 512)
    configs = space.configs(kernel, engine.capability)
    with Worker("cuda", deadline_s=30.0) as worker:
        one = Search(engine, worker, Journal(tmp_path / "j.jsonl"), problem, {kernel: configs}, Settings(samples=3))
        one.run(budget_s=60.0)
        records = one.final()
    default = [trial for trial in one.trials if kernel.config() == trial.config]
    assert records[0].verified
    assert all(records[0].time_us.median < trial.time_us for trial in default if trial.time_us)
    assert {trial.outcome for trial in one.trials} <= {"timed", "stopped", "unfit"}


def test_a_survey_of_a_minute_writes_models_that_picks_follow(engine, tmp_path, monkeypatch):
    monkeypatch.setenv(store.FOLDER_VARIABLE, str(tmp_path))
    store.forget()
    counts, path = survey(engine, 1.0)
    assert all(counts.values())
    assert path is None or Table.load(path).models
    again, _ = survey(engine, 0.2)
    assert all(again[dtype] >= count for dtype, count in counts.items()), "it goes on"
    store.forget()


def test_the_device_is_a_known_product_or_taken_for_one(engine):
    gpu = find_gpu(engine.device_name, engine.capability)
    if gpu in GPUS:
        assert gpu.multiprocessors == engine.device.properties.multiprocessor_count
        assert gpu.multiprocessor.shared_bytes == engine.device.properties.max_shared_memory_per_multiprocessor
        assert gpu.multiprocessor.threads == engine.device.properties.max_threads_per_multiprocessor
    assert select(Problem(1000, 1000, 1000), engine.capability, engine.device_name)
