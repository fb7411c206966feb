"""Which entries of tables count, where a problem or its twin is in several or was timed in two ways."""

import pytest

from tilewright.kernels import find
from tilewright.select.measured import that_count
from tilewright.tables.table import Entry, Table

H200, H100 = "NVIDIA H200", "NVIDIA H100 80GB HBM3"
CONFIG = dict(find("gemm_sm90").config())


def entry(case, apart, gflops):
    case = f"NN {case}->{case}"
    return Entry(
        m=1000, n=1000, k=1000, batch=1, case=case, kernel="gemm_sm90", config=CONFIG, gflops=gflops, apart=apart
    )


def table(gpu, *entries):
    return Table(gpu=gpu, capability=(9, 0), entries=entries)


COUNTS = {
    "the first table's": ([(H200, "float16", True), (H100, "float16", True)], [0]),
    "what was timed after other work too": ([(H200, "float16", False), (H100, "float16", True)], [1]),
    "... of the twin in another table": ([(H200, "float16", False), (H100, "bfloat16", True)], [1]),
    "... of the twin in the same table": ([(H200, "float16", False), (H200, "bfloat16", True)], [1]),
    "both twins in one table": ([(H200, "float16", True), (H200, "bfloat16", True)], [0, 1]),
    "runs back to back where there are no others": ([(H200, "float16", False), (H100, "float16", False)], [0]),
}


@pytest.mark.parametrize("name", COUNTS)
def test_that_counts(name):
    given, expected = COUNTS[name]
    entries = [entry(case, apart, 1.0 + number) for number, (_, case, apart) in enumerate(given)]
    tables = [
        table(gpu, *(one for one, (of, _, _) in zip(entries, given, strict=True) if of == gpu)) for gpu in (H200, H100)
    ]
    assert [one for _, one in that_count(tables, lambda _: True)] == [entries[number] for number in expected]


def test_what_is_not_usable_does_not_keep_others_from_counting():
    own, other = entry("float16", True, 1.0), entry("float16", False, 2.0)
    assert [one for _, one in that_count([table(H200, own), table(H100, other)], lambda one: not one.apart)] == [other]


def test_a_kernel_that_has_no_other_times_counts_next_to_those_that_have():
    anew, before = entry("float16", True, 1.0), entry("float16", False, 2.0)
    skinny = before.model_copy(update={"kernel": "skinny", "config": dict(find("skinny").config())})
    found = [one for _, one in that_count([table(H200, anew, before, skinny), table(H100, skinny)], lambda _: True)]
    assert found == [anew, skinny]


@pytest.mark.parametrize(("promise", "counts"), [(None, "exact"), ("ieee", "exact"), ("fp16x3", "weaker")])
def test_a_table_without_kernels_of_a_weaker_precision_does_not_hide_another_s(promise, counts):
    of_terms = {
        name: entry("float16", True, 1.0).model_copy(
            update={"kernel": kernel, "config": dict(find(kernel).config()), "case": "NN float32"}
        )
        for name, kernel in (("exact", "gemm_bf16x6"), ("weaker", "gemm_fp16x3"))
    }
    tables = [table(H100, of_terms["exact"]), table(H200, of_terms["weaker"])]
    assert [one for _, one in that_count(tables, lambda _: True, promise)] == [of_terms[counts]]
