"""The chart and the tables of what a float32 product may be computed in."""

import itertools

import pytest

from studies.performance import page as performance
from studies.precisions import BASELINE
from studies.precisions import tables as precisions
from studies.record import Measurement, Measurements
from tilewright.tools.bench.records import Run

WAYS = {
    "PyTorch float32": ("PyTorch 2", 2680.0, 1.15e-6),
    "PyTorch TF32": ("PyTorch 2", 344.0, 2.9e-4),
    "tilewright float32": ("tilewright 0.1", 1182.0, 2.5e-7),
    "tilewright fp16x3": ("tilewright 0.1", 731.0, 2.3e-7),
    "JAX highest": ("JAX 0.11", 2690.0, 1.15e-6),
    "Triton bf16x6": ("Triton 3.5", 2050.0, 4.4e-6),
}
ENVIRONMENT = {
    "revision": "abc1234",
    "date": "2026-11-23T18:22:08+00:00",
    "gpu": {"name": "NVIDIA H200", "compute_capability": "9.0"},
}
RESULTS = Run(environment=ENVIRONMENT, records=[])


def choice(way, size=4096, **changes):
    library, us, error = WAYS[way]
    fields = {"us": us, "error": error, "facts": {"library": library}} | changes
    return Measurement(what={"m": size, "n": size, "k": size}, way=way, **fields)


def case(inputs, k, ours, baseline=None, way="tilewright float32"):
    """Errors of an element and of all, of a way and of PyTorch's float32 if they are given."""
    what = {"inputs": inputs, "m": 64, "n": 64, "k": k}
    pairs = {BASELINE: baseline, way: ours}
    return [
        Measurement(what=what, way=name, error=errors[1], facts={"element": errors[0]})
        for name, errors in pairs.items()
        if errors
    ]


def run_of(*measurements):
    return Measurements(environment=ENVIRONMENT, measurements=measurements)


@pytest.fixture
def measured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    precisions.CHART.parent.mkdir()
    small = choice(BASELINE, 1024, us=53.0), choice("tilewright float32", 1024, us=30.0)
    return run_of(*map(choice, WAYS), *small, *case("normal", 64, (1e-7, 2e-7), (2e-7, 2e-7)))


def test_each_way_has_its_speed_over_the_baselines_and_its_error(measured):
    lines = precisions.sections(measured)["precisions"].splitlines()
    assert "| way | 4096x4096x4096 | error | 1024x1024x1024 | error |" in lines
    assert "| PyTorch float32 | 51.3 (1.00x) | 1.00 | 40.5 (1.00x) | 1.00 |" in lines
    assert "| PyTorch TF32 | 399.5 (7.79x) | 252.17 |  |  |" in lines
    assert "| tilewright float32 | 116.3 (2.27x) | 0.22 | 71.6 (1.77x) | 0.22 |" in lines


def test_the_readme_opens_with_the_chart(measured):
    precisions.draw(measured)
    assert str(precisions.CHART) in performance.chart(RESULTS, measured)
    text = precisions.CHART.read_text()
    assert ">Float32 products of 4096x4096x4096 on one NVIDIA H200:<" in text and ">speed over error, one run<" in text
    for way in WAYS:
        assert f">{way}</text>" in text
    assert "prefers-color-scheme:dark" in text
    precisions.draw(measured)
    assert precisions.CHART.read_text() == text


def test_the_chart_is_described_in_sentences(measured):
    alt = performance.chart(RESULTS, measured).partition("![")[2].partition("](")[0]
    assert alt == (
        "A chart of 6 ways to multiply float32 matrices of 4096x4096x4096 on an NVIDIA H200: TFLOP/s against relative "
        "error. PyTorch's float32 reaches 51.3 TFLOP/s; tilewright fp16x3 reaches 188.0 TFLOP/s with 0.20 times that "
        "error; tilewright float32 reaches 116.3 TFLOP/s with 0.22 times that error."
    )


def test_a_chart_of_another_revision_than_the_results_says_so(measured):
    assert "revision" not in performance.chart(RESULTS, measured)
    later = RESULTS.model_copy(update={"environment": {"revision": "def5678", "date": "2026-11-24T22:16:19+00:00"}})
    said = "The chart is of revision abc1234 (2026-11-23), the figures below are of revision def5678 (2026-11-24)"
    assert said in performance.chart(later, measured)


def test_of_adversarial_inputs_the_worst_depth_counts():
    cases = [
        case("normal", 64, (1e-7, 2e-7), (2e-7, 2e-7)),
        case("normal", 200, (3e-7, 1e-7), (2e-7, 2e-7)),
        case("identity", 64, (0.0, 0.0), (0.0, 0.0)),
        case("powers", 64, (3e-8, 0.0), (0.0, 0.0)),
        case("huge", 64, (None, 0.0), (1e-8, 0.0)),
        case("huger", 64, (None, None), (None, None)),
        case("normal", 64, (8e-7, 8e-7), way="tilewright fp16x3"),
    ]
    rows = precisions.sections(run_of(*itertools.chain(*cases)))["adversarial"].splitlines()
    assert rows[2] == "| inputs | float32: element, all | fp16x3: element, all |"
    assert rows[4:] == [
        "| normal | 1.50, 1.00 | 4.00, 4.00 |",
        "| identity | exact, exact |  |",
        "| powers | 3e-08, exact |  |",
        "| huge | not finite, exact |  |",
        "| huger | neither is finite, neither is finite |  |",
    ]
