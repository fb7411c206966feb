"""Makes tuned tables of what was measured: `python -m studies.tuning.merge RUN.json... -o TABLE.json`.

RUN.json is what `tilewright tune --json` or `tilewright bench --json` wrote; a file that ends in .jsonl is a journal of
tuning. A table that is there already is added to: entries of the same problem, kernel and config are replaced.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from studies.runner import reporting
from tilewright.core.errors import RecordsError
from tilewright.core.files import Output, check_outputs
from tilewright.core.gpus import capability_of
from tilewright.core.problem import Scalars
from tilewright.kernels import find
from tilewright.select.tables.entry import Entry
from tilewright.select.tables.store import SHIPPED
from tilewright.select.tables.table import KIND, Table, file_name
from tilewright.tools.bench.records import Record, Run
from tilewright.tools.tune.entries import is_promising, of_records
from tilewright.tools.tune.journal import Trial, read, source_digest


@reporting
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.tuning.merge", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="RUN.json", help="records, or journals (.jsonl)")
    parser.add_argument("-o", "--output", type=Path, metavar="TABLE.json", help="default: the package's of this GPU")
    options = parser.parse_args(arguments)
    path, table = merge(options.files, options.output)
    shapes = {entry.problem for entry in table.entries}
    print(f"{path}: {table.gpu}, {len(shapes)} problems, {len(table.entries)} entries")
    return 0


def merge(files: Sequence[Path], output: Path | None = None) -> tuple[Path, Table]:
    """Add files of records and journals to a table; returns its file and what it now holds.

    Raises:
        PathError: the table's file is one of those, or holds something else.
        RecordsError: a file cannot be read, none says which GPU it is of, they are of several, or the table cannot be
            written.
    """
    check_outputs([Output("--output", output, KIND)], files)
    runs = [Run.load(file) for file in files if file.suffix != ".jsonl"]
    trials = [trial for file in files if file.suffix == ".jsonl" for trial in read(file)]
    gpus = {_gpu(run) for run in runs}
    if output and output.exists():
        before = Table.load(output)
        gpus.add((before.gpu, before.capability))
    if len(gpus) != 1:
        names = ", ".join(sorted(name for name, _ in gpus)) or "none that says which"
        raise RecordsError(f"a table is of one GPU, and at least one file of records must say of which; got {names}")
    (gpu, capability), *_ = gpus
    path = output or SHIPPED / file_name(gpu)
    before = Table.load(path) if path.exists() else Table(gpu, capability)
    entries = of_journal([trial for trial in trials if trial.device == gpu])
    timed_both_ways = {_problem_of(record) for run in runs for record in run.records if record.after_other_work_us}
    for run in sorted(runs, key=lambda run: str(run.environment.get("date"))):  # what was measured last replaces
        # Times of runs back to back alone are shorter than the means that they would be compared with.
        records = [one for one in run.records if one.after_other_work_us or _problem_of(one) not in timed_both_ways]
        entries += of_records(records, run.environment.get("revision"))
    table = before.merged(entries)
    table.save(path)
    return path, table


def of_journal(trials: Iterable[Trial]) -> list[Entry]:
    """Entries of each problem's and kernel's fastest trial, where the kernel's source is still that which was tried."""
    by_problem: dict[object, list[Trial]] = {}
    for trial in trials:
        usable = trial.outcome == "timed" and trial.gflops and trial.scalars == Scalars()
        if usable and is_promising(trial.kernel) and source_digest(find(trial.kernel)) == trial.digest:
            by_problem.setdefault(trial.problem, []).append(trial)
    chosen: list[Trial] = []
    for tried in by_problem.values():
        tried.sort(key=lambda trial: trial.gflops or 0)
        chosen += {trial.kernel: trial for trial in tried}.values()
    facts = [trial.model_dump(include={"m", "n", "k", "batch", "case", "kernel", "config"}) for trial in chosen]
    return [Entry(**one, gflops=trial.gflops or 0) for one, trial in zip(facts, chosen, strict=True)]


def _problem_of(record: Record) -> tuple[str, str, str]:
    """Shape, case and kernel of a record."""
    return record.shape, record.case, record.picked or record.kernel


def _gpu(run: Run) -> tuple[str, tuple[int, int]]:
    gpu: Any = run.environment.get("gpu")
    try:
        return gpu["name"], capability_of(gpu["compute_capability"])
    except (TypeError, KeyError, ValueError):
        raise RecordsError("the records are not of a GPU: their environment names none") from None


if __name__ == "__main__":
    raise SystemExit(main())
