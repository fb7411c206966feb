"""A sample of the mutation run (`python -m tests.mutation`), and its record."""

import json
from collections import Counter

from mutation import record
from mutation.equivalent import REASONS
from mutation.judge import CHECK, judge
from mutation.operators import mutants_of
from mutation.subjects import SUBJECTS, subject

SAMPLE = {
    ("naive", "comparison", 0): "out of bounds",
    ("shared_tiled", "no barrier", 1): "race",
    ("vectorized", "no barrier", 0): "uninitialized read",
    ("async_copy", "one more pending", 0): "unfinished copy",
    ("wgmma", "no fence", 0): "missing fence",
    ("specialised", "no arrival", 0): "barrier",
}
"""Which mutant of an operator in a file, counted from 0, and the kind of what is found first."""


def test_check_finds_a_sample_of_mutants_with_its_defaults():
    chosen = {}
    for name, operator, index in SAMPLE:
        of = subject(name)
        chosen[name] = of, [one for one in of.mutants if one.operator == operator][index]
    verdicts = {of.name: verdict for of, _, verdict in judge(chosen.values(), fully=False)}
    assert {name: verdict.how for name, verdict in verdicts.items()} == {
        name: kind for (name, *_), kind in SAMPLE.items()
    }
    assert {verdict.found_by for verdict in verdicts.values()} == {CHECK}


def test_operators_change_one_place():
    text = "if (a < b && c >= d) return;\n__syncthreads();  // a < b\nwait_copies<N - 2>();\nstatic_assert(a < b);"
    changed = [one.apply(text).split("\n") for one in mutants_of(text, "")]
    lines = text.split("\n")
    assert all(sum(was != now for was, now in zip(lines, one, strict=True)) == 1 for one in changed)
    assert [one[0] for one in changed if one[0] != lines[0]] == [
        "if (a <= b && c >= d) return;",
        "if (a < b && c > d) return;",
        "if (a < b || c >= d) return;",
        "if (a < b && c >= d) ;",
    ]
    assert [one[1:3] for one in changed[4:]] == [
        [";  // a < b", lines[2]],
        [lines[1], ";"],
        [lines[1], "wait_copies<N - 2 + 1>();"],
    ]


def test_the_record_is_of_today_s_lines_and_shown_as_it_is():
    found = json.loads(record.PATH.read_text())
    recorded = Counter(one["of"] for one in found["mutants"]) + Counter(found["not_run"])
    expected = Counter({name: len(subject(name).mutants) for name in SUBJECTS})
    behind = [name for name in SUBJECTS if recorded[name] != expected[name]]
    assert not behind, f"run python -m tests.mutation {' '.join(behind)}, then python -m tests.mutation --docs"
    assert recorded == expected
    assert [record.explained(one) for one in found["mutants"]] == found["mutants"]
    assert f"{record.BEGIN}\n{record.page(found)}\n{record.END}" in record.PAGE.read_text()


def test_reasons_are_of_lines_that_there_are():
    texts = {one.file: one.path.read_text() for one in map(subject, SUBJECTS)}
    for file, _, line in REASONS:
        assert any(line == one.strip() for one in texts[file].split("\n")), (file, line)
