"""`tilewright check` as a user types it."""

import json
import pickle
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from all_stages import own_cases
from faulty import faulty
from left_out import copied
from tilewright.core.problem import Scalars
from tilewright.kernels import GROUPED, KERNELS, examples, find
from tilewright.kernels.source.products import START
from tilewright.tools.bench import check_cases, checking
from tilewright.tools.cli import check, main
from tilewright.tools.cli.options import kernel_names

OWN_KERNELS = Path(__file__).parents[2] / "own_kernels"


def run(*arguments):
    return CliRunner().invoke(main.app, ["check", *map(str, arguments)], env={"COLUMNS": "200"})


def text(result):
    return " ".join(result.output.split())


def test_a_right_kernel_passes():
    result = run("coalesced", 1, "--shape", "33x20x7")
    assert result.exit_code == 0, result.output
    assert re.search(r"^2 coalesced nothing found BLOCK=32 1 naive nothing found BLOCK_X=32.*", text(result))
    assert re.search(r"2 kernels checked in [\d.]+ s: nothing found$", text(result))


def test_a_faulty_kernel_is_shown_with_its_faults(monkeypatch):
    monkeypatch.setattr(check.launches.Words, "resolve", lambda words, name: (faulty(name), {}))
    result = run("past_the_last_row", "--shape", "24x39x35", "--beta", 0)
    assert result.exit_code == 1
    assert "past_the_last_row faulty" in text(result)
    assert re.search(
        r"out of bounds 24x39x35, beta 0 thread \(128, 0, 0\) of block \(3, 0, 0\) writes C\[24, 0\], "
        r"outside of its 24 x 39 elements at past_the_last_row.cu:21; 39 times in all",
        text(result),
    )
    assert re.search(r"1 kernel checked in [\d.]+ s: 1 faulty$", text(result))


def test_the_example_with_a_race_names_both_threads_both_lines_and_the_element(tmp_path):
    path = examples()["missing_barrier"]
    lines = path.read_text().splitlines()
    store, use = (
        next(number for number, line in enumerate(lines, 1) if words in line) for words in ("] = row", "sum +=")
    )
    result = run("missing_barrier")
    assert result.exit_code == 1
    thread = r"thread \(\d+, \d+, 0\) of block \(0, 0, 0\)"
    assert re.search(
        rf"race \S+, beta 0.5 {thread} reads tile_a\[\d+\]\[\d+\] at missing_barrier.cu:{use}; "
        rf"{thread} wrote it at missing_barrier.cu:{store}, and ",
        text(result),
    )
    assert f"The source is {path}: copy it, mend it, check the copy." in text(result)
    mended = tmp_path / "mended.cu"
    mended.write_text(path.read_text().replace("// missing: __syncthreads();", "__syncthreads();"))
    assert run(mended, "--shape", 64).exit_code == 0


def test_the_example_is_found_by_name_and_in_no_list(monkeypatch):
    assert "missing_barrier" not in {kernel.name for kernel in KERNELS}
    assert pickle.loads(pickle.dumps(find("missing_barrier"))) is find("missing_barrier")
    result = CliRunner().invoke(main.app, ["bench", "missing_barrier", "--shape", "64", "--engine", "emulator"])
    assert result.exit_code == 1
    assert re.search(r"missing_barrier TILE=16 \S+ \S+ WRONG", text(result))
    result = CliRunner().invoke(main.app, ["explain", "missing_barrier", "--shape", "64"])
    assert result.exit_code == 0 and "missing_barrier TILE=16" in text(result)
    assert "did you mean 'missing_barrier'" in str(run("missing_barier").exception)
    assert kernel_names("miss") == ["missing_barrier"]


def test_rows_are_checked_where_that_is_asked_for():
    asked = ("--shape", "40x33x270", "--beta", 0, "--batch-invariant")
    result = run("split_k:tiny", *asked)
    assert result.exit_code == 0, result.output
    result = run("skinny", *asked)
    assert result.exit_code == 1
    assert "rows 40x33x270, beta 0 rows 0 to 0 of 40 have other bits when they are multiplied alone" in text(result)


@pytest.mark.further
def test_parts_are_checked_as_they_are_made(monkeypatch, tmp_path):
    """By blocks of the launch that multiplies them: here it does not wait for them."""
    kernel = find("gemm_bf16x6")
    hasty, splitting = copied(kernel, tmp_path), tmp_path / "float32_parts/split_factors.cuh"
    splitting.write_text(splitting.read_text().replace("wait_for_count(&counters->done, all);", ""))
    monkeypatch.setattr(check.launches.Words, "resolve", lambda words, name: (hasty, {}))
    result = run("gemm_bf16x6", "--shape", "130x130x70", "--beta", 0)
    assert result.exit_code == 1
    assert re.search(r"race 130x130x70, beta 0 .* the 11 elements from counters\[0\] on", text(result))


def test_a_wrong_result_is_a_fault_too(monkeypatch):
    monkeypatch.setattr(checking, "limit", lambda problem, precision: 0.0)
    result = run("naive", "--shape", "8x8x8", "--beta", 1)
    assert result.exit_code == 1
    assert re.search(r"wrong result 8x8x8, beta 1 the relative error against float64 is \d\.\de-\d\d", text(result))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dtype", "float16", "naive"], "naive takes float32, got float16"),
        (["--config", "BM=7", "naive"], "naive has no parameter 'BM'"),
        (["--shape", "1x2"], "1x2"),
        (["nonesuch"], "nonesuch"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    result = run(*arguments)
    assert result.exit_code != 0
    assert message in str(result.exception)


def test_only_rungs_that_take_an_element_type_are_checked(monkeypatch):
    checked = []
    monkeypatch.setattr(check, "_run", lambda jobs, deadline: checked.extend(jobs) or iter(()))
    assert run("--dtype", "bfloat16").exit_code == 0
    assert {job.kernel.name for job in checked} == {
        one.name for one in (*KERNELS, *GROUPED) if "bfloat16" in one.support.factors
    }


@pytest.mark.further
def test_orders_are_checked_of_kernels_that_take_them(monkeypatch):
    result = run(
        "gemm_sm90", "--shape", "33x20x7", "--layout", "TN", "--layout", "NT", "--config", "BN=32", "--beta", 0
    )
    assert result.exit_code == 0, result.output
    checked = []
    monkeypatch.setattr(check, "_run", lambda jobs, deadline: checked.extend(jobs) or iter(()))
    assert run("--layout", "TT").exit_code == 0
    assert {job.kernel.name for job in checked} == {
        one.name for one in (*KERNELS, *GROUPED) if "TT" in one.support.layouts
    }
    problems = [case.problem for job in checked for case in job.cases]
    assert {one.layout for one in problems if min(one.m, one.n) > 1} == {"TT"}  # one row is the same in both orders
    result = run("naive", "--layout", "TN")
    assert "naive takes layouts NN of A and B, got TN" in str(result.exception)


def test_a_fault_in_one_order_is_reported_with_it(monkeypatch, tmp_path):
    kernel = find("gemm_sm90")
    wrong_kernel = copied(kernel, tmp_path)
    header = tmp_path / "pipeline/swizzled_tile.cuh"
    wrong = header.read_text().replace(
        "side * LINE_BYTES + step * STEP_BYTES", "side * LINE_BYTES + step * 2 * STEP_BYTES"
    )
    header.write_text(wrong)  # of a tile along k: A of TT is none, B is one
    monkeypatch.setattr(check.launches.Words, "resolve", lambda words, name: (wrong_kernel, {}))
    arguments = ("gemm_sm90", "--config", "BN=32", "--shape", "64x32x64", "--beta", 0)
    assert run(*arguments, "--layout", "TN").exit_code == 0
    result = run(*arguments, "--layout", "TN", "--layout", "TT")
    assert result.exit_code == 1
    assert "64x32x64, TT, beta 0" in text(result)


def test_what_cannot_be_judged_is_refused_first():
    for arguments, message in (
        (["--alpha", "inf"], "--alpha takes 0, or a number of 1.2e-38 to 3.4e"),
        (["--shape", "2000000000"], "2000000000x2000000000x2000000000 needs"),
    ):
        result = run("naive", *arguments)
        assert message in str(result.exception)
        assert result.exception.status == 2


def test_defaults_are_all_forms_of_a_kernel_and_a_second_config(monkeypatch):
    checked = []
    monkeypatch.setattr(check, "_run", lambda jobs, deadline: checked.extend(jobs) or iter(()))
    assert run("vectorized").exit_code == 0
    (job,) = checked
    variants = {
        (variant.edges, variant.aligned)
        for variant in (find("vectorized").variant(case.problem, job.config) for case in job.cases)
    }
    assert variants == {(False, True), (True, False), (True, True)}
    assert min(case.problem.k for case in job.cases) == 0
    assert {case.config for case in job.cases} > {job.config}
    checked.clear()
    assert run("vectorized:rtx3060" if "rtx3060" in find("vectorized").presets else "vectorized", "--config", "BK=16")
    assert {case.config for case in checked[0].cases} == {checked[0].config}


def test_defaults_have_blocks_that_share_tiles_batches_and_single_steps():
    for name in ("skinny", "split_k", "tma_packed"):
        kernel = find(name)
        cases = own_cases(kernel, kernel.config(), [Scalars(1.5, 0.5)])
        shared = [case for case in cases if case.multiprocessors > 4]
        assert shared
        for problem, _, config, multiprocessors, *_ in shared:
            blocks = kernel.grid(problem, config, multiprocessors)
            assert blocks >= 5 * kernel.tiles(problem, config) > 5
            assert kernel.workspace(problem, config, multiprocessors).bytes
        assert any(case.problem.batch > 1 for case in cases)
        assert any((case.problem.m, case.problem.n, case.problem.k) == kernel.tile(case.config) for case in cases)


def test_other_configs_have_values_on_both_sides_of_a_default():
    kernel = find("promoted")
    values = [config.PROMOTE for config in check_cases.other_configs(kernel, kernel.config())]
    assert min(values) < kernel.config().PROMOTE < max(values)


def test_huge_matrices_are_checked_by_some_blocks(tmp_path):
    right = START.read_text()
    (tmp_path / "wide.cu").write_text(right)
    (tmp_path / "narrow.cu").write_text(right.replace("size_t", "int"))
    result = run("--huge", "--shape", "50000x50000x64", tmp_path / "wide.cu", "--json", tmp_path / "found.json")
    assert result.exit_code == 0, result.output
    (checked,) = json.loads((tmp_path / "found.json").read_text())["checked"]
    assert [one["some_blocks"] for one in checked["problems"]] == [True] * len(checked["problems"])
    assert 0 < checked["problems"][0]["relative_error"] < 1e-6
    result = run("--huge", "--shape", "50000x50000x64", tmp_path / "narrow.cu")
    assert result.exit_code == 1
    assert re.search(r"computes 4\d+ \* 50000 beyond the range of int at narrow.cu:23", text(result))
    assert re.search(r"out of bounds 50000x50000x64, beta 0.5 thread .* reads C\[-\d+, \d+\], outside of", text(result))


@pytest.mark.further
def test_kernels_of_which_no_few_blocks_can_be_checked_are_left_out_unless_they_are_named(monkeypatch):
    monkeypatch.setattr(check, "KERNELS", (find("naive"), find("tma_packed")))
    result = run("--huge", "--shape", "50000x50000x64")
    words = " ".join(result.output.split())
    assert "tma_packed left out: tma_packed copies operands or shares tiles between blocks" in words
    assert re.search(r"1 kernel checked in .* s: nothing found", words)
    assert result.exit_code == 0
    result = run("--huge", "--shape", "50000x50000x64", "naive", "tma_packed")
    assert "no few of its blocks can be checked on 50000x50000x64" in str(result.exception)


def test_huge_problems_are_those_of_products_with_all_rows():
    result = run("--huge", "--batch-invariant", "split_k")
    assert "leave --batch-invariant out" in str(result.exception)
    result = run("--huge", OWN_KERNELS / "softmax.cu")
    assert "--huge" in str(result.exception)


def test_our_kernels_are_checked_on_far_lines_by_default(monkeypatch):
    checked = []
    monkeypatch.setattr(check, "_run", lambda jobs, deadline: checked.extend(jobs) or iter(()))
    assert run("naive", "gemm_sm90", START).exit_code == 0
    far = {
        job.kernel.name: [
            case for case in job.cases if case.problem.a.extent(case.problem.m, case.problem.k, 1) > 2**32
        ]
        for job in checked
    }
    assert {name: {case.problem.batch for case in cases} for name, cases in far.items()} == {
        "naive": {1}, "gemm_sm90": {1, 2}, f"{START}:start": set(),
    }  # fmt: skip
