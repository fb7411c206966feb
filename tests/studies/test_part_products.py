"""Tables of float32 products on tensor cores, next to cuBLAS's float32."""

import re

import pytest

from studies.performance import part_products
from studies.performance.part_products import Found
from tilewright.core.errors import RecordsError
from tilewright.core.gpus import find_gpu
from tilewright.tools.bench.records import Baseline, Times

H200 = find_gpu("NVIDIA H200", (9, 0))
TIME = Times(min=1.0, median=1.0)


@pytest.fixture
def record(make_record):
    """Makes a record of the pick for a problem: a speed, next to cuBLAS of its own run."""

    def make(m, n, k, gflops, cublas, **changes):
        baseline = Baseline(name="cuBLAS", version="13", time_us=TIME, gflops=cublas, error=4e-7)
        sizes = {"m": m, "n": n, "k": k, "gflops": gflops, "baseline": baseline, "ratio": gflops / cublas}
        return make_record(kernel="best", picked="gemm", config={}, **sizes, **changes)

    return make


@pytest.fixture
def found(record):
    exact = [
        record(4096, 4096, 4096, 115672.0, 51235.0, precision="bf16x6"),
        record(2048, 2048, 2048, 106247.0, 50592.0, precision="bf16x6"),
        record(256, 256, 256, 11072.0, 5021.0),
        record(128, 4096, 14336, 51594.0, 48624.0, time_us=Times(min=290.0, median=291.4)),
    ]
    fast = [record(4096, 4096, 4096, 187783.0, 51400.0, precision="fp16x3", promise="fp16x3")]
    by_shape = {name: {one.shape: one for one in records} for name, records in (("float32", exact), ("fp16x3", fast))}
    return Found(by_shape, H200)


def test_each_cell_has_the_baseline_of_its_own_run(found):
    heads, _, row = part_products.sections(found)["parts"].splitlines()
    assert heads == "| m x n x k | float32: GFLOP/s / cuBLAS's | error | fp16x3: GFLOP/s / cuBLAS's | error |"
    assert row == "| 4096x4096x4096 | 115,672 / 51,235 = 2.26 | 0.25 | 187,783 / 51,400 = 3.65 | 0.25 |"


def test_picks_that_are_no_longer_todays_are_marked(found):
    stale = found._replace(stale=frozenset({("fp16x3", "4096x4096x4096"), ("float32", "128x4096x14336")}))
    text = part_products.sections(stale)["parts"]
    row, _, words = text.splitlines()[2:]
    assert row == "| 4096x4096x4096 | 115,672 / 51,235 = 2.26 | 0.25 | 187,783 / 51,400 = 3.65 † | 0.25 |"
    assert words == "†: today `matmul` picks another kernel or config."
    assert "†" not in part_products.sections(found)["parts"]


def test_products_on_cuda_cores_have_a_star_and_what_was_not_measured_a_gap(found):
    rows = part_products.sections(found)["results"].splitlines()
    assert rows[2] == "| 256x256x256 | 11,072 / 5,021 = 2.21* | 0.25 |  |  |"
    assert rows[3] == "| 1024x1024x1024 |  |  |  |  |"


def test_a_ratio_of_another_run_is_refused(record):
    mixed = record(4096, 4096, 4096, 115672.0, 51235.0, precision="fp16x3").model_copy(update={"ratio": 2.4})
    with pytest.raises(RecordsError, match="must come from one run"):
        part_products.sections(Found({"fp16x3": {mixed.shape: mixed}}, H200))


def test_reading_the_large_factor_is_a_share_of_the_time(found):
    sentence = "Reading b of 128x4096x14336 takes 49 us at the 4,800 GB/s of the memory of an H200, 17% of"
    assert part_products.reading(found).startswith(sentence)


def claim(found, *records, fast=()):
    """Claim from these records of float32, and of fp16x3."""
    by_shape = {name: {one.shape: one for one in of} for name, of in (("float32", records), ("fp16x3", fast)) if of}
    return part_products.claim(found._replace(records=by_shape))


def test_the_claim_is_the_range_of_large_products(found):
    text = part_products.claim(found)
    assert "float32 products with results of 2048 x 2048 or larger and k of 2048 to 4096 are 2.10 to 2.26 times" in text
    assert "as fast as cuBLAS's, with 0.25 times its error on random inputs. Shorter k was not measured." in text
    assert 'With `precision="fp16x3"` and k of 4096 they are 3.65 times as fast, with 0.25 times cuBLAS' in text
    assert "fp16x3" not in part_products.claim(found._replace(records={"float32": found.records["float32"]}))


def test_the_claim_begins_at_the_k_from_which_on_all_products_are_twice_as_fast(found, record):
    """Whatever computed them: a product on CUDA cores counts as any other."""
    split = {"precision": "bf16x6"}
    deep = [record(2048, 2048, 1024, 105000.0, 50000.0, **split), record(4096, 4096, 8192, 120000.0, 50000.0, **split)]
    short = [
        record(4096, 4096, 512, 116500.0, 50000.0, **split),
        record(2048, 2048, 512, 91000.0, 50000.0, **split),
        record(2048, 2048, 64, 43500.0, 50000.0),
        record(4096, 4096, 128, 112000.0, 50000.0, **split),
    ]
    small = record(1024, 4096, 4096, 60000.0, 50000.0, **split)
    text = claim(found, *deep, *short, small)
    assert "k of 1024 to 8192 are 2.10 to 2.40 times as fast as cuBLAS's" in text
    assert "With k of 64 to 512 they are 0.87 to 2.33 times as fast, with 0.25 times cuBLAS's error." in text
    assert "not measured" not in text
    fast = [one.model_copy(update={"promise": "fp16x3"}) for one in (*deep, *short[:2])]
    assert 'With `precision="fp16x3"` and k of 1024 to 8192 they are 2.10 to 2.40' in claim(found, *deep, fast=fast)


def test_where_the_largest_k_is_slow_the_claim_is_about_all(found, record):
    some = [
        record(4096, 4096, k, gflops, 50000.0, precision="bf16x6") for k, gflops in ((64, 120000.0), (128, 60000.0))
    ]
    assert "k of 64 to 128 are 1.20 to 2.40 times as fast as cuBLAS's" in claim(found, *some)


def test_the_committed_runs_are_of_one_gpu():
    found = part_products.load()
    assert list(found.records) == list(part_products.PRECISIONS)
    assert found.gpu.name == "H100"
    assert all("4096x4096x4096" in of for of in found.records.values())


@pytest.mark.parametrize("page", ["README.md", "docs/results.md", "docs/records.md", "docs/lab-notebook.md"])
def test_every_printed_quotient_divides(request, page):
    text = (request.config.rootpath / page).read_text()
    quotients = re.findall(r"([\d.,]+) / ([\d.,]+) = ([\d.]+)", text)
    assert len(quotients) > 8
    for ours, baseline, printed in quotients:
        assert f"{float(ours.replace(',', '')) / float(baseline.replace(',', '')):.2f}" == printed
