"""Tables and plots made from records."""

import errno
import re
from pathlib import Path

import pytest

from studies.performance import page as performance
from studies.performance import picks
from studies.performance.plots import float32_ladder, tensor_core_ladder
from studies.templates import block, fill
from tilewright.core.errors import RecordsError
from tilewright.kernels import LADDER
from tilewright.tools.bench.records import Baseline, Run, Times


@pytest.fixture
def records(make_record):
    """Two rungs at 4096, and at 128 one square and one that is none."""

    def make(rung, size, gflops, k=None):
        sizes = {"m": size, "n": size, "k": k or size, "gflops": gflops, "ratio": gflops / 2469.0}
        return make_record(kernel=f"rung{rung}", rung=rung, config={"BM": 64}, **sizes)

    return [make(1, 4096, 500.0), make(2, 4096, 6000.0), make(1, 128, 10.0), make(2, 128, 20.0, k=64)]


ENVIRONMENT = {"date": "2026-11-21T09:47:14+00:00", "revision": "abc1234"}


def every(*records):
    """The table of picks, measured on an H200."""
    gpu = {"gpu": {"name": "NVIDIA H200", "compute_capability": "9.0"}}
    return picks.every(Run(environment=ENVIRONMENT | gpu, records=records))


def test_the_headline_stands_next_to_cublas_and_the_worklog(records):
    lines = performance.headline(records).splitlines()
    assert lines[2] == "| 1 | `rung1` | float32 | BM=64 | 500.0 | 2,469 | 20.3% | 502 |"
    assert lines[-1] == "|  | cuBLAS |  |  |  |  |  | 50,058 |"


def test_the_first_page_has_the_first_and_the_fastest_rung_of_each_part(records, make_record):
    sizes = {"m": 4096, "n": 4096, "k": 4096}
    others = [
        make_record(kernel=f"rung{rung}", rung=rung, gflops=24690.0 / rung, ratio=10.0 / rung, **sizes)
        for rung in (13, 30)
    ]
    run = Run(environment=ENVIRONMENT | {"gpu": {"name": "NVIDIA H200"}}, records=[*records, *others])
    head, *_, a, b = performance.course_parts(run.records, [run]).splitlines()
    assert head.startswith("At 4096x4096x4096 on an NVIDIA H200, 2026-11-21, revision abc1234; ")
    assert a == (
        "| A, on CUDA cores | 1 `rung1` | float32 | 500.0 / 2,469 = 0.20 | 2 `rung2` | float32 | 6,000 / 2,469 = 2.43 |"
    )
    assert b.startswith("| B, on tensor cores | 13 `rung13` | float32 | 1,899 / 2,469 = 0.77 | 13 `rung13` |")


def test_the_first_page_counts_the_rungs(request):
    page = (request.config.rootpath / "README.md").read_text()
    assert re.findall(r"a course of (\d+)\s|the course: (\d+) kernels", page) == [
        (f"{len(LADDER)}", ""),
        ("", f"{len(LADDER)}"),
    ]


def test_configs_are_shown_in_todays_parameters(records, make_record):
    old = {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 32, "BLOCKS": 2}
    sizes = {"m": 4096, "n": 4096, "k": 4096}
    lines = performance.headline([*records, make_record(kernel="wmma_tf32", rung=13, config=old, **sizes)]).splitlines()
    assert "WN=32, MIN_BLOCKS=2 |" in lines[4]


def test_each_row_of_the_headline_has_cublas_of_its_own_run(records, make_record):
    slower = Baseline(name="cuBLASLt", version="13", time_us=Times(min=1, median=1), gflops=2400.0)
    sizes = {"m": 4096, "n": 4096, "k": 4096, "gflops": 2568.0, "ratio": 1.07}
    other = make_record(kernel="rung3", rung=3, config={}, baseline=slower, **sizes)
    rows = performance.headline([*records, other]).splitlines()[2:]
    assert "| 2,469 | 243.0% |" in rows[1]
    assert rows[2] == "| 3 | `rung3` | float32 |  | 2,568 | 2,400 | 107.0% | 9,174 |"


def test_runs_after_other_work_have_a_column_where_they_were_measured(make_record):
    first = make_record(kernel="best", picked="naive", rung=0)
    time = {"time_us": Times(min=1.0, median=2500.0), "after_other_work_us": Times(min=1.0, median=2600.0)}
    baseline = Baseline(
        name="cuBLAS", version="13.1.0", gflops=2469.0, **{**time, "after_other_work_us": Times(min=1, median=1300.0)}
    )
    after = make_record(kernel="best", picked="naive", rung=0, m=128, baseline=baseline, **time)
    head, _, without, having = every(first, after).splitlines()[2:]
    assert "| ratio | after other work, us: cuBLAS's / ours | error" in head
    assert "| 0.50 |  |" in without and "| 0.50 | 1300 / 2600 = 0.50 |" in having
    assert "after other work" not in every(first)


def test_each_case_has_a_table_of_its_own(make_record):
    shown = performance.terminal([make_record(), make_record(dtype="float16"), make_record(dtype="float16")])
    assert re.findall("64x64x64, .*", shown) == ["64x64x64, float32", "64x64x64, float16"]


def test_a_ratio_of_another_run_is_refused(records, make_record):
    mixed = make_record(m=4096, n=4096, k=4096, gflops=54945.0, ratio=1.107)
    with pytest.raises(RecordsError, match=r"ratio 1.1070 of naive at 4096x4096x4096 .* must come from one run"):
        performance.headline([mixed])


def test_sizes_have_squares_first_and_gaps_where_nothing_was_measured(records):
    lines = performance.sizes([Run(environment=ENVIRONMENT, records=records)], "X").splitlines()
    assert lines[0] == "In float32, run of 2026-11-21, revision abc1234:"
    assert [line.split(" | ")[0] for line in lines[4:]] == ["| 128x128x128", "| 4096x4096x4096", "| 128x128x64"]
    assert lines[4] == "| 128x128x128 | 10.00 (0.4%) |  | 2,469 |"


def test_a_table_of_sizes_of_another_gpu_says_of_which(records):
    run = Run(environment={**ENVIRONMENT, "gpu": {"name": "Y"}}, records=records)
    assert performance.sizes([run], "X").startswith("In float32 on one Y, run of 2026-11-21")
    assert performance.sizes([run], "Y").startswith("In float32, run of 2026-11-21")


def test_every_run_has_a_table_of_sizes_of_its_own(records):
    text = performance.sizes(
        [Run(environment=ENVIRONMENT, records=half) for half in (records[::2], records[1::2])], "X"
    )
    heads = [line for line in text.splitlines() if line.startswith("| m x n x k")]
    assert heads == ["| m x n x k | 1 rung1 | cuBLAS |", "| m x n x k | 2 rung2 | cuBLAS |"]


def test_a_table_of_sizes_refuses_two_runs_of_cublas(records, make_record):
    other = Baseline(name="cuBLASLt", version="13", time_us=Times(min=1, median=1), gflops=2400.0)
    mixed = make_record(kernel="rung3", rung=3, m=128, n=128, k=128, gflops=1200.0, baseline=other)
    with pytest.raises(RecordsError, match="the rungs at 128x128x128 were measured next to different runs of cuBLAS"):
        performance.sizes([Run(environment=ENVIRONMENT, records=[*records, mixed])], "X")


def test_a_rung_in_another_arithmetic_stands_next_to_cublas_in_it(records, make_record):
    def other(rung, kernel, gflops, **changes):
        baseline = Baseline(name="cuBLASLt", version="13", time_us=Times(min=1, median=1), gflops=gflops)
        sizes = {"m": 4096, "n": 4096, "k": 4096, "gflops": gflops / 4}
        return make_record(kernel=kernel, rung=rung, config={}, ratio=0.25, baseline=baseline, **sizes, **changes)

    wmma = [other(13, "tf32", 400000.0, precision="tf32"), other(14, "half", 700000.0, dtype="float16")]
    lines = performance.headline([*wmma, *records]).splitlines()
    assert lines[4] == "| 13 | `tf32` | tf32 |  | 100,000 | 400,000 (tf32) | 25.0% |  |"
    assert lines[5] == "| 14 | `half` | float16 |  | 175,000 | 700,000 (float16) | 25.0% |  |"
    text = performance.sizes([Run(environment=ENVIRONMENT, records=[*wmma, *records])], "X")
    assert "| 4096x4096x4096 | 100,000 (25.0%) | 400,000 (tf32) |" in text
    assert "| 4096x4096x4096 | 500.0 (20.3%) | 6,000 (243.0%) | 2,469 |" in text


def test_results_of_another_type_have_a_table_of_their_own(records, make_record):
    types = {"dtype": "bfloat16", "m": 4096, "n": 4096, "k": 4096}
    run = Run(
        environment=ENVIRONMENT,
        records=[
            make_record(kernel=kernel, baseline=None, ratio=None, out_dtype=result, **types)
            for kernel, result in (("naive", "float32"), ("wgmma", "bfloat16"))
        ],
    )
    heads = [line.partition(",")[0] for line in performance.sizes([run], "X").splitlines() if line.startswith("In")]
    assert heads == ["In bfloat16", "In bfloat16 with results of bfloat16"]


def test_a_rung_that_a_later_run_has_for_comparison_is_that_of_its_own_run(records, make_record):
    first, again = (make_record(kernel="wmma_f16", rung=14, gflops=gflops) for gflops in (1.0, 2.0))
    later = make_record(kernel="wgmma", rung=19)
    runs = [Run(environment=ENVIRONMENT, records=of) for of in ([*records, first], [again, later])]
    assert performance.own(runs) == [*records, first, later]


def labels(svg):
    """Names of the curves of a chart."""
    found = re.findall(r">([^<>]+)</text>", svg)
    return [text for text in found if re.match(r"[A-D], |cuBLAS|what matmul", text)]


def numbers(svg):
    """Numbers at the right ends of curves, from the lowest end up."""
    return re.findall(r"text-anchor: start[^>]*>([\d, ]+)</text>", svg)


def test_a_plot_has_a_curve_for_each_rung_and_each_arithmetic_of_cublas(records, make_record):
    types = ({"dtype": "float16"}, {"dtype": "bfloat16"}, {"precision": "tf32"}, {"precision": "bf16x6"})
    others = [make_record(kernel="other", rung=14, m=64, n=64, k=64, **one) for one in types]
    exact = float32_ladder([*records, *others], records[:1], {})
    parts = ["A, on CUDA cores", "B, on tensor cores (bf16x6)"]
    assert sorted(labels(exact)) == [*parts, "cuBLAS", "what matmul picks"]
    assert sorted(" ".join(numbers(exact)).split()) == ["1", "14", "2"]
    rounded = tensor_core_ladder([*records, *others])
    assert sorted(labels(rounded)) == [
        f"{what} ({kind})" for what in ("B, on tensor cores", "cuBLAS") for kind in ("bfloat16", "float16", "tf32")
    ]
    assert numbers(rounded) == ["14, 14, 14"]


def test_both_axes_are_drawn_and_what_others_measured(records):
    text = float32_ladder(records, records[:1], {1: 500.0})
    assert ">float32; crosses: notes on a GH200<" in text and ">float32; crosses: notes on a GH200, linear<" in text
    assert "GH200" not in float32_ladder(records, records[:1], {})


def test_a_kernel_of_parts_stands_next_to_cublas_in_float32(records, make_record):
    """No library has products of parts, so the baseline is the product of the factors as they are."""
    parts = make_record(kernel="parts", rung=25, config={}, m=4096, n=4096, k=4096, precision="bf16x6")
    assert parts.baseline_arithmetic == "float32"
    lines = performance.headline([*records, parts]).splitlines()
    assert lines[4].startswith("| 25 | `parts` | bf16x6 |  | 1,234 | 2,469 | 50.0% |")
    picked = make_record(kernel="best", picked="gemm_bf16x6", config={}, precision="bf16x6")
    assert "| `gemm_bf16x6` † | bf16x6 | 1,234 | 2,469 |" in every(picked)
    drawn = float32_ladder([*records, parts], [picked], {})
    assert {"B, on tensor cores (bf16x6)", "cuBLAS"} <= set(labels(drawn)) and "25" in " ".join(numbers(drawn))


def test_records_without_the_headline_size_are_refused(records):
    with pytest.raises(RecordsError, match="no records of 4096x4096x4096"):
        performance.headline(records[2:])


def test_changes_have_cublas_of_both_runs(make_record, tmp_path, monkeypatch):
    """The fastest config of a problem, the two that gained most and the one that lost most; none without a baseline."""

    def write(name, *speeds, baseline=2469.0):
        records = [
            make_record(
                m=size, gflops=gflops, ratio=gflops / baseline, baseline=of_baseline(baseline), config={"BM": bm}
            )
            for size, bm, gflops in speeds
        ]
        records.append(make_record(m=1, baseline=None, ratio=None))
        gpu = {"name": "NVIDIA H200"}
        path = tmp_path / name
        path.write_text(Run(environment=ENVIRONMENT | {"gpu": gpu}, records=records).model_dump_json())

    def of_baseline(gflops):
        return Baseline(name="cuBLAS", version="13", time_us=Times(min=1, median=1), gflops=gflops)

    write("before.json", *((size, 64, 1000.0) for size in (16, 32, 48, 64)), (80, 64, 1.0))
    write("after.json", (16, 64, 900.0), (32, 64, 1200.0), (32, 32, 1300.0), (48, 64, 1000.0), (64, 64, 1100.0),
                  baseline=2500.0)  # fmt: skip
    monkeypatch.setattr(performance, "CHANGES", (("a change", "before.json", "after.json"),))
    monkeypatch.setattr(performance, "change", tmp_path.joinpath)
    rows = [line.split(" | ") for line in performance.changes().splitlines()[2:]]
    assert [row[2] for row in rows] == ["32x64x64", "64x64x64", "16x64x64"]
    assert rows[0][1:2] + rows[0][4:] == ["H200, 2026-11-21, abc1234", "1,000 / 2,469 = 0.41", "1,300 / 2,500 = 0.52 |"]


def test_guards_compare_sizes_of_one_run(records, make_record):
    sizes = {"m": 4092, "n": 4092, "k": 4092, "gflops": 1500.0, "ratio": 1500 / 2469}
    found = performance.guards([*records, make_record(kernel="rung1", rung=1, **sizes)])
    assert found == "Speed at 4092x4092x4092 over that at 4096x4096x4096, of the same run: `rung1` 3.00."


def test_each_prepared_product_stands_next_to_the_one_before_it(make_record):
    fast = make_record(gflops=3086.25, ratio=1.25, precision="bf16x6", prepared=True)
    run = Run(environment=ENVIRONMENT | {"gpu": {"name": "G"}}, records=[make_record(), fast, make_record()])
    lines = performance.prepared([run]).splitlines()
    assert (lines[0], *lines[4:]) == (
        "On an G, 2026-11-21, revision abc1234:",
        "| 64x64x64 | NN float32 | 1,234 / 2,469 = 0.50* | 3,086 / 2,469 = 1.25 | 2.50 |",
    )


def test_only_what_lies_between_markers_is_replaced():
    page = "before\n<!-- sizes -->\nold\n<!-- end sizes -->\nafter\n"
    filled = fill(page, {"sizes": "new", "other": "none"})
    assert filled == "before\n<!-- sizes -->\n\nnew\n\n<!-- end sizes -->\nafter\n"
    assert fill(filled, {"sizes": "new"}) == filled
    assert fill(filled, {"sizes": ""}) == "before\n<!-- sizes -->\n\n<!-- end sizes -->\nafter\n"


def test_a_page_that_cannot_be_replaced_stays_as_it_was(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("<!-- sizes -->\nold\n<!-- end sizes -->\n")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        performance.redraw(page, {"sizes": "new"})
    assert page.read_text() == "<!-- sizes -->\nold\n<!-- end sizes -->\n"
    assert list(tmp_path.iterdir()) == [page]


@pytest.mark.further
def test_the_committed_pages_are_those_that_the_records_make(tmp_path, monkeypatch, request):
    root = request.config.rootpath
    (tmp_path / "results").symlink_to(root / "results")
    for page in performance.PAGES:
        copy = tmp_path / page
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((root / page).read_bytes())
    monkeypatch.chdir(tmp_path)
    performance.write()
    for page in (*performance.PAGES, performance.PLOT, performance.TENSOR_CORE_PLOT):
        assert (tmp_path / page).read_text() == (root / page).read_text(), f"{page} is out of date: run make docs"


def test_a_missing_records_file_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecordsError, match=r"cannot read the records in results/h200/ladder\.json"):
        performance.write()


def test_the_environment_is_listed_with_its_parts():
    run = Run(environment={"gpu": {"name": "X"}, "python": "3.12"}, records=[])
    assert (
        block("performance/page.md.j2", "environment", facts=run.environment.items())
        == "- gpu:\n  - name: X\n- python: 3.12"
    )


@pytest.mark.parametrize("page", ["records", "lab-notebook"])
def test_the_contents_of_a_page_lead_to_every_part(request, page):
    text = (request.config.rootpath / f"docs/{page}.md").read_text()
    contents, *parts = re.split(r"^##+ ", text, flags=re.MULTILINE)
    anchors = [re.sub(r"[^\w -]", "", part.splitlines()[0]).lower().replace(" ", "-") for part in parts]
    assert list(dict.fromkeys(re.findall(r"^\| .*?\]\(#([\w-]+)\)", contents, re.MULTILINE))) == anchors


LONGEST = 60
"""Lines of a section of results: about a screen."""


def test_a_section_of_results_is_a_screen(request):
    page = (request.config.rootpath / "docs/results.md").read_text()
    sections = re.split(r"^## ", page, flags=re.MULTILINE)
    assert {text.splitlines()[0]: lines for text in sections if (lines := text.count("\n")) > LONGEST} == {}


def test_the_architecture_is_short(request):
    assert len((request.config.rootpath / "docs/architecture.md").read_text().splitlines()) <= 250
