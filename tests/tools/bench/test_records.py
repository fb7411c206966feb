"""Records: what the JSON holds, and what happens to files that are wrong."""

import json

import pytest

from tilewright.core.errors import RecordsError
from tilewright.core.problem import Arithmetic, Problem
from tilewright.tools.bench.records import FORMAT, EndToEnd, GpuState, LaunchedKernel, PerCall, Run, Times


def test_times_are_minimum_median_and_spread():
    assert Times.of([3.0, 1.0, 2.0, 10.0, 4.0]) == Times(min=1.0, median=3.0, samples=5, spread=2 / 3)
    assert Times.of([3.0]) == Times(min=3.0, median=3.0, samples=1)


def test_the_json_has_the_documented_shape(tmp_path, make_record):
    path = tmp_path / "new" / "run.json"
    Run(environment={"python": "3.11"}, records=[make_record()]).save(path)
    text = json.loads(path.read_text())
    assert set(text) == {"format", "environment", "records", "results"}
    assert text["format"] == FORMAT
    (written,) = text["records"]
    assert {"kernel", "rung", "config", "m", "n", "k", "dtype", "engine", "gflops", "ratio", "verified"} <= set(written)
    assert set(written["time_us"]) == {"min", "median", "samples", "spread"}
    assert {"name", "version", "time_us", "gflops", "kernels"} <= set(written["baseline"])
    assert set(written["error"]) == {"relative_frobenius", "limit"}


def test_a_run_reads_back_as_it_was(tmp_path, make_record):
    run = Run(
        environment={"gpu": {"name": "X"}},
        records=[make_record(), make_record(verified=False, ratio=None, baseline=None)],
    )
    run.save(tmp_path / "run.json")
    assert Run.load(tmp_path / "run.json") == run
    assert not all(one.verified for one in run.every_result)


def test_the_kernels_of_a_baseline_are_kept(tmp_path, make_record):
    launched = [LaunchedKernel(name="f<4>", grid=(32, 16, 2), block=(256, 1, 1))]
    baseline = make_record().baseline.model_copy(update={"kernels": launched})
    Run(environment={}, records=[make_record(baseline=baseline)]).save(tmp_path / "run.json")
    assert Run.load(tmp_path / "run.json").records[0].baseline == baseline


def test_records_from_before_kernels_were_named_are_read(tmp_path, make_record):
    path = tmp_path / "run.json"
    Run(environment={}, records=[make_record()]).save(path)
    older = json.loads(path.read_text())
    del older["records"][0]["baseline"]["kernels"]
    path.write_text(json.dumps(older))
    assert Run.load(path).records == [make_record()]


def test_records_from_before_layouts_are_read(tmp_path, make_record):
    path = tmp_path / "run.json"
    Run(environment={}, records=[make_record()]).save(path)
    older = json.loads(path.read_text())
    for name in ("layout", "batch", "out_dtype", "bias", "activation", "end_to_end", "end_to_end_out"):
        del older["records"][0][name]
    path.write_text(json.dumps(older))
    (record,) = Run.load(path).records
    assert record == make_record()
    assert (record.case, record.problem) == ("NN float32", Problem(64, 64, 64))


def test_fields_that_are_not_known_do_not_refuse_a_file(tmp_path, make_record):
    path = tmp_path / "run.json"
    Run(environment={}, records=[make_record()]).save(path)
    later = json.loads(path.read_text())
    later["weather"] = later["records"][0]["weather"] = later["records"][0]["time_us"]["weather"] = "fine"
    path.write_text(json.dumps(later))
    assert Run.load(path).records == [make_record()]


def test_files_without_a_format_and_of_a_newer_one_are_refused_in_a_sentence(tmp_path, make_record):
    path = tmp_path / "run.json"
    Run(environment={}, records=[make_record()]).save(path)
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({name: fact for name, fact in facts.items() if name != "format"}))
    with pytest.raises(
        RecordsError, match=r"run\.json is not a file of records: it names no format, this one reads 2$"
    ):
        Run.load(path)
    path.write_text(json.dumps(facts | {"format": FORMAT + 1}))
    with pytest.raises(RecordsError, match=r"format 3 is a newer tilewright's: this one reads formats up to 2$"):
        Run.load(path)


def test_the_state_of_the_gpu_is_kept(tmp_path, make_record):
    record = make_record(gpu_state=GpuState(sm_clock_mhz=1755, power_w=688.2))
    Run(environment={}, records=[record]).save(tmp_path / "run.json")
    assert Run.load(tmp_path / "run.json").records == [record]


def test_what_is_wrong_with_a_file_is_a_line(tmp_path):
    path = tmp_path / "run.json"
    path.write_text('{"environment": {}, "records": [{}]}')
    with pytest.raises(RecordsError) as raised:
        Run.load(path)
    text = str(raised.value)
    assert "run.json is not a file of records: records.0.time_us: Field required; " in text
    assert text.endswith(" more")
    assert "\n" not in text and "http" not in text


def test_a_record_says_its_case(make_record):
    fields = {"layout": "NT", "batch": 8, "dtype": "float16", "out_dtype": "bfloat16"}
    record = make_record(**fields, bias="row", activation="gelu")
    assert (record.shape, record.case) == ("8 of 64x64x64", "NT float16->bfloat16 bias+gelu")


def test_times_end_to_end_are_kept_as_documented(tmp_path, make_record):
    times = {"host_us": PerCall(ours=4.0, baseline=9.5), "wall_us": PerCall(ours=5.0, baseline=10.0)}
    record = make_record(end_to_end=EndToEnd(framework="PyTorch 2.11", **times))
    Run(environment={}, records=[record]).save(tmp_path / "run.json")
    (written,) = json.loads((tmp_path / "run.json").read_text())["records"]
    assert written["end_to_end"] == {
        "framework": "PyTorch 2.11",
        "host_us": {"ours": 4.0, "baseline": 9.5},
        "wall_us": {"ours": 5.0, "baseline": 10.0},
    }
    assert Run.load(tmp_path / "run.json").records == [record]


@pytest.mark.parametrize(
    "text", ["", "{", '{"environment": {}}', '{"environment": {}, "records": [{"kernel": 1}]}', "\x80"]
)
def test_a_damaged_file_is_refused_by_name(tmp_path, text):
    path = tmp_path / "run.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(RecordsError, match=r"run\.json is not a file of records"):
        Run.load(path)


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(RecordsError, match=r"cannot read the records in .*none\.json: No such file"):
        Run.load(tmp_path / "none.json")


def test_a_failed_save_leaves_the_earlier_file_and_nothing_else(tmp_path, make_record):
    path = tmp_path / "run.json"
    Run(environment={}, records=[make_record()]).save(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="Out of range float"):
        Run(environment={"clock": float("nan")}, records=[make_record()]).save(path)
    assert path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_folder_in_the_way_is_reported(tmp_path, make_record):
    (tmp_path / "run.json").mkdir()
    with pytest.raises(RecordsError, match="cannot write the records to"):
        Run(environment={}, records=[make_record()]).save(tmp_path / "run.json")
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_record_carries_the_precision_that_was_asked_for_and_the_kernels(tmp_path, make_record):
    record = make_record(promise="fp16x3", precision="fp16x3", kernel="best", picked="gemm_fp16x3")
    assert record.problem.arithmetic == Arithmetic(precision="fp16x3")
    assert record.case == "NN float32:fp16x3"
    run = Run(environment={}, records=[record])
    run.save(tmp_path / "run.json")
    assert Run.load(tmp_path / "run.json").records == run.records
    assert make_record().problem.arithmetic.precision is None
