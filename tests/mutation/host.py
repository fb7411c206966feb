"""Plants faults one by one, runs tests, and says which of them finds each: what the tests guard.

python -m tests.mutation --host                             every fault, all tests
python -m tests.mutation --host --tests "-m 'not further'"  the tests that these arguments of pytest select
python -m tests.mutation --host --only relu                 faults whose names have this
python -m tests.mutation --host --survivors                 only those that no test has found by the record
python -m tests.mutation --host --list                      names, not run
python -m tests.mutation --host --draw 7                    draw faults by a seed until 20 have an effect, not run

Each is planted into a copy of the checkout: nothing else is changed, and an interrupt leaves nothing behind. The record
has what every selection of tests has found so far; the table shows it.
"""

import argparse
import json
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.core.files import write_whole

from .drawing import draw
from .faults import AREAS, Fault, without_effect
from .guarding import Guard, SelectionError, Verdict
from .planting import PlantingError

CHECKOUT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("found.json")
DEADLINE_S = 3600.0

_Record = dict[str, dict[str, Any]]
"""Names of the tests that found each fault, by selection of tests and by fault."""


def main(arguments: Sequence[str]) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        "python -m tests.mutation --host", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tests", default="", metavar="ARGUMENTS", help="arguments of pytest that select tests")
    parser.add_argument("--only", action="append", metavar="NAME", help="part of the name of a fault, or its area")
    parser.add_argument("--survivors", action="store_true", help="only faults that are not found by the record")
    parser.add_argument("--list", action="store_true", help="print names and run none")
    parser.add_argument("--draw", type=int, metavar="SEED", help="draw faults and run none")
    parser.add_argument("--jobs", default="auto", metavar="N", help="processes of pytest (-n)")
    parser.add_argument("--deadline", type=float, default=DEADLINE_S, metavar="S", help="seconds for one fault's tests")
    parser.add_argument("--record", type=Path, default=RECORD, metavar="PATH", help="where it is kept")
    given = parser.parse_args(arguments)
    if given.draw is not None:
        draw(CHECKOUT, given.draw)
        return
    record = read(given.record)
    chosen = [
        (area, fault)
        for area, faults in AREAS.items()
        for fault in faults
        if not given.only or any(part in fault.name or part == area for part in given.only)
    ]
    if given.survivors:
        chosen = [(area, one) for area, one in chosen if not any(_found(record[by], one) for by in record)]
    if not chosen:
        parser.error("there is no such fault")
    if given.list:
        for area, fault in chosen:
            print(f"{area:<20} {fault.name}{f': {fault.meets}' if fault.meets else ''}")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that copies are removed
    try:
        run([fault for _, fault in chosen], given.tests, given.jobs, given.deadline, record, given.record)
    except (PlantingError, SelectionError) as error:
        sys.exit(str(error))
    print(table(record))


def run(
    faults: Sequence[Fault],
    tests: str,
    jobs: str,
    deadline_s: float,
    record: _Record,
    path: Path,
    checkout: Path = CHECKOUT,
) -> None:
    """Judge faults, and add what comes of each to a record, which is written as it comes.

    Args:
        faults: what is planted.
        tests: the selection, as a line of arguments of pytest.
        jobs, deadline_s: as of `Guard`.
        record, path: what is known, and its file.
        checkout: of which a copy is made.

    Raises:
        PlantingError, SelectionError: as `Guard.judge`; before anything is run where some fault cannot be planted.
    """
    with Guard(checkout, jobs, deadline_s) as guard:
        for fault in faults:
            guard.sources.file_of(fault)
        for number, fault in enumerate(faults, 1):
            verdict = guard.judge(fault, shlex.split(tests))
            record.setdefault(tests, {})[fault.name] = {
                "found_by": verdict.found_by,
                "seconds": round(verdict.seconds, 1),
            }
            write_whole(path, (json.dumps(record, indent=1) + "\n").encode())
            print(f"{number}/{len(faults)} {fault.name}: {_words(verdict)}", flush=True)


def read(path: Path) -> _Record:
    """A record; an empty one where there is none."""
    found: _Record = json.loads(path.read_text()) if path.exists() else {}
    return found


def table(record: _Record) -> str:
    """Text of the faults that each selection of tests has found, by area, and then of those that it has not."""
    lines = []
    for tests, found in record.items():
        lines.append(f"\n{'pytest ' + tests if tests else 'all tests'}")
        for area, faults in AREAS.items():
            judged = [fault for fault in faults if fault.name in found]
            if judged:
                lines.append(f"    {area:<20} {sum(_found(found, one) for one in judged)} of {len(judged)} found")
        missed = [fault for faults in AREAS.values() for fault in faults if fault.name in found]
        lines += [f"    not found: {fault.name}" for fault in missed if not _found(found, fault)]
    if reasons := without_effect():
        lines += ["\nno bugs, and left out", *[f"    {name}: {reason}" for name, reason in reasons.items()]]
    return "\n".join(lines)


def _found(by: dict[str, Any], fault: Fault) -> bool:
    return fault.name in by and by[fault.name]["found_by"] is not None


def _words(verdict: Verdict) -> str:
    return f"{'not found' if verdict.found_by is None else verdict.found_by} in {verdict.seconds:.0f} s"
