"""Mutates the ladder's sources, runs `check` on each mutant, and records what finds it.

python -m tests.mutation                        every kernel and header of subjects.py
python -m tests.mutation naive wgmma            these; the record's others stay
python -m tests.mutation --list naive           mutants, not run
python -m tests.mutation --survivors wgmma      only mutants that the record says survive
python -m tests.mutation --operator guard       only mutants of this operator; may be given several times
python -m tests.mutation --host ...             what the tests find of faults anywhere: see --host --help
"""

import argparse
import json
import os
import sys
import tempfile
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TILEWRIGHT_EMULATOR_OPTIMIZE", "1")

from tilewright.emulator.program import load_runtime
from tilewright.runtime.cache import FOLDER_VARIABLE

from . import host, record
from .judge import SURVIVED, judge
from .operators import OPERATORS
from .subjects import SUBJECTS, subject


def main() -> None:
    if "--host" in sys.argv[1:]:
        host.main([argument for argument in sys.argv[1:] if argument != "--host"])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=SUBJECTS, metavar="NAME")
    parser.add_argument("--list", action="store_true", help="print mutants and run none")
    parser.add_argument("--survivors", action="store_true", help="run only those that survive by the record")
    names = list(dict.fromkeys(one.name for one in OPERATORS))
    parser.add_argument("--operator", action="append", choices=names, help="run only those of this operator")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="mutants that are checked side by side")
    parser.add_argument(
        "--docs", action="store_true", help="put reasons into the record and its tables into docs/emulator.md; run none"
    )
    arguments = parser.parse_args()
    known = json.loads(record.PATH.read_text())["mutants"] if record.PATH.exists() else []
    if arguments.docs:
        record.write([record.explained(one) for one in known])
        record.update_page(json.loads(record.PATH.read_text()))
        return
    operators = arguments.operator or names
    mutants = [
        (one, mutant) for one in map(subject, arguments.names) for mutant in one.mutants if mutant.operator in operators
    ]
    if arguments.survivors:
        surviving = {_place(one) for one in known if one["found_by"] == SURVIVED and "equivalent" not in one}
        mutants = [(of, one) for of, one in mutants if (of.name, one.file, *one[1:4]) in surviving]
    if arguments.list:
        for of, one in mutants:
            print(f"{of.name:<16} {one.file}:{one.line} {one.operator}: {one.before} -> {one.after}")
        print(len(mutants))
        return
    entries = {
        _place(one): one
        for one in known
        if arguments.survivors or one["of"] not in arguments.names or one["operator"] not in operators
    }
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER_VARIABLE] = folder  # mutants are not worth the user's cache
        load_runtime()
        started = time.monotonic()
        for done, (of, mutant, verdict) in enumerate(judge(mutants, arguments.at_once), 1):
            one = record.entry(of, mutant, verdict)
            entries[_place(one)] = one
            what = f"{mutant.file}:{mutant.line} {mutant.before} -> {mutant.after}"
            print(f"{done}/{len(mutants)} {time.monotonic() - started:.0f} s {of.name} {what}: {verdict}", flush=True)
            if done % 4 == 0 or done == len(mutants):
                record.write(list(entries.values()))


def _place(one: dict) -> tuple:
    return one["of"], one["file"], one["operator"], one["line"], one["column"]


if __name__ == "__main__":
    main()
