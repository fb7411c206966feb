"""The worklog: its slots, its numbers, and that the committed pages are what they are made from."""

import re
import shutil

import matplotlib
import pytest

from studies import published
from studies.profiles.measuring import measured as kept
from studies.profiles.measuring import problem_of
from studies.record import Measurement, Measurements
from studies.results import FOLDER, runs
from studies.results import path as file_of
from studies.worklog import __main__ as command
from studies.worklog import counted, errors, hopper, pages, parts, pictures, quantisation, rungs, sources, template
from studies.worklog import varying as variations
from studies.worklog.counted import Counted, Counts, Group
from studies.worklog.facts import Facts
from studies.worklog.metrics import METRICS
from studies.worklog.sources import SourceCounts
from tilewright.core.errors import RecordsError
from tilewright.core.problem import Problem
from tilewright.emulator.trace import trace
from tilewright.kernels import LADDER, find, resolve
from tilewright.tools.bench.ncu import CUBLAS
from tilewright.tools.bench.profile import Profile
from tilewright.tools.bench.records import Baseline, Run, Times
from tilewright.tools.report import course, ratios
from tilewright.tools.report.figures.roofline import DRAM, L2, SHARED

TEXTS = {pages.page_name(kernel): kernel for kernel in LADDER}


def make_counted(kernel="naive", **changes):
    """Counts of a small launch: 64 FFMAs of warps, 8 loads of 16 sectors, 32 loads of shared memory."""
    fields = {
        "kernel": kernel,
        "shape": "64x64x64",
        "dtype": "float32",
        "config": {},
        "groups": {
            "global_load": Group(requests=8, sectors=128, wavefronts=0, bank_conflicts=0),
            "shared_load": Group(requests=32, sectors=0, wavefronts=48, bank_conflicts=12),
            "shared_store": Group(requests=8, sectors=0, wavefronts=16, bank_conflicts=8),
        },
        "ffma": 64 * 32,
        "least_bytes": 3 * 64 * 64 * 4,
        "requested_bytes": 128 * 32,
        "registers": 40,
        "shared_bytes": 2048,
        "warps": 16,
        "times_us": {"arithmetic": 1.0, "memory": 2.0, "L2": 1500.0, "shared memory": 0.0},
        "loop": {"fp32 multiply-add": 3, "shared loads": 1},
    }
    return Counted(**(fields | changes))


@pytest.fixture
def facts(make_record):
    """Two rungs that were measured in one run and counted, one of another run, and one that was only picked."""

    def measured(gflops, baseline_gflops, **changes):
        baseline = Baseline(name="cuBLAS", version="13", time_us=Times(min=1, median=1), gflops=baseline_gflops)
        sizes = {"m": 4096, "n": 4096, "k": 4096, "gflops": gflops, "ratio": gflops / baseline_gflops}
        return make_record(**(sizes | {"baseline": baseline} | changes))

    first = [measured(500.0, 48000.0, kernel="naive"), measured(6000.0, 48000.0, kernel="coalesced", rung=2)]
    second = [measured(9000.0, 45000.0, kernel="shared_tiled", rung=3)]
    picked = [measured(1710.0, 1800.0, kernel="best", picked="skinny", rung=17, m=1)]
    runs = [Run(environment={}, records=records) for records in (first, second, picked)]
    counts = [make_counted("naive"), make_counted("coalesced", requested_bytes=1024, registers=32)]
    return Facts(runs, {one.kernel: one for one in counts})


# Slots.


def test_slots_are_filled_and_the_rest_is_left():
    fills = {"upper": str.upper, "sum": lambda *words: "+".join(words)}
    text = 'a {{upper b}} c {{sum "one two" 3}}, {{sum\nx y}} }}'
    assert template.fill(text, fills, "page") == "a B c one two+3, x+y }}"


@pytest.mark.parametrize(
    ("slot", "message"),
    [
        ("gflop naive", "01.md: nothing is called 'gflop'; did you mean 'gflops'"),
        ("gflops", r"01.md: \{\{gflops\}\} has too few or too many words"),
        ("gflops naive 8x8x8", "01.md: .* needs a record of naive at 8x8x8"),
        ("metric naive intensty", "there is no metric 'intensty'; did you mean 'intensity'"),
        ("metric vectorized intensity", "nothing was counted of 'vectorized'"),
        ("counters - registers stuff", "there is no metric 'stuff'"),
    ],
)
def test_slots_that_cannot_be_filled_name_the_page_and_what_is_wrong(facts, slot, message):
    fills = {"gflops": facts.gflops, "metric": facts.metric, "counters": lambda *a: facts.counters("naive", *a)}
    with pytest.raises(RecordsError, match=message):
        template.fill(f"x {{{{{slot}}}}}", fills, "01.md")


def test_an_excerpt_is_dedented_and_directives_stand_at_the_margin(tmp_path):
    source = tmp_path / "a.cu"
    source.write_text("first\n    for (k) {\n#pragma unroll\n        for (i) x += y;\n    }\nlast\n")
    block = "```cuda\nfor (k) {\n#pragma unroll\n    for (i) x += y;\n}\n```"
    assert template.excerpt(source, "for (k)", "}") == block
    with pytest.raises(LookupError, match=r"a.cu has no line with 'gone' from line 2 on"):
        template.excerpt(source, "for (k)", "gone")


# Numbers.


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sectors_a_load", "16"),
        ("sectors_a_store", ""),
        ("global_loads", "8e-06 M"),
        ("intensity", "128"),
        ("ffmas_a_global_load", "8"),
        ("ffmas_a_shared_load", "2"),
        ("wavefronts_a_load", "1.5"),
        ("ffmas_a_wavefront", "1"),
        ("load_conflicts", "25%"),
        ("store_conflicts", "50%"),
        ("loop_ffma", "75%"),
        ("loop_tensor", ""),
        ("registers", "40"),
        ("shared", "2 KiB"),
        ("warps", "16"),
    ],
)
def test_metrics_are_made_of_the_counts(facts, name, text):
    assert facts.metric("naive", name) == text


def test_large_numbers_are_written_shortly():
    many = make_counted(
        groups={"global_load": Group(requests=4_294_967_296, sectors=1, wavefronts=0, bank_conflicts=0)}
    )
    assert Facts([], {"naive": many}).metric("naive", "global_loads") == "4,295 M"


def test_counters_are_next_to_those_of_the_rung_before(facts):
    lines = facts.counters("coalesced", "naive", "intensity", "registers").splitlines()
    assert lines == [
        "|  | 1 naive | 2 coalesced |",
        "| --- | ---: | ---: |",
        "| FLOP for each byte asked of global memory | 128 | 512 |",
        "| registers a thread | 40 | 32 |",
    ]
    assert facts.counters("naive", "-", "warps").splitlines()[0] == "|  | 1 naive |"


def test_measured_tables_compare_and_leave_out_what_was_not_measured(facts):
    lines = facts.measured("coalesced", "naive").splitlines()
    heads = "| m x n x k | 1 naive, GFLOP/s | 2 coalesced, GFLOP/s | times | cuBLAS, same run | of cuBLAS |"
    assert lines[0] == heads
    assert lines[2:] == ["| 4096x4096x4096 | 500.0 | 6,000 | 12.00 | 48,000 | 12.5% |"]
    assert facts.measured("naive", "-").splitlines()[2] == "| 4096x4096x4096 | 500.0 | 48,000 | 1.0% |"
    assert facts.measured("skinny", "-").splitlines()[2] == "| 1x4096x4096 | 1,710 | 1,800 | 95.0% |"
    assert facts.measured("vectorized", "-").startswith("No run of this rung is among the records")
    assert (facts.times("naive", "coalesced"), facts.share("skinny")) == ("12", "95%")


def test_a_rung_is_compared_with_none_that_was_not_measured(facts):
    assert facts.measured("coalesced", "vectorized") == facts.measured("coalesced", "-")


def test_a_rung_that_makes_16_bits_is_given_by_records_of_that(make_record):
    types = {"dtype": "bfloat16", "m": 4096, "n": 4096, "k": 4096}
    records = [
        make_record(kernel="wgmma", rung=19, out_dtype=out_dtype, gflops=gflops, **types)
        for out_dtype, gflops in (("float32", 1000.0), ("bfloat16", 2000.0))
    ]
    facts = Facts([Run(environment={}, records=records)], {})
    assert facts.gflops("wgmma", "4096x4096x4096") == "2,000"


def test_a_rung_is_compared_with_one_of_its_own_run_where_that_has_it(make_record):
    def record(kernel, gflops, m=4096):
        return make_record(kernel=kernel, gflops=gflops, m=m, n=m, k=m, baseline=None, ratio=None)

    first = Run(environment={}, records=[record("naive", 500.0)])
    later = Run(environment={}, records=[record("naive", n, m) for n, m in ((400.0, 4096), (90.0, 1024))])
    later.records.append(record("coalesced", 1000.0))
    facts = Facts([first, later], {})
    assert facts.measured("coalesced", "naive").splitlines()[2] == "| 4096x4096x4096 | 400.0 | 1,000 | 2.50 |  |  |"
    assert [line.split(" | ")[:2] for line in facts.measured("naive", "-").splitlines()[2:]] == [
        ["| 4096x4096x4096", "500.0"]
    ]


def test_speeds_of_two_runs_are_not_divided(facts):
    lines = facts.measured("shared_tiled", "coalesced").splitlines()
    cublas = "cuBLAS, same run | of cuBLAS"
    assert lines[0] == f"| m x n x k | 2 coalesced, GFLOP/s | {cublas} | 3 shared_tiled, GFLOP/s | {cublas} |"
    assert lines[2:] == ["| 4096x4096x4096 | 6,000 | 48,000 | 12.5% | 9,000 | 45,000 | 20.0% |"]
    message = "coalesced at 4096x4096x4096 and shared_tiled at 4096x4096x4096 were measured in different runs"
    with pytest.raises(RecordsError, match=message):
        facts.times("coalesced", "shared_tiled")


def test_the_longest_of_the_least_times_is_bold(facts):
    row = facts.limits("naive").splitlines()[2]
    assert row == "| time | 1 us | 2 us | **1.5 ms** |  |"


def test_no_line_of_words_is_taken_for_a_row_of_the_table_above_it():
    facts = Facts(Facts.load_runs(), counts())
    for table in (facts.limits("coalesced"), facts.measured("coalesced", "naive")):
        assert "Measured on" in table
        assert not re.search(r"\|\n[^|\n]", table), table


def test_the_roofline_has_the_rungs_that_were_measured_and_counted(facts):
    roofline = facts.roofline()
    assert [(point.name, point.intensity, point.gflops) for point in roofline.points] == [
        ("naive", 128.0, 500.0),
        ("coalesced", 512.0, 6000.0),
    ]
    assert roofline.baseline == 48000.0
    assert [point.levels for point in roofline.points] == [{SHARED: 2 * 64**3 / (128 * 64)}] * 2


def profile(kernel, shape, **counters):
    problem = {"shape": shape, "dtype": "float32", "out_dtype": "float32", "config": {}, "launched": []}
    named = {name.replace("_sum", ".sum"): number for name, number in counters.items()}
    return Profile(kernel=kernel, counters=named, **problem)


def run_of(*profiles):
    return Measurements(environment={}, measurements=list(map(kept, profiles)))


def test_what_caches_did_is_there_where_both_rungs_were_profiled(facts):
    read = {"lts__t_sectors_op_read_lookup_hit_sum": 3e8, "lts__t_sectors_op_read_sum": 4e8}
    moved = {"lts__t_sectors_op_write_sum": 1e8, "dram__bytes_read_sum": 2e9, "dram__bytes_write_sum": 1e9}
    profiled = [profile("naive", "64x64x64", **read, **moved), profile("coalesced", "64x64x64")]
    assert Facts(facts.runs, facts.counts, run_of(*profiled)).caches("coalesced", "naive").splitlines() == [
        "| at 64x64x64 | 1 naive | 2 coalesced |",
        "| --- | ---: | ---: |",
        "| reads that the L2 cache served | 75.0% |  |",
        "| read from and written to L2 | 16.00 GB |  |",
        "| read from and written to DRAM | 3.00 GB |  |",
    ]
    timed = [profile(name, "64x64x64", **moved, gpu__time_duration_sum=1e7) for name in ("naive", "coalesced")]
    assert Facts(facts.runs, facts.counts, run_of(*timed)).caches("coalesced", "naive").splitlines()[-2:] == [
        "| of DRAM, a second | 300 GB | 300 GB |",
        "| of DRAM, a second, in the first worklog (A6000) | 15 GB | 110 GB |",
    ]
    missing = Facts(facts.runs, facts.counts, run_of(profiled[0])).caches("coalesced", "naive")
    assert missing.startswith("No profile of this rung is among the records")


def test_the_roofline_has_measured_levels_and_cublas_where_there_are_profiles(facts):
    asked = {
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_sum": 3e6,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st_sum": 1e6,
        "dram__bytes_read_sum": 1e8,
        "dram__bytes_write_sum": 1e8,
    }
    naive = profile("naive", "64x64x64", lts__t_sectors_op_read_sum=2e3, lts__t_sectors_op_write_sum=0.0)
    cublas = profile(CUBLAS, "4096x4096x4096", **asked)
    roofline = Facts(facts.runs, facts.counts, run_of(naive, cublas)).roofline()
    first, *_, last = roofline.points
    assert first.levels[L2] == 2 * 64**3 / (32 * 2e3)
    flops = 2 * 4096**3
    assert (last.name, last.gflops, last.intensity) == (CUBLAS, 48000.0, flops / (32 * 4e6))
    assert last.levels == {DRAM: flops / 2e8}
    assert roofline.baseline == 0


# Errors.


def test_errors_are_compared_and_their_signs_reported():
    samples = [
        Measurement(what={"inputs": "uniform [0, 1)", "k": k}, way=way, error=error, facts={"toward_zero": share})
        for k in errors.DEPTHS
        for way, error, share in ((errors.FLOAT32, 1e-7, 0.5), (errors.NEVER, 2e-8 * k, 0.99))
    ]
    found = errors.Errors(Measurements(environment={}, measurements=samples))
    assert found.times(errors.NEVER, errors.FLOAT32, "uniform [0, 1)", "16") == "3.2"
    assert found.signs().splitlines()[2] == "| 16 | 1.0e-07 | 50% | 3.2e-07 | 99% |"
    with pytest.raises(RecordsError, match="no way to multiply is called 'TF3'; did you mean 'TF32'"):
        found.find("TF3", "normal", 16)
    with pytest.raises(RecordsError, match="needs the error of TF32 on normal inputs at k = 16"):
        found.find("TF32", "normal", 16)


# The committed pages.


def counts():
    """The committed counts, by kernel."""
    return {one.kernel: one for one in Counts.load(file_of("counts")).counts}


@pytest.fixture
def checkout(tmp_path, monkeypatch, request):
    """A copy of what the pages are made from, as the current folder; returns the root of the real ones."""
    root = request.config.rootpath
    for folder in (pages.TEXTS, FOLDER):
        shutil.copytree(root / folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    return root


@pytest.fixture
def worklog(checkout):
    samples = errors.Errors(Measurements.load(file_of("errors")))
    facts = Facts(Facts.load_runs(), counts(), Measurements.load(file_of("profiles")))
    return pages.Worklog(facts, samples, SourceCounts.load(file_of("sources")), *runs("variations"))


@pytest.mark.further
def test_the_committed_pages_are_what_their_words_and_data_make(checkout, worklog):
    made = dict(worklog.pages())
    assert len(made) == len(rungs.with_page()) + 5  # each rung that was measured is among these, and must have a page
    for path, text in made.items():
        assert (checkout / path).read_text() == text, f"{path} is out of date: run make docs"


def assert_same(committed, made, path):
    """Charts of another matplotlib have lines and letters elsewhere by a hair, and are not compared."""
    if "Matplotlib" not in committed or f"v{matplotlib.__version__}," in committed:
        assert committed == made, f"{path} is out of date: run make docs"


FIGURES = [
    ("naive", "coalescing"),
    ("vectorized", "banks"),
    ("warptiled", "tiling"),
    ("thread_tiled_2d", "quantisation"),
    ("thread_tiled_1d", "loads"),
]


@pytest.mark.further
@pytest.mark.parametrize(("name", "kind"), FIGURES)
def test_committed_figures_are_what_the_kernels_do(checkout, worklog, name, kind):
    path = pages.FIGURES / pages.figure_name(find(name), kind)
    assert_same((checkout / path).read_text(), worklog.figure(find(name), kind), path)


def test_the_speeds_in_the_package_are_those_of_the_records(request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)
    made = rungs.speeds(Facts(Facts.load_runs(), {}))
    assert made == course.measured(), f"{command.COURSE} is out of date: run make docs"
    assert [one.kernel for one in made.rungs] == [kernel.name for kernel in LADDER if rungs.is_measured(kernel)]


@pytest.mark.parametrize("kernel", LADDER, ids=lambda kernel: kernel.name)
def test_the_contents_have_the_speed_of_each_rung(request, kernel):
    if not rungs.is_measured(kernel):
        pytest.skip(rungs.without_record(kernel))
    (one,) = (one for one in course.measured().rungs if one.kernel == kernel.name)
    page = (request.config.rootpath / pages.FOLDER / pages.INDEX).read_text()
    assert re.search(rf"\[{one.kernel}\]\([^|]*\| [^|]* \| {ratios.speed(one.gflops)} \|", page)


def test_speeds_of_rungs_need_a_record_of_each_next_to_cublas(make_record, monkeypatch):
    facts = {"name": "NVIDIA H200", "compute_capability": "9.0"}
    environment = {"gpu": facts, "date": "2026-11-21T09:47:14+00:00", "revision": "abc1234"}
    measured = make_record(m=4096, n=4096, k=4096)
    with pytest.raises(RecordsError, match="the worklog needs a record of coalesced"):
        rungs.speeds(Facts([Run(environment=environment, records=[measured])], {}))
    alone = measured.model_copy(update={"baseline": None})
    with pytest.raises(RecordsError, match="the record of naive has no baseline"):
        rungs.speeds(Facts([Run(environment=environment, records=[alone])], {}))
    never = course.measured().model_copy(update={"rungs": []})
    monkeypatch.setattr(course, "measured", lambda: never)
    made = rungs.speeds(Facts([Run(environment=environment, records=[measured])], {}))
    assert [one.kernel for one in made.rungs] == ["naive"], "rungs that were never measured are left out"


def test_the_committed_roofline_is_that_of_the_records(checkout, worklog):
    for path, text in worklog_rooflines(worklog):
        assert (checkout / path).read_text() == text, f"{path} is out of date: run make docs"


def worklog_rooflines(worklog):
    yield pages.FIGURES / "roofline.svg", worklog.roofline("")
    for kernel in rungs.with_page():
        if "{{figure roofline}}" in (pages.TEXTS / pages.page_name(kernel)).read_text():
            yield pages.FIGURES / pages.figure_name(kernel, "roofline"), worklog.figure(kernel, "roofline")


@pytest.mark.parametrize("name", ["naive", "vectorized"])
def test_the_committed_counts_are_those_of_the_kernels(request, monkeypatch, name):
    monkeypatch.chdir(request.config.rootpath)
    kernel = find(name)
    committed = counts()[name]
    now = counted.counted(kernel, Facts(Facts.load_runs(), {}).config(kernel), problem_of(kernel))
    assert (now.groups, now.ffma, now.requested_bytes) == (
        committed.groups,
        committed.ffma,
        committed.requested_bytes,
    ), "results/emulator/counts.json is out of date: run make docs"


@pytest.mark.further
def test_the_committed_counts_of_sources_are_those_of_the_kernels(request):
    committed = SourceCounts.load(request.config.rootpath / file_of("sources"))
    assert counted.all_accesses() == committed.accesses, "results/emulator/sources.json is out of date: run make docs"
    assert [(one.kernel, one.config) for one in committed.sweep] == [
        (kernel.name, config) for kernel, config in variations.swept()
    ]
    versions = [resolve(version.preset) for version in published.FASTCUDA]
    assert [(one.kernel, one.config) for one in committed.presets] == [
        (kernel.name, kernel.config(preset)) for kernel, preset in versions
    ]


def test_shares_of_tiles_and_waves():
    """One row and column more than a tile makes four tiles; one tile more than a wave makes two waves."""
    assert quantisation.of_tiles(128, 128) == 1
    assert quantisation.of_tiles(129, 128) == pytest.approx(129**2 / 256**2)
    assert quantisation.of_waves(256, 128, 4) == 1
    assert quantisation.of_waves(384, 128, 4) == pytest.approx(9 / 12)


@pytest.mark.further
@pytest.mark.parametrize(("name", "kind"), [("split", "errors"), ("promoted", "errors"), ("promoted", "promotion")])
def test_committed_pictures_of_errors_are_those_of_the_samples(checkout, worklog, name, kind):
    path = pages.FIGURES / pages.figure_name(find(name), kind)
    assert_same((checkout / path).read_text(), worklog.figure(find(name), kind), path)


SAMPLES = [
    (errors.FLOAT32, "normal", 256),
    (errors.TF32, "|normal|", 64),
    (errors.NEVER, "uniform [0, 1)", 1024),
    (errors.PROMOTED.format(64), "normal", 512),
]


@pytest.mark.further
@pytest.mark.parametrize(("way", "inputs", "k"), SAMPLES)
def test_the_committed_errors_are_those_of_the_kernels(request, way, inputs, k):
    committed = errors.Errors(Measurements.load(request.config.rootpath / file_of("errors"))).find(way, inputs, k)
    now = errors.sampled(way, inputs, k)
    assert now.error == pytest.approx(committed.error, rel=1e-3), (
        "results/emulator/errors.json is out of date: run make docs"
    )
    assert now.facts["toward_zero"] == pytest.approx(committed.facts["toward_zero"], abs=0.01)


def test_every_committed_figure_is_on_a_page(request):
    folder = request.config.rootpath / pages.FOLDER
    linked = {name for page in folder.glob("*.md") for name in re.findall(r"figures/(\w+\.svg)", page.read_text())}
    assert {path.name for path in (folder / "figures").iterdir()} == linked


def text_of(request, name):
    """The words of a page. A test of the page of a rung that was added without a GPU, and has none, is skipped."""
    if name in TEXTS and TEXTS[name] not in rungs.with_page():
        pytest.skip(rungs.without_page(TEXTS[name]))
    return (request.config.rootpath / pages.TEXTS / name).read_text()


FIRST_PAGES = (
    *("The kernel", "What a warp does", "The roof", "Prediction and measurement", "What limits it now", "Exercise"),
)


def test_figures_are_small_and_can_be_read_at_900_pixels(request):
    figures = {path.name: path.read_text() for path in (request.config.rootpath / "docs").rglob("*.svg")}
    assert [name for name, svg in figures.items() if len(svg.encode()) > 60 * 1024] == []
    sizes = {
        name: min(map(float, re.findall(r'font-size(?:="|: )([\d.]+)', svg)))
        * 900
        / float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
        for name, svg in figures.items()
    }
    assert {name: size for name, size in sizes.items() if size < 11} == {}


def test_code_on_pages_is_complete(request):
    """No snippet ends inside of an open brace."""
    for page in (request.config.rootpath / pages.FOLDER).glob("*.md"):
        for code in re.findall(r"```cuda\n(.*?)```", page.read_text(), re.DOTALL):
            assert template.open_brackets(code) == 0, f"{page.name}: {code}"


def test_loads_are_drawn_in_the_order_of_a_thread_with_what_each_serves():
    config = find("thread_tiled_1d").config({"BM": 4, "BN": 4, "BK": 7, "TM": 4, "TN": 1})
    drawn = pictures.loads(trace(find("thread_tiled_1d"), config, Problem.parse("4x4x7")), steps=1)
    assert re.findall(r">([ab]?\d)<", drawn) == ["b0", "4", "a0", "1", "a1", "1", "a2", "1", "a3", "1"]


def test_each_rung_is_in_one_part_of_the_course(checkout):
    for kernel in LADDER:
        assert sum(kernel.rung in part.rungs for part in parts.PARTS) == 1
    readme = checkout / command.LADDER_README
    assert readme.read_text() == parts.ladder_readme()
    assert all((readme.parent / link).is_file() for link in re.findall(r"\]\(([^)]+)\)", readme.read_text()))


@pytest.mark.parametrize("name", TEXTS)
def test_every_page_has_its_parts(request, name):
    text = text_of(request, name)
    heads = re.findall(r"^## (.*)", text, re.MULTILINE)
    if TEXTS[name].rung <= 6:
        first = "What the last page left" if TEXTS[name].rung > 1 else "Where we start"
        assert heads == [first, *FIRST_PAGES]
    else:
        assert heads[0] == "The idea"
        assert heads[-4:] == ["The counter", "On a real GPU", "What limits it now", "Exercise"]
    if TEXTS[name].rung <= 14 and TEXTS[name].rung != 9:
        assert "{{kernel}}" in text
    assert "{{mark" in text.partition("## Exercise")[2]
    assert "{{figure" in text and "{{limits}}" in text and "{{measured" in text and "{{counters" in text


@pytest.mark.parametrize("name", [*TEXTS, pages.INDEX, pages.MACHINE_PAGE, pages.SOURCES_PAGE, hopper.PAGE])
def test_no_measured_or_counted_number_is_typed_by_hand(request, name):
    words = re.sub(r"\{\{.*?\}\}", "", text_of(request, name), flags=re.DOTALL)
    assert not re.findall(r"\d[.,]\d|\d ?%|\d ?[GT]FLOP", words)


def test_metrics_that_pages_show_exist_and_all_are_shown(request):
    asked = set()
    for name in map(pages.page_name, rungs.with_page()):
        text = text_of(request, name)
        for slot in re.findall(r"\{\{counters \S+ ([^}]*)\}\}", text):
            asked |= set(slot.split())
        asked |= set(re.findall(r"\{\{metric\s+\w+\s+(\w+)\}\}", text))
    assert asked == set(METRICS)


# The command.


def test_the_command_writes_everything(checkout, monkeypatch):
    committed = counts()
    monkeypatch.setattr(command, "counted", lambda kernel, config, problem: committed[kernel.name])
    samples = Measurements.load(file_of("errors"))
    monkeypatch.setattr(errors, "all_sampled", lambda: iter(samples.measurements))
    of_sources = SourceCounts.load(file_of("sources"))
    monkeypatch.setattr(sources, "all_counted", lambda: of_sources)
    monkeypatch.setattr(pages.Worklog, "figure", lambda self, kernel, kind: f"<svg>{kernel.name} {kind}</svg>")
    shutil.rmtree(pages.FOLDER / "figures", ignore_errors=True)
    command.write()
    assert counts() == committed
    assert Measurements.load(file_of("errors")) == samples
    assert SourceCounts.load(file_of("sources")) == of_sources
    assert (pages.FIGURES / "10_warptiled_tiling.svg").read_text() == "<svg>warptiled tiling</svg>"
    assert (pages.FOLDER / "17_skinny.md").read_text() == (checkout / pages.FOLDER / "17_skinny.md").read_text()


def test_a_missing_file_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecordsError, match=r"cannot read the records in results/h200/ladder\.json"):
        command.write()


def test_steps_of_fast_cu_are_next_to_the_rungs_with_their_ideas(request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)
    facts = Facts(Facts.load_runs(), {})
    *rows, _, _ = sources.fast_cu(facts).splitlines()
    assert rows[0].startswith("| m x n x k | rung | fast.cu's step | H100, GFLOP/s | cuBLAS there | of cuBLAS | H200,")
    assert len(rows) == 2 + 2 * len(published.FAST_CU) - 1
    assert "| 26 tma_store | stores by TMA, tiles along a Hilbert curve | 807,700 | 797,800 | 101.2% |" in rows[-1]
    assert "| 764,000 |  |  |" in rows[6]  # without a speed of cuBLAS there is no share
    assert sources.fast_cu(facts, 26).splitlines()[2:4] == [rows[7], rows[-1]]
    with pytest.raises(LookupError):
        sources.fast_cu(facts, 19)


def test_a_prediction_is_compared_with_what_was_published():
    one = sources.Predicted(kernel="naive", shape="64x64x64", gflops=2 * published.A6000[1], registers=1, warps=8)
    assert sources.of_published([one], "1", "64x64x64") == "2.00"
