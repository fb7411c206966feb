"""Expected speedup of a product over cuBLAS."""

import uuid

import pytest

from tilewright.core.problem import Arithmetic, Layout, Problem, orders
from tilewright.kernels import find
from tilewright.select.speedup import expected_speedup
from tilewright.select.tables import store
from tilewright.select.tables.entry import Entry

H200 = (9, 0), "NVIDIA H200"


def entry(size, gflops, baseline, case="NN float32", **fields):
    fields = {"kernel": "naive", "config": {"BLOCK_X": 32}, "gflops": gflops, "baseline_gflops": baseline} | fields
    return Entry(m=size, n=size, k=size, case=case, **fields)


@pytest.fixture
def expected(tmp_path, monkeypatch):
    """Speedups on a GPU whose table has these entries."""
    monkeypatch.setenv(store.FOLDER_VARIABLE, str(tmp_path / "tables"))

    def by(*entries):
        device = f"GPU {uuid.uuid4()}"  # what is known of one is remembered
        store.save(device, (8, 0), entries)
        return lambda problem: expected_speedup(problem, (8, 0), device)

    return by


def test_a_tabled_problem_has_what_was_measured(expected):
    slower = entry(256, 1200.0, 1000.0, config={"BLOCK_X": 16})
    found = expected(entry(256, 1500.0, 1000.0), slower)(Problem(256, 256, 256))
    assert found.ratio == pytest.approx(1.5)
    assert found.saved_us == pytest.approx(2 * 256**3 / 1e6 * (1 - 1 / 1.5))


def test_what_errs_much_does_not_count_where_something_errs_little(expected):
    wrong = entry(256, 3000.0, 1000.0, config={"BLOCK_X": 16}, error_ratio=4.0)
    right = entry(256, 900.0, 1000.0, error_ratio=1.0)
    assert expected(wrong, right)(Problem(256, 256, 256)).ratio == pytest.approx(0.9)


def test_between_tabled_problems_the_nearer_one_counts_more(expected):
    between = expected(entry(256, 2000.0, 1000.0), entry(512, 1400.0, 1000.0))
    near, far = (between(Problem(size, size, size)).ratio for size in (288, 448))
    assert 1.2 < far < 1.67 < near < 2.0
    assert between(Problem(448, 448, 448)).saved_us > 0


def test_a_guess_is_below_the_mean_of_what_differs(expected):
    between = Problem(310, 310, 310)
    assert expected(entry(256, 1500.0, 1000.0), entry(384, 1500.0, 1000.0))(between).ratio == pytest.approx(1.5)
    assert expected(entry(256, 2000.0, 1000.0), entry(384, 1125.0, 1000.0))(between).ratio < 1.45


def test_nothing_is_known_far_from_what_was_measured_and_of_other_cases(expected):
    of = expected(entry(256, 2000.0, 1000.0))
    assert of(Problem(8192, 8192, 8192)) is None
    assert of(Problem(256, 256, 256, Arithmetic("float16", "float16"))) is None
    assert of(Problem(256, 256, 256, b=orders("NT")[1])) is None
    assert of(Problem(0, 256, 256)) is None
    assert of(Problem(256, 256, 0)) is None
    assert expected()(Problem(256, 256, 256)) is None


def test_entries_without_a_baseline_say_nothing(expected):
    assert expected(entry(256, 2000.0, None))(Problem(256, 256, 256)) is None


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_the_shipped_table_expects_gains_of_large_float32_products(layout):
    """By tensor cores; and by CUDA cores where nothing else may be."""
    a, b = orders(layout)
    by_parts, alone = (
        expected_speedup(Problem(4096, 4096, 4096, Arithmetic(precision=one), a=a, b=b), *H200)
        for one in (None, "ieee")
    )
    assert 1.0 <= alone.ratio < 1.3
    assert 1.8 <= by_parts.ratio < 2.8
    assert expected_speedup(Problem(4096, 4096, 4096, a=Layout(a.order, 5000), b=b), *H200).ratio == by_parts.ratio


def test_another_gpu_of_the_same_capability_takes_the_table_that_ships():
    assert expected_speedup(Problem(4096, 4096, 4096), (9, 0), "NVIDIA H100") is not None
    assert expected_speedup(Problem(4096, 4096, 4096), (8, 0), "NVIDIA A100") is None


def test_only_what_keeps_the_precision_counts(expected):
    parts = entry(256, 4000.0, 1000.0, kernel="gemm_fp16x3", config=dict(find("gemm_fp16x3").config()))
    speedup = expected(entry(256, 1500.0, 1000.0), parts)
    assert speedup(Problem(256, 256, 256)).ratio == pytest.approx(1.5)
    assert speedup(Problem(256, 256, 256, Arithmetic(precision="fp16x3"))).ratio == pytest.approx(4.0)
