"""Tuned tables: their format, their merging, where they lie."""

import json

import numpy as np
import pytest

from tilewright.core.errors import RecordsError
from tilewright.core.problem import PRECISIONS, Arithmetic, Layout, Problem
from tilewright.kernels import find
from tilewright.kernels.support import PROMISES
from tilewright.select.model import TERMS, Fitted
from tilewright.select.tables import store
from tilewright.select.tables.cases import problem_of, types_of
from tilewright.select.tables.entry import Entry
from tilewright.select.tables.table import SurveyModels, Table, config_of, file_name
from tilewright.select.trees import DEPTH, Correction


def entry(gflops=100.0, **changes):
    fields = {"m": 64, "n": 64, "k": 64, "case": "NN float32", "kernel": "coalesced", "config": {"BLOCK": 32}}
    if "kernel" in changes:
        fields["config"] = dict(find(changes["kernel"]).config())
    return Entry(gflops=gflops, **(fields | changes))


WHOLE = (
    '{"format":4,"gpu":"X","capability":[9,0],"runs":[[null,false]],'
    '"kernels":[["coalesced",["BLOCK"],[32]]],"cases":{"NN float32":["8 8 8 1|0 50 40 - 0"]}}'
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(store.FOLDER_VARIABLE, str(tmp_path / "tables"))
    store.forget()
    yield tmp_path / "tables"
    store.forget()


def test_a_table_is_read_back_as_it_was_written(tmp_path):
    entries = (
        entry(error_ratio=0.5),
        entry(m=65, revision="abc", after_other_work=True, case="NT bfloat16->bfloat16 bias+gelu"),
    )
    kernel = find("split_k")
    model = Fitted(kernel, kernel.config(), 2, tuple(map(float, range(len(TERMS)))))
    numbers = np.arange(2.0 * DEPTH).reshape(DEPTH, 2)
    trees = Correction(numbers.astype(int), numbers / 8, np.arange(2.0 * 2**DEPTH).reshape(2, -1) / 1000)
    models = {"float32": SurveyModels([model], trees)}
    table = Table.of("NVIDIA X", (9, 0), entries, models)
    table.save(tmp_path / "x.json")
    read = Table.load(tmp_path / "x.json")
    assert read == table
    assert read.entries == entries
    (fitted,), correction = read.fitted["float32"]
    assert fitted == model
    for name in ("features", "thresholds", "leaves"):
        np.testing.assert_allclose(getattr(correction, name), getattr(trees, name))


def test_the_best_config_of_a_kernel_is_kept_and_newer_entries_replace_those_of_the_same():
    table = Table.of("X", (9, 0), (entry(100), entry(90, config={"BLOCK": 16})))
    assert [one.gflops for one in table.entries] == [100, 90]
    merged = table.merged([entry(80), entry(95, m=128)])
    assert [(e.m, e.config["BLOCK"], e.gflops) for e in merged.entries] == [(64, 16, 90), (128, 32, 95)]


def test_the_best_of_each_order_of_batch_invariant_sums_is_kept():
    tile = {"BM": 64, "STAGES": 14, "GROUP_M": 4, "PINGPONG": 0, "CLUSTER_M": 1, "CLUSTER_N": 1, "CONSUMERS": 1}
    of_all, of_one, slower = (
        entry(gflops=speed, case="NN bfloat16", kernel="gemm_sm90", config={**tile, "BN": bn, "SPLITS": splits})
        for speed, bn, splits in ((300.0, 64, 2), (100.0, 64, 1), (98.0, 32, 1))
    )
    table = Table("NVIDIA X", (9, 0)).merged([slower, of_one, of_all])
    assert [one.gflops for one in table.entries] == [300.0, 100.0]


def test_each_kernels_best_is_kept_and_what_errs_less_comes_before_what_is_faster():
    errs = {"error_ratio": 3.0}
    merged = Table("X", (9, 0)).merged(
        [
            entry(130, **errs),
            entry(100, kernel="naive"),
            entry(80, kernel="vectorized"),
            entry(70, kernel="vectorized", config=dict(find("vectorized").config({"BM": 64}))),
        ]
    )
    assert [(e.kernel, e.gflops) for e in merged.entries] == [("coalesced", 130), ("naive", 100), ("vectorized", 80)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        '{"format":1,"gpu":"X","capability":[9,0],"entries":[]}',
        '{"format":4}',
        '{"format":3,"gpu":"X","capability":[9,0],"entries":[{"m":8}]}',
        WHOLE.replace("[32]", '["32"]'),
        WHOLE.replace("8 8 8 1|", "8 8 1|"),
        WHOLE.replace("8 8 8 1|", "8 -8 8 1|"),
        WHOLE.replace("8 8 8 1|", "8 8 8.5 1|"),
        WHOLE.replace("|0 50", "|1 50"),
        WHOLE.replace("|0 50", "|0.5 50"),
        WHOLE.replace("|0 50", "|0 1e999"),
        WHOLE.replace("|0 50", "|0 0"),
        WHOLE.replace("|0 50", "|0 fast"),
        WHOLE.replace("|0 50", "|50"),
        WHOLE.replace("- 0", "- 7"),
        WHOLE.replace('["8 8', '[8, "8'),
        WHOLE.replace('"cases"', '"models":{"float32":["0 1 2"]},"cases"'),
        WHOLE.replace('"cases"', '"trees":{"float32":["0 1 2"]},"cases"'),
        *(WHOLE.replace("NN float32", case) for case in ("", "NN", "float32", "NX float32", "NN float32  gelu")),
        WHOLE.replace('"coalesced"', "1"),
        WHOLE.replace("[32]", "[32,1]"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(WHOLE)
    assert Table.load(path).entries == (entry(50.0, m=8, n=8, k=8, baseline_gflops=40.0),)
    path.write_text(text)
    with pytest.raises(RecordsError, match=r"x.json is not a table of format 4"):
        Table.load(tmp_path / "x.json")


def test_a_missing_table_and_an_unwritable_folder_are_errors(tmp_path):
    with pytest.raises(RecordsError, match="cannot read the table"):
        Table.load(tmp_path / "none.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordsError, match="cannot write the table"):
        Table("X", (9, 0)).save(tmp_path / "file" / "x.json")


def test_speed_says_the_time():
    assert entry(gflops=2 * 64**3 / 1e3).time_us == pytest.approx(1)


def test_the_users_table_is_added_to_and_comes_first(folder):
    path = store.save("NVIDIA H200", (9, 0), [entry(1)])
    assert path == folder / "nvidia_h200.json"
    store.save("NVIDIA H200", (9, 0), [entry(2, m=65)])
    user, shipped = store.load("NVIDIA H200")
    assert [e.m for e in user.entries] == [64, 65]
    assert shipped in store.shipped()


def test_a_corrupt_user_table_is_warned_of_and_left_out(folder):
    folder.mkdir()
    (folder / "nvidia_h200.json").write_text('{"format": 2')
    with pytest.warns(RuntimeWarning, match="a table is left out"):
        tables = store.load("NVIDIA H200")
    assert [table in store.shipped() for table in tables] == [True]


def test_a_corrupt_user_table_is_set_aside_by_a_new_one(folder):
    folder.mkdir()
    (folder / "nvidia_x.json").write_text("rubbish")
    with pytest.warns(RuntimeWarning, match="begun anew"):
        path = store.save("NVIDIA X", (9, 0), [entry()])
    assert Table.load(path).entries == (entry(),)
    assert (folder / "nvidia_x.damaged").read_text() == "rubbish"


@pytest.mark.first(1)
@pytest.mark.parametrize("path", sorted(store.SHIPPED.glob("*.json")), ids=lambda path: path.name)
def test_shipped_tables_name_kernels_and_configs_of_the_ladder(path):
    table = Table.load(path)
    assert path.name == file_name(table.gpu)
    assert table.entries
    assert json.loads(path.read_text())["format"] == 4
    assert None not in map(config_of, table.choices)
    assert table.merged([]).entries == table.entries
    for one in table.entries:
        kernel = find(one.kernel)
        dtype, _ = types_of(one.case)
        assert dtype in kernel.support.factors
        assert one.meets(PROMISES[-1]), "a problem may ask for it"
        assert kernel.support.runs_on(table.capability, dtype)
        assert kernel.why_not(kernel.support.scaled(problem_of(one.m, one.n, one.k, one.case, one.batch))) is None


def test_a_table_of_before_a_parameter_came_has_its_default(tmp_path):
    kernel, gone = find("tma_transposed"), {"BLOCK": 32, "SHAPE": 3}
    before = {name: value for name, value in kernel.config().items() if name != "COPIED"}
    path = tmp_path / "x.json"
    entries = (entry(100, kernel=kernel.name, config=before), entry(90, config=gone))
    Table.of("X", (9, 0), entries).save(path)
    table = Table.load(path)
    assert [one.config for one in table.entries] == [dict(kernel.config())]
    merged = Table.load(path).merged([entry(80, kernel=kernel.name, config=dict(kernel.config()))])
    assert [one.gflops for one in merged.entries if one.kernel == kernel.name] == [80]


def test_entries_of_other_cases_and_batches_are_of_other_problems():
    entries = [entry(), entry(case="NT float32"), entry(case="NT float32 bias+gelu"), entry(batch=3)]
    table = Table("X", (9, 0)).merged(entries)
    assert len(table.entries) == 4
    assert any(table.measured(Problem(64, 64, 64, batch=3)))
    assert not any(table.measured(Problem(64, 64, 64, batch=2)))
    assert not any(table.measured(Problem(64, 64, 64, a=Layout("column"))))
    assert [types_of(one.case)[0] for one in table.entries] == ["float32"] * 4


def test_speed_of_a_batch_says_the_time_of_all_of_it():
    assert entry(gflops=2 * 64**3 / 1e3, batch=5).time_us == pytest.approx(5)
    assert entry(batch=5).shape == "5 of 64x64x64"


def test_a_users_table_of_an_earlier_format_is_left_out_and_set_aside(folder):
    folder.mkdir()
    path = folder / "nvidia_x.json"
    path.write_text(json.dumps({"format": 2, "gpu": "NVIDIA X", "capability": [9, 0], "entries": []}))
    with pytest.warns(RuntimeWarning, match="a table is left out: .* is not a table of format 4: format: got 2"):
        assert store.load("NVIDIA X") == ()
    with pytest.warns(RuntimeWarning, match="begun anew"):
        store.save("NVIDIA X", (9, 0), [entry(1, m=65)])
    assert [read.m for read in Table.load(path).entries] == [65]
    assert path.with_suffix(".damaged").exists()


def test_the_fastest_of_a_precision_takes_no_place_of_what_keeps_a_stricter_one():
    fast = entry(400, kernel="gemm_fp16x3", config=dict(find("gemm_fp16x3").config()), error_ratio=0.5)
    inexact = entry(900, kernel="gemm_bf16x3", config=dict(find("gemm_bf16x3").config()), error_ratio=9.0)
    merged = Table("X", (9, 0)).merged([entry(100), entry(60, kernel="naive"), fast, inexact])
    assert [e.kernel for e in merged.entries] == ["gemm_bf16x3", "gemm_fp16x3", "coalesced", "naive"]
    assert all(e.accurate for e in merged.entries)
    assert not entry(error_ratio=9.0).accurate


def test_what_splits_factors_first_is_kept_since_it_need_not_where_b_is_prepared():
    others = [
        entry(900, kernel="small_m_fp16x3", config=dict(find("small_m_fp16x3").config())),
        entry(800, kernel="small_m_bf16x6", config=dict(find("small_m_bf16x6").config())),
    ]
    splits = [
        entry(gflops, kernel=f"gemm_{precision}", config=dict(find(f"gemm_{precision}").config()))
        for gflops, precision in ((300, "fp16x3"), (200, "bf16x6"))
    ]
    table = Table("X", (9, 0)).merged([*others, *splits, entry(100, kernel="naive")])
    assert [one.gflops for one in table.entries] == [900, 800, 300, 200, 100]


def test_a_table_holds_a_problem_of_any_precision():
    table = Table.of("X", (9, 0), [entry()])
    assert all(any(table.measured(Problem(64, 64, 64, Arithmetic(precision=one)))) for one in PRECISIONS)
