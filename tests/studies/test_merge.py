"""Tables from records and journals."""

import pytest

from studies.tuning import merge
from tilewright.kernels import find
from tilewright.select.tables.table import Table
from tilewright.tools.bench.records import Baseline, Error, Run, Times
from tilewright.tools.tune.journal import Journal, Trial, source_digest

GPU = {"name": "NVIDIA X", "compute_capability": "8.6"}
CONFIG = {"BLOCK": 32}


@pytest.fixture
def run(tmp_path, make_record):
    def make(name="run.json", gpu=GPU, revision="abc", **changes):
        fields = {"kernel": "coalesced", "rung": 2, "config": CONFIG, "gflops": 100.0} | changes
        environment = {"revision": revision} | ({"gpu": gpu} if gpu else {})
        Run(environment=environment, records=[make_record(**fields)]).save(tmp_path / name)
        return tmp_path / name

    return make


def test_records_become_a_table_and_later_ones_are_added(tmp_path, run, capsys):
    output = tmp_path / "table.json"
    assert merge.main([str(run()), "-o", str(output)]) == 0
    (entry,) = Table.load(output).entries
    assert (entry.kernel, entry.config, entry.gflops, entry.revision) == ("coalesced", CONFIG, 100.0, "abc")
    assert entry.baseline_gflops == 2469.0
    assert merge.main([str(run(gflops=120.0)), str(run("b.json", m=128)), "-o", str(output)]) == 0
    assert [(e.m, e.gflops) for e in Table.load(output).entries] == [(64, 120.0), (128, 100.0)]
    assert "NVIDIA X, 2 problems, 2 entries" in capsys.readouterr().out


@pytest.mark.parametrize(
    "changes",
    [
        {"verified": False, "error": Error(relative_frobenius=None, limit=1e-6)},
        {"engine": "emulator"},
        {"beta": 1.0},
        {"gflops": 0.0, "m": 0},
        {"kernel": "none of the ladder"},
    ],
)
def test_what_says_nothing_of_a_plain_product_on_a_gpu_is_left_out(tmp_path, run, changes):
    _, table = merge.merge([run(**changes)], tmp_path / "table.json")
    assert table.entries == ()


def test_errors_are_kept_next_to_the_baselines(tmp_path, run):
    baseline = Baseline(name="cuBLAS", version="13", time_us=Times(min=1, median=1), gflops=1, error=2e-7)
    _, table = merge.merge(
        [run(error=Error(relative_frobenius=3e-7, limit=1e-6), baseline=baseline)], tmp_path / "t.json"
    )
    assert table.entries[0].error_ratio == pytest.approx(1.5)


def test_what_follows_other_work_counts_as_much_as_what_is_back_to_back(tmp_path, run):
    baseline = Baseline(
        name="cuBLAS",
        version="13",
        time_us=Times(min=9, median=10),
        after_other_work_us=Times(min=9, median=30),
        gflops=200,
    )
    times = {"time_us": Times(min=9, median=10), "after_other_work_us": Times(min=9, median=15)}
    _, table = merge.merge([run(gflops=100, baseline=baseline, **times)], tmp_path / "table.json")
    assert (table.entries[0].gflops, table.entries[0].baseline_gflops) == (pytest.approx(80), pytest.approx(100))


def test_where_a_kernel_was_timed_both_ways_its_times_back_to_back_alone_do_not_count(tmp_path, run):
    both = {"time_us": Times(min=9, median=10), "after_other_work_us": Times(min=9, median=15)}
    files = [run("both.json", gflops=100, **both), run("before.json", gflops=99, config={**CONFIG, "BLOCK": 16})]
    others = [
        run("other.json", gflops=99, m=65),
        run("kernel.json", gflops=98, kernel="naive", rung=1, config=dict(find("naive").config())),
    ]
    _, table = merge.merge([*files, *others], tmp_path / "table.json")
    found = {(entry.m, round(entry.gflops)) for entry in table.entries}
    assert found == {(64, 80), (65, 99), (64, 98)}, "other kernels have no other times"


def test_what_best_picked_counts_for_what_it_was(tmp_path, run):
    _, table = merge.merge([run(kernel="best", picked="coalesced")], tmp_path / "table.json")
    assert [entry.kernel for entry in table.entries] == ["coalesced"]


def test_a_parameter_that_came_later_has_its_default(tmp_path, run):
    kernel = find("tma_transposed")
    before = {name: value for name, value in kernel.config().items() if name != "COPIED"}
    _, table = merge.merge([run(kernel=kernel.name, config=before)], tmp_path / "table.json")
    assert [entry.config for entry in table.entries] == [dict(kernel.config())]


def test_configs_that_are_one_now_count_as_the_faster_and_those_that_are_gone_do_not(tmp_path, make_record):
    config = {"BM": 16, "BN": 32, "BK": 64, "TM": 4, "TN": 4, "STAGES": 3}
    records = [
        make_record(kernel="split_k", rung=16, config={**config, **others}, gflops=gflops)
        for others, gflops in (
            ({"SLICES": 4, "BLOCKS": 4}, 120.0),
            ({"K_SLICES": 4, "MIN_BLOCKS": 4}, 100.0),
            ({"K_SLICES": 4, "MIN_BLOCKS": 4, "WAVE": 256}, 300.0),
        )
    ]
    (entry,) = merge.of_records(records, None)
    assert (entry.config["K_SLICES"], entry.gflops) == (4, 120.0)


def test_records_keep_their_case(make_record):
    (entry,) = merge.of_records(
        [make_record(kernel="naive", config={}, gflops=1.0, layout="NT", batch=3, bias="row")], "x"
    )
    assert (entry.case, entry.batch) == ("NT float32 bias", 3)


def test_a_journal_gives_the_fastest_of_every_kernel(tmp_path, run):
    journal = Journal(tmp_path / "journal.jsonl")

    def trial(kernel, time_us, **changes):
        fields = {
            "device": "NVIDIA X", "digest": source_digest(find(kernel)), "kernel": kernel,
            "config": dict(find(kernel).config()),
            "m": 256, "n": 256, "k": 256, "case": "NN float32", "outcome": "timed",
        }  # fmt: skip
        journal.append(Trial(time_us=time_us, **(fields | changes)))

    for time_us in range(100, 120):
        trial("vectorized", time_us)
    trial("coalesced", 130)
    trial("coalesced", 140)
    trial("naive", 90, digest="of another source")
    trial("naive", 91, outcome="stopped")
    trial("naive", 92, device="another")
    _, table = merge.merge([run(), journal.path], tmp_path / "table.json")
    found = [(entry.kernel, round(entry.time_us)) for entry in table.entries if entry.m == 256]
    assert found == [("vectorized", 100), ("coalesced", 130)]


def test_files_of_several_gpus_or_of_none_are_refused(tmp_path, run, capsys):
    output = tmp_path / "table.json"
    other = run("other.json", gpu={"name": "NVIDIA Y", "compute_capability": "9.0"})
    assert merge.main([str(run()), str(other), "-o", str(output)]) == 2
    assert "a table is of one GPU" in capsys.readouterr().err
    assert merge.main([str(run(gpu=None)), "-o", str(output)]) == 2
    assert "the records are not of a GPU" in capsys.readouterr().err
    Journal(tmp_path / "empty.jsonl")
    assert merge.main([str(tmp_path / "empty.jsonl"), "-o", str(output)]) == 2
    assert "got none that says which" in capsys.readouterr().err
    assert not output.exists()


def test_a_table_replaces_nothing_else(tmp_path, run, capsys):
    path = run()
    before = path.read_bytes()
    assert merge.main([str(path), "-o", str(path)]) == 2
    assert "--output must name a file of its own" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_precisions_share_a_case_and_the_fastest_of_each_promise_is_kept(tmp_path, run):
    parts = {"kernel": "gemm_fp16x3", "rung": 0, "config": dict(find("gemm_fp16x3").config()), "precision": "fp16x3"}
    tf32 = {"kernel": "wmma_tf32", "rung": 13, "config": dict(find("wmma_tf32").config()), "precision": "tf32"}
    files = [run(), run("parts.json", promise="fp16x3", gflops=900.0, **parts), run("tf32.json", gflops=800.0, **tf32)]
    _, table = merge.merge(files, tmp_path / "table.json")
    assert [(entry.kernel, entry.case) for entry in table.entries] == [
        ("gemm_fp16x3", "NN float32"),
        ("wmma_tf32", "NN float32"),
        ("coalesced", "NN float32"),
    ]
