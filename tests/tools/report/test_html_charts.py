"""The charts of a report, as data."""

import math

import plotly.graph_objects as go
import pytest

from tilewright.tools.bench.records import Baseline, LaunchedKernel, Run, Times
from tilewright.tools.report.html import charts
from tilewright.tools.report.html.comparison import compare
from tilewright.tools.report.html.page import colours, searches
from tilewright.tools.report.html.series import baselines, points, series_of, words
from tilewright.tools.report.html.sources import Source
from tilewright.tools.tune.journal import read


def traces(figure, name):
    return [trace for trace in figure["data"] if trace.get("name") == name]


def test_a_point_is_the_fastest_right_record_of_a_shape(make_run, make_record):
    def record(gflops, **changes):
        return make_record(gflops=gflops, time_us=Times(min=1, median=1e6 / gflops if gflops else 1), **changes)

    records = [record(10), record(30), record(20), record(90, verified=False), record(40, beta=0.5), record(0, m=0)]
    found = points([Source("run", Run(environment={}, records=records))])
    assert [(point.series.title, point.record.gflops) for point in found] == [
        ("1 naive", 30),
        ("1 naive, beta=0.5", 40),
    ]


def test_series_come_in_the_order_of_rungs_with_what_was_picked_last(make_record):
    records = [
        make_record(kernel="best", rung=3, picked="shared_tiled"),
        make_record(kernel="wmma_tf32", rung=13, precision="tf32"),
        make_record(kernel="naive", rung=2),
        make_record(kernel="gemm_wmma", rung=0),
    ]
    titles = [series.title for series in sorted(map(series_of, records))]
    assert titles == ["gemm_wmma", "2 naive", "13 wmma_tf32, tf32", "best"]


def test_the_intensity_counts_each_matrix_once_and_c_twice_where_it_is_read(make_record):
    def intensity(**changes):
        record = make_record(m=10, n=20, k=30, **changes)
        [point] = points([Source("run", Run(environment={}, records=[record]))])
        return point.intensity

    operations, factors, result = 2 * 10 * 20 * 30, 10 * 30 + 30 * 20, 10 * 20
    assert intensity() == pytest.approx(operations / (4 * factors + 4 * result))
    assert intensity(beta=0.5) == pytest.approx(operations / (4 * factors + 8 * result))
    assert intensity(dtype="float16") == pytest.approx(operations / (2 * factors + 4 * result))


def test_words_on_a_point_hold_what_was_measured_and_with_what(make_run):
    found = points([Source("run", make_run())])
    text = words(next(point for point in found if point.shape == "4096x4096x4096" and point.series.rung == 10))
    assert text.startswith("<b>10 warptiled</b><br>4096x4096x4096, float32<br>40,000 GFLOP/s, median 3.44 ms")
    assert "80.0% of cuBLASLt 13.1.0<br>BM=64 BN=10<br>error 1.0e-07, right up to 1.0e-06" in text
    assert text.endswith("run: NVIDIA H200<br>SM 1980 MHz, memory 3201 MHz")


def test_words_on_a_baseline_name_its_error_and_the_kernels_it_ran(make_record):
    kernels = [LaunchedKernel(name="sgemm<128>", grid=(8, 4, 1), block=(256, 1, 1))]
    time = Times(min=90.0, median=100.0)
    baseline = Baseline(name="cuBLAS", version="13", time_us=time, gflops=5.0, kernels=kernels, error=2.5e-7)
    [point] = points([Source("run", Run(environment={}, records=[make_record(baseline=baseline)]))])
    [[of_baseline]] = baselines([point]).values()
    assert words(of_baseline) == (
        "<b>cuBLAS 13</b><br>64x64x64, float32<br>5 GFLOP/s, median 100.00 us, fastest 90.00 us<br>error 2.5e-07<br>"
        "ran sgemm&lt;128&gt;<br>grid 8 x 4 x 1, block 256 x 1 x 1<br>run: an unknown GPU"
    )
    assert "error 1.0e-07, right up to 1.0e-06, of the baseline 2.5e-07" in words(point)


def test_emulated_words_claim_no_speed(make_run):
    text = words(points([Source("run", make_run(engine="emulator"))])[0])
    assert "emulator time, not a GPU time: median" in text
    assert "GFLOP/s" not in text
    assert "%" not in text


def test_baselines_are_named_by_arithmetic_and_the_fastest_of_each_shape(make_run, make_record):
    def next_to(name, gflops, **changes):
        time = Times(min=1, median=1)
        return make_record(baseline=Baseline(name=name, version="1", time_us=time, gflops=gflops), **changes)

    records = [
        next_to("cuBLAS", 5.0), next_to("cuBLASLt", 7.0, kernel="b"), next_to("cuBLAS TF32", 9.0, precision="tf32"),
    ]  # fmt: skip
    found = baselines(points([Source("run", Run(environment={}, records=records))]))
    speeds = {name: [point.record.baseline.gflops for point in some] for name, some in found.items()}
    assert speeds == {"cuBLAS": [7.0], "cuBLAS, tf32": [9.0]}


def test_lines_go_through_powers_of_two_and_other_shapes_are_open_symbols(make_run):
    source = Source("run", make_run())
    figure = charts.speed(points([source]), [source])
    line, others = traces(figure, "1 naive")
    assert line["x"] == [1024, 2048, 4096]
    assert line["y"] == [250, 500, 500]
    assert others["mode"] == "markers"
    assert others["x"] == [256]
    assert [trace["mode"] for trace in traces(figure, "cuBLAS")] == ["lines+markers", "markers"]


def test_lines_go_through_all_squares_where_few_are_powers_of_two(make_record):
    records = [make_record(m=size, n=size, k=size) for size in (1000, 1024, 3000)]
    source = Source("run", Run(environment={}, records=records))
    [line, *others] = traces(charts.speed(points([source]), [source]), "1 naive")
    assert (line["x"], others) == ([1000, 1024, 3000], [])


def test_files_with_the_same_kernels_differ_in_dash_and_symbol(make_run):
    sources = [Source("before", make_run()), Source("after", make_run(1.1))]
    figure = charts.speed(points(sources), sources)
    lines = [trace for trace in traces(figure, "1 naive") if "line" in trace]
    assert [(trace["line"]["dash"], trace["marker"]["symbol"]) for trace in lines] == [
        ("solid", "circle"), ("dash", "square"),
    ]  # fmt: skip
    assert lines[0]["line"]["color"] == lines[1]["line"]["color"]
    assert [trace["meta"]["file"] for trace in lines] == [0, 1]


def test_the_map_of_ratios_names_the_file_only_where_it_has_to(make_run):
    sources = [
        Source("b", make_run()),
        Source("a", make_run(1.1, kernels=(("naive", 1, 600.0), ("padded", 8, 9e3)))),
    ]
    [trace] = charts.ratios(points(sources))["data"]
    assert trace["x"] == ["1 naive, b", "1 naive, a", "8 padded", "10 warptiled"]
    assert trace["y"] == ["1x4096x4096", "1024x1024x1024", "2048x2048x2048", "4096x4096x4096"]
    assert [row[3] for row in trace["text"]] == ["0.01", "0.40", "0.80", "0.80"]
    assert trace["z"][3][3] == pytest.approx(math.log2(0.8))


def test_a_map_of_many_shapes_is_long_and_one_of_many_names_wide():
    def size(names, shapes):
        layout = charts.ratio_map(list(map(str, range(names))), list(map(str, range(shapes))), {}, {}, (0.5, 2))[
            "layout"
        ]
        return layout["meta"]["least_width"], layout["height"]

    few, many = size(3, 4), size(20, 60)
    assert many[1] - few[1] == 56 * 24
    assert many[0] - few[0] == 17 * 40
    assert few[0] < 390


def test_the_roof_turns_where_memory_and_arithmetic_meet(make_run):
    source = Source("run", make_run())
    figure = charts.roofline(points([source]), [source])
    [roof] = traces(figure, "roof of H200")
    peak = 1e3 * source.gpu.tflops
    assert roof["x"][1] == pytest.approx(peak / 4800)
    assert roof["y"][0] == pytest.approx(4800 * roof["x"][0])
    assert roof["y"][1:] == pytest.approx([peak, peak])
    assert all(min(trace["x"]) > roof["x"][0] for trace in figure["data"][1:])


def test_each_arithmetic_has_a_roof_of_its_own(make_run):
    tf32 = make_run(kernels=(("wmma_tf32", 13, 70000.0),), precision="tf32").records
    fp32 = make_run(kernels=(("skinny", 17, 5000.0),)).records
    source = Source("run", Run(environment=make_run().environment, records=[*tf32, *fp32]))
    figure = charts.roofline(points([source]), [source])
    roofs = {trace["name"]: max(trace["y"]) / 1e3 for trace in figure["data"] if trace["mode"] == "lines"}
    assert roofs == {
        "roof of H200": pytest.approx(source.gpu.peak_tflops("float32")),
        "roof of H200, tf32": pytest.approx(source.gpu.peak_tflops("tf32")),
    }
    assert [note["text"].split(":")[0] for note in figure["layout"]["annotations"]] == [
        "float32 peak of H200", "tf32 peak of H200",
    ]  # fmt: skip


def test_two_gpus_have_two_roofs_and_one_has_one(make_run):
    sources = [Source("a", make_run()), Source("b", make_run(gpu="NVIDIA GH200")), Source("c", make_run())]
    names = [trace["name"] for trace in charts.roofline(points(sources), sources)["data"] if trace["mode"] == "lines"]
    assert names == ["roof of H200", "roof of GH200"]


def test_emulator_times_are_seconds_by_kernel_next_to_numpy(make_run, make_record):
    baseline = Baseline(name="NumPy", version="2", time_us=Times(min=1, median=14000.0), gflops=1)
    record = make_record(engine="emulator", baseline=baseline, time_us=Times(min=1, median=2.5e6))
    source = Source("run", Run(environment={}, records=[record]))
    figure = charts.emulator_times(points([source]), [source])
    [trace] = figure["data"]
    assert (trace["x"], trace["y"]) == (["1 naive", "NumPy"], [2.5, 0.014])
    assert "not GPU times" in figure["layout"]["yaxis"]["title"]["text"]


def test_a_comparison_holds_what_both_files_measured(make_run):
    before = Source("before", make_run())
    after = Source("after", make_run(1.25, kernels=(("naive", 1, 500.0), ("padded", 8, 9e3)), config={"BM": 128}))
    comparison = compare(before, after, points([before, after]))
    assert {change.title for change in comparison.changes} == {"1 naive", "cuBLAS"}
    assert [change.ratio for change in comparison.changes] == pytest.approx([1.25] * 4 + [1.0] * 4)
    assert comparison.changes[0].config == "BM=64 BN=1 → BM=128"
    assert comparison.summary == (
        "The kernels run 1.250 times as fast in after as in before, in the geometric mean of 4 products: 4 are faster, "
        "0 slower, 0 alike within 2%. The baselines run 1.000 times as fast."
    )
    [trace] = comparison.figure["data"]
    assert trace["x"] == ["1 naive", "cuBLAS"]
    assert trace["text"] == [["1.25", "1.00"]] * 4
    assert "before: 500 GFLOP/s" in trace["hovertext"][3][0]


def test_files_without_a_kernel_in_common_are_not_compared(make_run):
    one, other = Source("one", make_run()), Source("other", make_run(kernels=(("padded", 8, 9e3),)))
    assert compare(one, other, points([one, other])) is None


def test_times_of_the_emulator_are_not_compared_with_those_of_a_gpu(make_run):
    one, other = Source("one", make_run()), Source("other", make_run(engine="emulator"))
    assert compare(one, other, points([one, other])) is None


def test_plotly_takes_every_figure(make_run):
    sources = [Source("a", make_run()), Source("b", make_run(0.9)), Source("c", make_run(engine="emulator"))]
    found = points(sources)
    real, emulated = ([p for p in found if p.source.emulated == flag] for flag in (False, True))
    for figure in (
        charts.speed(real, sources),
        charts.ratios(real),
        charts.roofline(real, sources),
        charts.emulator_times(emulated, sources),
        compare(sources[0], sources[1], found).figure,
    ):
        assert len(go.Figure(figure).data) == len(figure["data"]) > 0  # raises where a name or a value is unknown


def test_searches_hold_every_trial_in_the_order_of_the_search(tmp_path, write_journal):
    trials = read(write_journal(tmp_path / "a.jsonl")) + read(write_journal(tmp_path / "b.jsonl", kernel="padded"))[:2]
    first, second = searches(list(reversed(trials)))
    assert first["title"] == "vectorized, 512x512x512, NN float32, NVIDIA H200"
    assert first["parameters"] == ["BM", "BN", "BK", "TM", "TN"]
    assert first["counts"] == "4 timed, 1 stopped, 1 wrong"
    assert [trial["at_s"] for trial in first["trials"]] == [1, 2, 3, 4, 5, 6]
    assert first["trials"][3]["values"] == [128, 128, 16, 4, 8]
    assert first["trials"][5]["gflops"] is None
    assert len(second["trials"]) == 2


def test_searches_of_a_changed_kernel_stand_apart(tmp_path, write_journal):
    trials = read(write_journal(tmp_path / "a.jsonl")) + read(write_journal(tmp_path / "b.jsonl", digest="e"))
    assert [search["title"].split(", ")[-1] for search in searches(trials)] == ["source d", "source e"]


def test_colours_are_distinct_and_equally_light():
    def luminance(colour):
        channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for lightness in (0.56, 0.76):
        found = colours(17, lightness, 0.13)
        assert len(set(found)) == 17
        lights = list(map(luminance, found))
        assert max(lights) < 1.45 * min(lights)
    assert colours(1, 0.5, 0.0) == ["#636363"]  # no chroma is grey, and Oklab's 0.5 is 0x63 in sRGB
