"""The record of a mutation run, and its table."""

import json
from collections import Counter
from pathlib import Path

from tilewright.emulator.engine import EmulatorEngine
from tilewright.tools.bench.environment import environment

from .equivalent import REASONS
from .judge import CHECK, LOST, MORE, REFUSED, SURVIVED, Verdict
from .operators import Mutant
from .subjects import RECORD, SUBJECTS, Subject, subject

PATH = RECORD
PAGE = Path(__file__).parents[2] / "docs" / "emulator.md"
BEGIN, END = "<!-- mutation -->", "<!-- end mutation -->"


def entry(of: Subject, mutant: Mutant, verdict: Verdict) -> dict:
    """Entry of a mutant in the record."""
    text = of.path.read_text()
    facts = {
        "of": of.name,
        **mutant._asdict(),
        "text": text.split("\n")[mutant.line - 1].strip(),
        **verdict._asdict(),
    }
    return explained(facts)


def explained(one: dict) -> dict:
    """With the reason why it is no bug, where one is known."""
    one = {key: value for key, value in one.items() if key != "equivalent"}
    why = REASONS.get((one["file"], one["operator"], one["text"])) if one["found_by"] == SURVIVED else None
    return {**one, "equivalent": why} if why else one


def write(entries: list[dict], path: Path = PATH) -> None:
    """Write a record: one line for each mutant, and how many of each file were not run."""
    run = Counter(one["of"] for one in entries)
    order = {name: i for i, name in enumerate(dict.fromkeys((*SUBJECTS, *run)))}
    left = {name: len(subject(name).mutants) - run[name] for name in order}
    entries = sorted(entries, key=lambda one: (order[one["of"]], one["file"], one["line"], one["column"]))
    not_run = {name: count for name, count in left.items() if count}
    facts = {"format": 1, "environment": environment(EmulatorEngine()), "not_run": not_run}
    head = json.dumps(facts, indent=1)[:-2]
    lines = ",\n".join("  " + json.dumps(one) for one in entries)
    path.write_text(f'{head},\n "mutants": [\n{lines}\n ]\n}}\n')


def table(record: dict, by: str = "of") -> str:
    """In Markdown: of each file, or operator, the mutants that are bugs, and what finds them."""
    keys = list(dict.fromkeys(one[by] for one in record["mutants"]))
    rows = [_row(key, [one for one in record["mutants"] if one[by] == key]) for key in sorted(keys, key=_place_of)]
    rows.append(_row("all", record["mutants"]))
    columns = (
        "file" if by == "of" else by,
        "bugs",
        "found by `check`",
        "of these, crash or hang",
        "by more shapes and configs",
        "survive",
        "wrong results",
        "equivalent",
    )
    head = f"| {' | '.join(columns)} |"
    return "\n".join([head, "| --- |" + " ---: |" * 7, *rows])


def _place_of(key: str) -> tuple[int, str]:
    return (SUBJECTS.index(key) if key in SUBJECTS else 0), key


def _row(key: str, entries: list[dict]) -> str:
    bugs = [one for one in entries if "equivalent" not in one and one["found_by"] != REFUSED]
    counts = Counter(one["found_by"] for one in bugs)
    share = f"{counts[CHECK]} ({100 * counts[CHECK] // len(bugs)}%)" if bugs else "0"  # 100% are all of them
    lost = sum(one["found_by"] == CHECK and one["how"] in LOST for one in bugs)
    wrong = sum(one["wrong"] for one in bugs)
    equivalent = sum("equivalent" in one for one in entries)
    return f"| {key} | {len(bugs)} | {share} | {lost} | {counts[MORE]} | {counts[SURVIVED]} | {wrong} | {equivalent} |"


def page(record: dict) -> str:
    """Tables that docs/emulator.md shows of a record."""
    bugs = [one for one in record["mutants"] if "equivalent" not in one and one["found_by"] == SURVIVED]
    head = "| survives | change | line |\n| --- | --- | --- |"
    rows = [
        f"| {one['file']}:{one['line']} | {one['operator']} | `{one['text'].replace('|', chr(92) + '|')}` |"
        for one in bugs
    ]
    parts = [table(record), table(record, "operator"), "\n".join([head, *rows])]
    if record["not_run"]:
        left = ", ".join(f"{count} of {name}" for name, count in record["not_run"].items())
        parts.append(f"Mutants that were not run: {left}.")
    return "\n\n".join(parts)


def update_page(record: dict, path: Path = PAGE) -> None:
    """Put it there."""
    before, _, rest = path.read_text().partition(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{page(record)}\n{END}{rest.partition(END)[2]}")
