"""Speeds and ratios in tables: what is printed divides, in every table that is made."""

import re
from itertools import groupby

import pytest

from tilewright.core.errors import RecordsError
from tilewright.tools.report import ratios

WORKLOG = (*(f"docs/worklog/{n:02}_*.md" for n in range(1, 24)), "docs/worklog/sources.md")
PAGES = ("README.md", "docs/results.md", "docs/records.md", "docs/tuning.md", "docs/worklog/measured.md", *WORKLOG)


@pytest.mark.parametrize(
    ("gflops", "text"), [(0.0, "0"), (0.5, "0.5000"), (14.376, "14.38"), (126.1, "126.1"), (54945.4, "54,945")]
)
def test_a_speed_has_four_digits_at_least(gflops, text):
    assert ratios.speed(gflops) == text


def test_a_ratio_is_that_of_the_speeds_as_printed(make_record):
    record = make_record(gflops=14.376, ratio=14.376 / 2469.0)
    assert ratios.ratio(record) == 14.38 / 2469
    assert ratios.share(record, decimals=3) == "0.582%"
    assert ratios.share(make_record(baseline=None, ratio=None)) == ""


def test_a_ratio_that_is_not_of_its_two_speeds_is_refused(make_record):
    with pytest.raises(RecordsError, match=r"ratio 0.5200 of naive at 64x64x64 is not that of its 1,234.5 GFLOP/s"):
        ratios.share(make_record(ratio=0.52))


def tables(text):
    """Each Markdown table of a page: its rows as lists of cells, the headings first."""
    for is_row, lines in groupby(text.splitlines(), key=lambda line: line.startswith("|")):
        if is_row:
            rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
            yield [rows[0], *rows[2:]]


def number(cell):
    """The speed in a cell, as in '402,263 (tf32)'."""
    return float(cell.split(" ")[0].replace(",", ""))


def quotients(heads, row):
    """Each printed ratio of a row, and the two printed speeds that it must be the quotient of."""
    speeds = [place for place, head in enumerate(heads) if "GFLOP/s" in head]
    for place, (head, cell) in enumerate(zip(heads, row, strict=True)):
        if not cell:
            continue
        if head in ("of cuBLAS", "ratio") and place:
            before = max(at for at in speeds if at < place)
            yield cell, row[before], row[place - 1]
        elif head == "times":
            yield cell, row[place - 1], row[place - 2]
        elif in_brackets := re.fullmatch(r"(\S+) \((\S+%)\)", cell):
            yield in_brackets[2], in_brackets[1], row[-1]


def test_every_printed_ratio_divides(request):
    checked = 0
    root = request.config.rootpath
    for page in (page for pattern in PAGES for page in root.glob(pattern)):
        for heads, *rows in tables(page.read_text()):
            if heads[-1] == "ratio":  # of many problems
                continue
            for row in rows:
                for printed, ours, baseline in quotients(heads, row):
                    value = number(ours) / number(baseline) * (100 if "%" in printed else 1)
                    digits = re.sub("[%x]", "", printed)
                    decimals = len(digits.partition(".")[2])
                    assert f"{value:.{decimals}f}" == digits, f"{page.name}: {ours} over {baseline} is not {printed}"
                    checked += 1
    assert checked > 300


def test_a_printed_percentage_that_does_not_divide_is_found():
    old = "| rung | GFLOP/s | cuBLAS | of cuBLAS |\n| --- | --- | --- | --- |\n| 15 | 54,945 | 51,399 | 110.7% |"
    ((heads, row),) = tables(old)
    ((printed, ours, baseline),) = quotients(heads, row)
    assert (printed, f"{100 * number(ours) / number(baseline):.1f}%") == ("110.7%", "106.9%")
