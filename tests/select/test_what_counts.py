"""Which measurements of tables count, where a problem is in several tables, or was timed in two ways."""

from dataclasses import replace

import pytest

from tilewright.kernels import find
from tilewright.select.counted import that_count
from tilewright.select.tables.cases import Case
from tilewright.select.tables.entry import Entry
from tilewright.select.tables.table import Table

H200, H100 = "NVIDIA H200", "NVIDIA H100 80GB HBM3"
CONFIG = dict(find("gemm_sm90").config())


def entry(case, after_other_work, gflops):
    case = f"NN {case}->{case}"
    return Entry(
        m=1000,
        n=1000,
        k=1000,
        batch=1,
        case=case,
        kernel="gemm_sm90",
        config=CONFIG,
        gflops=gflops,
        after_other_work=after_other_work,
    )


def speeds(tables, case, *asked):
    """The speeds that count, by which entries are known here."""
    found = that_count([Table.of(gpu, (9, 0), entries) for gpu, entries in tables], Case.parse(case), *asked)
    return found.gflops.tolist()


COUNTS = {
    "the first table's": ([(H200, "float16", True), (H100, "float16", True)], [0]),
    "what was timed after other work too": ([(H200, "float16", False), (H100, "float16", True)], [1]),
    "... of the same speed in another table": ([(H200, "float16", False), (H100, "bfloat16", True)], [1]),
    "... of the same speed in the same table": ([(H200, "float16", False), (H200, "bfloat16", True)], [1]),
    "its own of two of the same speed in one table": ([(H200, "float16", True), (H200, "bfloat16", True)], [0]),
    "runs back to back where there are no others": ([(H200, "float16", False), (H100, "float16", False)], [0]),
}


@pytest.mark.parametrize("name", COUNTS)
def test_that_counts(name):
    given, expected = COUNTS[name]
    entries = [entry(case, after_other_work, 1.0 + number) for number, (_, case, after_other_work) in enumerate(given)]
    tables = [(gpu, [one for one, (of, _, _) in zip(entries, given, strict=True) if of == gpu]) for gpu in (H200, H100)]
    assert speeds(tables, "NN float16->float16") == [entries[number].gflops for number in expected]


def test_what_is_not_usable_does_not_keep_others_from_counting():
    rounds, other = entry("float16", True, 1.0), entry("float16", False, 2.0)
    rounds, other = (replace(one, case="NN float32") for one in (rounds, other))
    rounds = replace(rounds, kernel="gemm_tf32", config=dict(find("gemm_tf32").config()))
    other = replace(other, kernel="split_k", config=dict(find("split_k").config()))
    tables = [(H200, [rounds]), (H100, [other])]
    assert speeds(tables, "NN float32") == [2.0]
    assert speeds(tables, "NN float32", "tf32") == [1.0, 2.0]
    assert speeds(tables, "NN float32", "tf32", None, True) == [1.0]


def test_a_kernel_that_has_no_other_times_counts_next_to_those_that_have():
    anew, before = entry("float16", True, 1.0), entry("float16", False, 2.0)
    skinny = replace(entry("float16", False, 3.0), kernel="skinny", config=dict(find("skinny").config()))
    found = speeds([(H200, [anew, before, skinny]), (H100, [skinny])], "NN float16->float16")
    assert sorted(found) == [1.0, 3.0]


@pytest.mark.parametrize(("promise", "counts"), [(None, "exact"), ("ieee", None), ("fp16x3", "weaker")])
def test_a_table_without_kernels_of_a_weaker_precision_does_not_hide_another_s(promise, counts):
    of_parts = {
        name: replace(
            entry("float16", True, gflops), kernel=kernel, config=dict(find(kernel).config()), case="NN float32"
        )
        for name, kernel, gflops in (("exact", "gemm_bf16x6", 1.0), ("weaker", "gemm_fp16x3", 2.0))
    }
    tables = [Table.of(H100, (9, 0), [of_parts["exact"]]), Table.of(H200, (9, 0), [of_parts["weaker"]])]
    found = that_count(tables, Case.parse("NN float32"), promise)
    assert (found and found.gflops.tolist()) == (counts and [of_parts[counts].gflops])
