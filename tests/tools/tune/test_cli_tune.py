"""`tilewright tune`, from its arguments to its exit status."""

import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from tilewright.core.problem import LAYOUTS, Problem, orders
from tilewright.kernels import find
from tilewright.select.tables import store
from tilewright.select.tables.cases import types_of
from tilewright.tools.cli import main
from tilewright.tools.cli import tune as command
from tilewright.tools.tune.journal import read

COMMAND = [sys.executable, "-c", "from tilewright.tools.cli.main import main; main()", "tune"]


@pytest.fixture
def tune(monkeypatch, capsys, tmp_path):
    """Run `tilewright tune` on the emulator; gives exit status, standard output and standard error."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        always = ("--engine", "emulator", "--journal", str(tmp_path / "journal.jsonl"))
        monkeypatch.setattr(sys, "argv", ["tilewright", "tune", *always, *arguments])
        status = 0
        try:
            main.main()
        except SystemExit as stop:
            status = stop.code or 0
        printed = capsys.readouterr()
        return status, " ".join(printed.out.split()), " ".join(printed.err.split())

    return run


def test_a_search_ends_with_the_best_next_to_the_baseline(tune, tmp_path):
    path = tmp_path / "run.json"
    status, out, _ = tune("coalesced", "3", "--shape", "32", "--shape", "33x20x10", "--json", str(path))
    assert status == 0
    assert "32x32x32, float32" in out
    assert "NumPy" in out
    assert "9 of 9 configs tried" in out
    run = json.loads(path.read_text())
    assert {(record["m"], record["n"]) for record in run["records"]} == {(32, 32), (33, 20)}
    assert all(record["verified"] and record["baseline"] for record in run["records"])
    assert len(read(tmp_path / "journal.jsonl")) == 18
    status, out, _ = tune("coalesced", "3", "--shape", "32")
    assert status == 0
    assert "9 of 9 configs tried, 9 of them in earlier runs" in out
    status, out, _ = tune("coalesced", "--shape", "32")
    assert status == 0, "although all of them may have been stopped next to the other kernel's"
    assert "3 of 3 configs tried" in out


def test_without_time_nothing_is_found(tune):
    status, _, err = tune("coalesced", "--shape", "32", "--budget", "0")
    assert status == 1
    assert "32x32x32: the budget ended before any config was tried" in err


@pytest.mark.further
def test_configs_that_tables_know_can_be_all_that_is_tried(tune):
    known = {
        (entry.kernel, tuple(entry.config.items()))
        for table in store.shipped()
        for entry in table.entries
        if entry.kernel == "async_copy" and types_of(entry.case)[0] == "float32"
    }
    assert known
    status, out, _ = tune("async_copy", "--known", "--shape", "32")
    assert status == 0
    assert f"{len(known)} of {len(known)} configs tried" in out


@pytest.mark.further
@pytest.mark.parametrize("known", [False, True])
def test_of_configs_whose_copies_make_no_difference_one_is_tried(known):
    kernel, engine = find("tma_transposed"), command.resolve_engine("emulator")
    sizes = {}
    for layout in LAYOUTS:
        a, b = orders(layout)
        (configs,) = command._spaces([(kernel, {})], Problem(64, 64, 64, a=a, b=b), engine, known).values()
        copied = {config.COPIED for config in configs}
        sizes[layout] = len(configs)
        assert known or copied == {"NN": {0, 1}, "NT": {0, 1, 2, 3}, "TN": {0}, "TT": {0, 2}}[layout]
    assert known or sizes["NT"] == 2 * sizes["NN"] == 2 * sizes["TT"] == 4 * sizes["TN"]
    assert sizes["TN"] > 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["warptield"], "no kernel is called 'warptield'; did you mean 'warptiled'?"),
        (["--shape", "3x4"], "shape must read MxNxK"),
        (["--suite", "sqares"], "no suite is called 'sqares'"),
        (["--shape", "0", "--shape", "8x0x8"], "tune takes problems with something to compute, got 0x0x0, 8x0x8"),
        (["--shape", "8", "--shape", "1000000"], "1000000x1000000x1000000 needs 37,253 GiB of memory"),
        (["async_copy:nonesuch"], "async_copy has no preset 'nonesuch'"),
        (["wmma_f16", "--shape", "64", "--dtype", "float32"], "wmma_f16 takes float16, bfloat16, got float32"),
        (["naive", "--known", "--shape", "64"], "--known needs tables that name configs of naive"),
        (
            ["--survey", "--dtype", "float8_e5m2"],
            "--survey measures factors of float32, bfloat16, int8, got float8_e5m2",
        ),
    ],
)
def test_bad_input_is_named(tune, arguments, message):
    status, _, err = tune(*arguments)
    assert status == 2
    assert message in err


@pytest.mark.parametrize(
    ("capability", "arguments", "types"),
    [
        ((9, 0), [], ("float32", "bfloat16")),
        ((9, 0), ["--dtype", "int8"], ("int8",)),
        ((7, 5), ["--dtype", "bfloat16"], None),
    ],
)
def test_a_survey_measures_the_type_that_is_named(tune, tmp_path, monkeypatch, capability, arguments, types):
    asked = []

    def survey(engine, minutes, report, types):
        asked.append((minutes, types))
        report("measuring", 0.5)
        return dict.fromkeys(types, 70), tmp_path

    monkeypatch.setattr(command, "survey", survey)
    gpu = SimpleNamespace(capability=capability, device_name="GPU X")
    monkeypatch.setattr(command, "resolve_engine", lambda name: gpu)
    status, _, err = tune("--survey", "--minutes", "3", *arguments)
    if types is None:
        assert "no kernel has a portfolio of bfloat16 to survey on GPU X" in err
        return
    assert (status, asked) == (0, [(3.0, types)])
    assert f"70 problems of {types[-1]}; saved to" in err


def test_without_a_gpu_nothing_is_saved(tune):
    status, _, err = tune("--save")
    assert status == 1
    assert "--save needs a GPU" in err


def test_a_journal_that_cannot_be_kept_is_an_error(tune, tmp_path):
    (tmp_path / "file").write_text("")
    status, _, err = tune("coalesced", "--shape", "32", "--journal", str(tmp_path / "file" / "j.jsonl"))
    assert status == 2
    assert "--journal takes a path for a journal of tune, got" in err


def test_records_that_a_gpu_gave_are_saved_to_the_users_table(tune, tmp_path, monkeypatch):
    """With an engine that says it is a GPU, but for the worker."""
    monkeypatch.setenv(store.FOLDER_VARIABLE, str(tmp_path / "tables"))
    saved = []
    monkeypatch.setattr(command.store, "save", lambda *what: saved.append(what) or tmp_path)
    engine = command.resolve_engine("emulator")
    monkeypatch.setattr(engine, "capability", (9, 0))
    monkeypatch.setattr(engine, "device_name", "NVIDIA X")
    status, _, err = tune("coalesced", "--shape", "32", "--save")
    assert status == 0
    assert "saved to" in err
    ((gpu, capability, _),) = saved
    assert (gpu, capability) == ("NVIDIA X", (9, 0))


def test_help_teaches(tune):
    status, out, _ = tune("--help")
    assert status == 0
    assert "the same command goes on from there" in out


def test_ctrl_c_shows_the_best_so_far_and_the_next_run_goes_on(tmp_path):
    journal = tmp_path / "journal.jsonl"
    command = [
        *COMMAND,
        "coalesced",
        "shared_tiled",
        "--engine",
        "emulator",
        "--shape",
        "64",
        "--journal",
        str(journal),
    ]
    with subprocess.Popen(
        command, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        while not (journal.exists() and journal.read_text().count("\n") >= 2):
            assert process.poll() is None
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the worker and the compilers too
        start = time.monotonic()
        out, err = process.communicate()
    assert process.returncode == 130, err
    assert time.monotonic() - start < 10
    assert "best so far" in out
    assert "Traceback" not in err
    before = read(journal)
    assert before
    assert all(trial.outcome in ("timed", "stopped") for trial in before)
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{len(before)} of them in earlier runs" in " ".join(result.stdout.split())


def test_a_preset_keeps_what_it_sets(tune):
    status, out, _ = tune("naive:fastcuda_v1", "--shape", "32")
    assert status == 0
    assert "1 of 1 configs tried" in out
    assert "BLOCK_X=16 BLOCK_Y=16 X_ALONG_N=1" in out
    engine = command.resolve_engine("emulator")
    named = [(find("shared_tiled"), {"PAD": 1}), (find("shared_tiled"), {"TILE": 16})]
    for presets, holds in ((named[:1], lambda one: one.PAD == 1), (named, lambda one: one.PAD == 1 or one.TILE == 16)):
        (configs,) = command._spaces(presets, Problem(64, 64, 64), engine, known=False).values()
        (every,) = command._spaces([(find("shared_tiled"), {})], Problem(64, 64, 64), engine, known=False).values()
        assert configs == [config for config in every if holds(config)]
        assert configs != every


def test_what_has_nothing_to_compute_is_left_out_and_named(tune):
    status, out, err = tune("coalesced", "--shape", "8", "--shape", "8x0x8")
    assert status == 0
    assert "left out, since there is nothing to compute: 8x0x8" in err
    assert "8x8x8, float32" in out


def test_the_journal_is_no_file_of_another_kind(tune, tmp_path):
    records = tmp_path / "run.json"
    assert tune("coalesced", "--shape", "8", "--json", str(records))[0] == 0
    before = records.read_bytes()
    status, _, err = tune("coalesced", "--shape", "8", "--journal", str(records))
    assert status == 2
    assert "--journal takes a path for a journal of tune, got" in err
    status, _, err = tune("coalesced", "--shape", "8", "--json", str(tmp_path / "journal.jsonl"))
    assert status == 2
    assert "--json must name a file of its own" in err or "--json takes a path for a file of records" in err
    assert records.read_bytes() == before


def test_records_on_standard_output_are_alone_there(tune):
    status, out, err = tune("coalesced", "--shape", "8", "--shape", "9", "--json", "-")
    assert status == 0
    assert {record["m"] for record in json.loads(out)["records"]} == {8, 9}
    assert "configs tried" in err


def test_trials_count_for_every_precision(tune, tmp_path):
    path = tmp_path / "run.json"
    status, out, _ = tune("coalesced", "--shape", "32", "--precision", "fp16x3", "--json", str(path))
    assert status == 0
    assert "32x32x32, float32:fp16x3" in out
    assert {record["promise"] for record in json.loads(path.read_text())["records"]} == {"fp16x3"}
    status, out, _ = tune("coalesced", "--shape", "32")
    assert status == 0
    assert "3 of 3 configs tried, 3 of them in earlier runs" in out
    status, _, err = tune("gemm_bf16x3", "--shape", "32", "--precision", "fp16x3")
    assert status == 2
    assert "gemm_bf16x3 makes products of bf16x3, got precision 'fp16x3'" in err
