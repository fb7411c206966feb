"""The table of prepared factors."""

from studies.performance.prepared import markdown


def test_each_prepared_product_stands_next_to_the_one_before_it(make_record):
    fast = make_record(gflops=3086.25, ratio=1.25, precision="bf16x6", prepared=True)
    assert markdown([make_record(), fast, make_record()]).splitlines()[2:] == [
        "| 64x64x64 | NN float32 | 1,234 / 2,469 = 0.50* | 3,086 / 2,469 = 1.25 | 2.50 |"
    ]


def test_without_prepared_products_there_is_no_table(make_record):
    assert markdown([make_record()]) == ""
